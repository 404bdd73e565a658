package extract

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

type line struct {
	Dir  string `json:"dir"`
	Line string `json:"line"`
}

// recording returns the lines of a recording, both as bytes and decoded.
func recording(t *testing.T, file string) (raw []byte, lines []line) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := bytes.Cut(text, []byte("\n-- in --\n"))
	if !ok {
		t.Fatalf("%s has no recorded lines", file)
	}
	raw, _, _ = bytes.Cut(rest, []byte("\n-- "))
	for l := range bytes.Lines(raw) {
		var one line
		if err := json.Unmarshal(l, &one); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, one)
	}
	return raw, lines
}

// intended lists the differences that are intended: for each recording, how the
// text of the difference begins.
var intended = map[string]string{
	// The background task and its turn ended before this output.
	"claude-code/background-left@2.1.197": "output toolu_b6e816de18_0_1_1 missing",
	// The denial cancelled the turn, but the agent reports that the turn
	// completed.
	"qwen/denied-stop@0.24.4": "ends: raw [completed completed], events [cancelled completed]",
}

func TestEveryRecordingIsTranslatedAsItReads(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the program")
	}
	binary := os.Getenv("RUNNEL_BIN")
	if binary == "" {
		binary = filepath.Join(t.TempDir(), "runnel")
		build := exec.Command("go", "build", "-o", binary, "github.com/runnel-dev/runnel/cmd/runnel")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	files := 0
	err := filepath.WalkDir("../../provider", func(path string, d fs.DirEntry, err error) error {
		if err == nil && (d.Name() == "terminal" || d.Name() == "stored") {
			return fs.SkipDir // files that an agent stored, not a recording of the protocol
		}
		if err != nil || filepath.Ext(path) != ".txtar" {
			return err
		}
		files++
		parts := strings.Split(filepath.ToSlash(path), "/") // ../../provider/KIND/testdata/[AGENT/]NAME
		agent := parts[len(parts)-2]
		reader := ofACP(agent)
		switch parts[3] {
		case "claude":
			agent, reader = "claude-code", ofClaude
		case "codex":
			agent, reader = "codex", ofCodex
		}
		name := strings.TrimSuffix(d.Name(), ".txtar")
		t.Run(agent+"/"+name, func(t *testing.T) {
			t.Parallel()
			raw, lines := recording(t, path)
			cmd := exec.Command(binary, "translate", "--agent", agent, "-")
			cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
			cmd.Stdin = bytes.NewReader(raw)
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("translate: %v", err)
			}
			got, err := ofEvents(out)
			if err != nil {
				t.Fatal(err)
			}
			known := intended[agent+"/"+name]
			for _, diff := range differences(reader(lines), got) {
				if known != "" && strings.HasPrefix(diff, known) {
					known = ""
					continue
				}
				t.Error(diff)
			}
			if known != "" {
				t.Errorf("no longer so: %s", known)
			}
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 200 {
		t.Errorf("only %d recordings were found", files)
	}
}
