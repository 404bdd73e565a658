package gateway

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/testload"
	"github.com/runnel-dev/runnel/store"
)

func TestDeniedPathsAreFoundInOutputs(t *testing.T) {
	for output, want := range map[string][]deniedPath{
		"cat: /data/a.txt: No such file or directory":                                  {{"/data/a.txt", false}},
		"Exit code 1\nls: cannot access '/data/my files': No such file or directory\n": {{"/data/my files", false}},
		"touch: cannot touch ‘/data/new’: Read-only file system":                       {{"/data/new", true}},
		"touch: cannot touch '/data/new': No such file or directory":                   {{"/data/new", true}},
		"bash: line 1: /data/out: Permission denied":                                   {{"/data/out", false}},
		"bash: /data/out: Read-only file system":                                       {{"/data/out", true}},
		"Error: ENOENT: no such file or directory, open '/data/x.json'":                {{"/data/x.json", false}},
		"Error: EROFS: read-only file system, mkdir '/data/x'":                         {{"/data/x", true}},
		"FileNotFoundError: [Errno 2] No such file or directory: '/data/x'":            {{"/data/x", false}},
		"open /data/x: permission denied":                                              {{"/data/x", false}},
		"/bin/sh: 1: cannot create /data/x: Permission denied":                         {{"/bin/sh", true}, {"/data/x", true}},
		"error: could not open `/data/../data/x` (does not exist)":                     {{"/data/x", false}},
		"all is well in /data":                                                         nil,
		"No such file or directory":                                                    {{"/named", false}},
		"File does not exist. Note: your current working directory is elsewhere.":      {{"/named", false}},
		"permission denied: relative/path":                                             {{"/named", false}},
		strings.Repeat("x", maxDeniedLine+10) + " permission denied: /late":            nil,
		"permission denied: '/1' '/2' '/3' '/4' '/5'":                                  {{"/1", false}, {"/2", false}, {"/3", false}, {"/4", false}},
	} {
		got := deniedIn(output, []string{"/named"})
		if !slices.Equal(got, want) {
			t.Errorf("%.80q: %v, want %v", output, got, want)
		}
	}
	var many strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&many, "permission denied: '/%d'\npermission denied: '/%d'\n", i, i)
	}
	if got := deniedIn(many.String(), nil); len(got) != maxDeniedLines/2 {
		t.Errorf("%d paths of many lines", len(got))
	}
}

// sandboxed returns an open session in a sandbox whose outputs are read by rs,
// and a directory outside of it.
func sandboxed(t *testing.T, rs *denialRecords) (e *entry, outside string) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has sandboxes")
	}
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", filepath.Join(root, "home"))
	t.Setenv("PATH", "/usr/bin:/bin")
	project := filepath.Join(root, "home", "project")
	outside = filepath.Join(root, "home", "outside")
	for _, dir := range []string{project, outside, filepath.Join(root, "home", ".ssh")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	go rs.run(t.Context())
	return &entry{rec: store.Session{ID: "s", ProjectDir: project}, denials: rs, started: runnel.Options{Sandbox: runnel.SandboxProject, Dir: project}}, outside
}

// printed is the output of a tool in a turn.
func (e *entry) printed(turn, output string) {
	at := time.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.noteDenials(event.Event{Turn: turn, At: at}, event.FunctionCall{Name: "Bash", CallID: "c", Arguments: json.RawMessage(`{"command":"x"}`), Kind: event.KindExecute})
	e.noteDenials(event.Event{Turn: turn, At: at}, event.FunctionCallOutput{CallID: "c", Output: output})
}

// denied returns the paths of the record of the session.
func (rs *denialRecords) denied(t *testing.T) (out []string) {
	t.Helper()
	rs.settle(t.Context())
	rs.mu.Lock()
	defer rs.mu.Unlock()
	for _, d := range rs.find("s").Denials {
		out = append(out, string(d.Access)+" "+d.Path)
	}
	return out
}

func TestOutputOfAHostileProgramSuggestsNoProtectedPath(t *testing.T) {
	data := t.TempDir()
	rs := newDenialRecords(data, slog.New(slog.DiscardHandler))
	e, outside := sandboxed(t, rs)
	home := filepath.Dir(outside)
	state := filepath.Join(home, "state-of-another-agent")
	if err := os.Mkdir(state, 0o700); err != nil {
		t.Fatal(err)
	}
	e.started.Withheld = []string{state}
	for _, path := range []string{state, filepath.Join(home, ".ssh"), filepath.Join(home, ".ssh", "id"), home, "/etc/shadow", "/run", "/proc/1/environ", "/", "/tmp", outside + "/none", outside + "\x1b[2J", outside + "\u202e"} {
		e.printed("t", "Permission denied: "+path+"\ncat: '"+path+"': No such file or directory\ntouch: cannot touch '"+path+"': Read-only file system")
	}
	e.printed("t", "cat: "+outside+": Permission denied")
	if got := rs.denied(t); !slices.Equal(got, []string{"write " + outside, "read " + outside}) { // writing in the directory of the missing files
		t.Errorf("suggested %q", got)
	}
}

func TestDenialsAreBoundedAndSurviveARestart(t *testing.T) {
	testload.TakesLong(t)
	data := t.TempDir()
	rs := newDenialRecords(data, slog.New(slog.DiscardHandler))
	e, outside := sandboxed(t, rs)
	for turn := range 7 {
		for i := range maxTurnDenials + 5 {
			path := filepath.Join(outside, fmt.Sprintf("%d-%d", turn, i))
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			for range 3 {
				e.printed(fmt.Sprint("t", turn), "cat: "+path+": No such file or directory")
			}
			rs.settle(t.Context())
		}
	}
	got := rs.denied(t)
	if len(got) != MaxDenials || got[MaxDenials-1] != "read "+filepath.Join(outside, fmt.Sprintf("6-%d", maxTurnDenials-1)) {
		t.Errorf("%d denials, the last is %s", len(got), got[len(got)-1])
	}
	again := newDenialRecords(data, slog.New(slog.DiscardHandler))
	go again.run(t.Context())
	if after := again.denied(t); !slices.Equal(after, got) {
		t.Errorf("after a restart: %d denials", len(after))
	}
	if err := rs.remove("s"); err != nil {
		t.Fatal(err)
	}
	e.printed("late", "cat: "+outside+": Permission denied")
	rs.settle(t.Context())
	if _, err := os.Stat(rs.path("s")); err == nil {
		t.Error("the record of a deleted session was written again")
	}
}

func TestPathWithASecretIsNoDenial(t *testing.T) {
	rs := newDenialRecords("", slog.New(slog.DiscardHandler))
	e, outside := sandboxed(t, rs)
	secret := filepath.Join(outside, "hunter2")
	if err := os.Mkdir(secret, 0o700); err != nil {
		t.Fatal(err)
	}
	e.started.Filter = func(runnel.Options) runnel.Filter { return hiding{} }
	e.printed("t", "ls: cannot access '"+secret+"': No such file or directory\nls: cannot access '"+outside+"': No such file or directory")
	if got := rs.denied(t); len(got) != 1 || got[0] != "read "+outside {
		t.Errorf("denied %q", got)
	}
}

func TestSessionWithoutASandboxHasNoDenials(t *testing.T) {
	rs := newDenialRecords("", slog.New(slog.DiscardHandler))
	e, outside := sandboxed(t, rs)
	e.started.Sandbox = runnel.SandboxOff
	e.printed("t", "cat: "+outside+": Permission denied")
	if got := rs.denied(t); len(got) != 0 {
		t.Errorf("denied %q", got)
	}
}

// The name of a file is in the arguments of a tool that reads files, and not in
// what it prints.
func TestDenialHasThePathOfTheArguments(t *testing.T) {
	rs := newDenialRecords("", slog.New(slog.DiscardHandler))
	e, outside := sandboxed(t, rs)
	args, _ := json.Marshal(map[string]string{"file_path": outside})
	e.mu.Lock()
	e.noteDenials(event.Event{Turn: "t"}, event.FunctionCall{Name: "Read", CallID: "c", Arguments: args, Kind: event.KindRead})
	e.noteDenials(event.Event{Turn: "t"}, event.FunctionCallOutput{CallID: "c", Output: "File does not exist."})
	e.mu.Unlock()
	if got := rs.denied(t); len(got) != 1 || got[0] != "read "+outside {
		t.Errorf("denied %q", got)
	}
}

func TestSuggesterServesTheOutputsOfASandboxForASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rs := newDenialRecords("", slog.New(slog.DiscardHandler))
		here, elsewhere := denialJob{dirs: []string{t.TempDir()}}, denialJob{dirs: []string{t.TempDir()}}
		first := rs.suggesterFor(here)
		if rs.suggesterFor(here) != first {
			t.Error("each output has a Suggester of its own")
		}
		time.Sleep(suggesterTime) //nolint:forbidigo // virtual time; the file system may have changed
		second := rs.suggesterFor(here)
		if second == first {
			t.Error("an old Suggester is used")
		}
		if rs.suggesterFor(elsewhere) == second {
			t.Error("the Suggester of another sandbox is used")
		}
	})
}
