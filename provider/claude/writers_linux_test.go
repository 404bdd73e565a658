package claude

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/procinfo"
)

const aConversation = "95db45f4-491b-4607-9186-876e7b9d13b2"

// TestWritersBelievesOnlyRunningProcesses checks the agent's registry, which
// any program of the user can write.
func TestWritersBelievesOnlyRunningProcesses(t *testing.T) {
	config := t.TempDir()
	p := New().WithProgram(nil, []string{"CLAUDE_CONFIG_DIR=" + config}).(*Provider)
	if _, known := p.Writers(t.Context()); known {
		t.Error("without a registry, writers are known")
	}
	dir := filepath.Join(config, "sessions")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	other := exec.Command("sleep", "60")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Process.Kill(); _ = other.Wait() })
	pid := other.Process.Pid
	r, ok := procinfo.RunningProcess(pid, "")
	if !ok {
		t.Fatal("the process does not run")
	}
	file := filepath.Join(dir, fmt.Sprintf("%d.json", pid))
	for what, c := range map[string]struct {
		data string
		want int
	}{
		"a running process":            {fmt.Sprintf(`{"pid":%d,"sessionId":%q,"procStart":%q}`, pid, aConversation, r.Start), 1},
		"a process of an old version":  {fmt.Sprintf(`{"pid":%d,"sessionId":%q}`, pid, aConversation), 1},
		"a pid that was reused":        {fmt.Sprintf(`{"pid":%d,"sessionId":%q,"procStart":"1"}`, pid, aConversation), 0},
		"the pid of another process":   {fmt.Sprintf(`{"pid":%d,"sessionId":%q}`, os.Getppid(), aConversation), 0},
		"no conversation":              {fmt.Sprintf(`{"pid":%d,"sessionId":"../x"}`, pid), 0},
		"a file of an unexpected type": {`[1]`, 0},
		"a file that is too long":      {fmt.Sprintf(`{"x":"%0*d","pid":%d,"sessionId":%q}`, maxRegistryRow, 0, pid, aConversation), 0},
	} {
		if err := os.WriteFile(file, []byte(c.data), 0o600); err != nil {
			t.Fatal(err)
		}
		list, known := p.Writers(t.Context())
		if len(list) != c.want || !known {
			t.Errorf("%s: %+v, %v", what, list, known)
		}
		if len(list) == 1 && (list[0].PID != pid || list[0].AgentSessionID != aConversation || list[0].Source != runnel.WriterRegistry || list[0].Start != r.Start) {
			t.Errorf("%s: %+v", what, list[0])
		}
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(file, 0o600); err != nil { // opening it would block
		t.Fatal(err)
	}
	if list, _ := p.Writers(t.Context()); len(list) != 0 {
		t.Errorf("a pipe: %+v", list)
	}
}

func TestWrittenIsTheTimeOfTheNewestFile(t *testing.T) {
	config := t.TempDir()
	p := New().WithProgram(nil, []string{"CLAUDE_CONFIG_DIR=" + config}).(*Provider)
	ref := runnel.Conversation{AgentSessionID: aConversation}
	if at := p.Written(t.Context(), ref); !at.IsZero() {
		t.Errorf("without a file: %v", at)
	}
	want := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for i, folder := range []string{"-a", "-b"} {
		dir := filepath.Join(config, "projects", folder)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, aConversation+".jsonl")
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(file, want, want.Add(time.Duration(-i)*time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	if at := p.Written(t.Context(), ref); !at.Equal(want) {
		t.Errorf("got %v, want %v", at, want)
	}
}
