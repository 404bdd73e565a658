package main

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// serving starts a server on new data, and returns its data directory.
func serving(t *testing.T, flags ...string) string {
	t.Helper()
	data := filepath.Join(t.TempDir(), "data")
	cmd := exec.Command("runnel", append([]string{"serve", "--listen", "127.0.0.1:0", "--data", data}, flags...)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_, _ = io.Copy(io.Discard, lines)
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
	for {
		line, err := lines.ReadString('\n')
		if strings.Contains(line, "#c=") {
			return data
		}
		if err != nil {
			t.Fatal("the server did not start")
		}
	}
}

func TestLoginOnATerminalShowsACodeForAPhone(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	here, elsewhere := serving(t), serving(t, "--proxied", "--origin", "https://runnel.example.org")
	for _, c := range []struct {
		data, sees, not string
		width           uint16
	}{
		{here, "For a phone, start the server with --lan; or with --origin", "▀", 100},
		{elsewhere, "▀▀▀▀▀", "--lan", 100},
		{elsewhere, "The code needs a terminal of 41 columns; this one has 30", "▀", 30},
	} {
		tm := newTerminal(t, c.width)
		cmd := tm.start(t, "login", "--data", c.data)
		code := tm.rest(t, cmd)
		if text := tm.seen.String(); code != exitOK || !strings.Contains(text, "/#c=rnl_") || !strings.Contains(text, c.sees) || strings.Contains(text, c.not) {
			t.Errorf("on %d columns: exit %d\n%s", c.width, code, text)
		}
	}
}
