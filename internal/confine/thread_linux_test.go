package confine

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// programs are what a shell needs.
var programs = []Rule{{Access: Read, Path: "/usr"}, {Access: Read, Path: "/bin"}, {Access: Read, Path: "/lib"}, {Access: Read, Path: "/lib64"}, {Access: Read, Path: "/etc"}, {Access: Write, Path: "/dev/null"}}

func TestStartRestrictsOnlyWhatItStarts(t *testing.T) {
	if Version() == 0 {
		t.Skip("this kernel has no Landlock")
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"read", "write", "outside"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name, "file"), []byte(name+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("outside", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	rules := append([]Rule{{Access: Read, Path: dir + "/read"}, {Access: Write, Path: dir + "/write"}, {Access: Write, Path: dir + "/link"}, {Access: Read, Path: dir + "/absent"}}, programs...)
	for command, want := range map[string]string{
		"cat read/file":  "read",
		"cat write/file": "write",
		"cat outside/file 2>/dev/null || echo no":                           "no",
		"cat link/file 2>/dev/null || echo no":                              "no",
		"(echo x > read/new) 2>/dev/null; ls read":                          "file",
		"echo x > write/new; cat write/new":                                 "x",
		"(echo x > link/file) 2>/dev/null; echo no":                         "no",
		"ln -s ../outside write/l; cat write/l/file 2>/dev/null || echo no": "no",
	} {
		var out []byte
		if err := Start(rules, func() {
			cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", command)
			cmd.Dir = dir
			out, _ = cmd.Output()
		}); err != nil {
			t.Fatal(err)
		}
		if got := strings.TrimSpace(string(out)); got != want {
			t.Errorf("%s: got %q, want %q", command, got, want)
		}
	}
	if b, err := os.ReadFile(filepath.Join(dir, "outside", "file")); err != nil || string(b) != "outside\n" {
		t.Errorf("this process, or the file outside: %q %v", b, err)
	}
}

// The first thread of a process cannot end, so what runs on it runs in another
// one.
func TestStartNeverRestrictsTheFirstThread(t *testing.T) {
	if Version() == 0 {
		t.Skip("this kernel has no Landlock")
	}
	privileges := func() string { // those that the first thread has given up
		status, err := os.ReadFile("/proc/self/status")
		if err != nil {
			t.Fatal(err)
		}
		_, line, _ := strings.Cut(string(status), "NoNewPrivs:")
		line, _, _ = strings.Cut(line, "\n")
		return line
	}
	before := privileges()
	for range 50 {
		if err := Start(programs, func() {}); err != nil {
			t.Fatal(err)
		}
	}
	if after := privileges(); after != before {
		t.Errorf("the first thread is restricted: NoNewPrivs was%s, is%s", before, after)
	}
}
