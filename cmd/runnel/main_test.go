package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/runnel-dev/runnel/supervise"

	"github.com/runnel-dev/runnel/event"
)

func TestMain(m *testing.M) {
	supervise.Main()
	// A child built with the race detector would otherwise take a second to
	// exit.
	_ = os.Setenv("GORACE", "atexit_sleep_ms=0")
	testscript.Main(homed{m}, map[string]func(){"runnel": main})
}

// homed runs the tests with a home directory of their own: a server writes its
// key and the marks of its audit log there.
type homed struct{ *testing.M }

func (m homed) Run() int {
	home, err := os.MkdirTemp("", "runnel-home")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(home)
	for _, name := range []string{"GOENV", "GOCACHE", "GOMODCACHE", "GOPATH"} { // the tests compile programs
		dir, err := exec.Command("go", "env", name).Output()
		if err != nil {
			panic(err)
		}
		_ = os.Setenv(name, strings.TrimSpace(string(dir)))
	}
	_ = os.Setenv("HOME", home)
	for _, name := range []string{"XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"} {
		_ = os.Unsetenv(name)
	}
	return m.M.Run()
}

func TestScripts(t *testing.T) {
	p := params()
	p.Dir = "testdata/script"
	testscript.Run(t, p)
}

// params returns the parameters that all scripts share.
func params() testscript.Params {
	return testscript.Params{
		Setup: setup,
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"types": cmdTypes,
			"rules": cmdRules,
			"fill":  cmdFill,

			"unpack": cmdUnpack,

			"server":  cmdServer,
			"http":    cmdHTTP,
			"let":     cmdLet,
			"future":  cmdFuture,
			"nowhere": cmdNowhere,
		},
		Condition: func(cond string) (bool, error) {
			if cond == "root" {
				return os.Getuid() == 0, nil
			}
			return false, fmt.Errorf("unknown condition %q", cond)
		},
	}
}

// setup gives a script its own home directory.
func setup(env *testscript.Env) error {
	home := env.WorkDir + "/home"
	env.Setenv("HOME", home)
	env.Setenv("XDG_RUNTIME_DIR", "")
	env.Setenv("GORACE", os.Getenv("GORACE"))
	srv := new(server)
	env.Values[serverKey{}] = srv
	env.Defer(srv.end)
	return os.Mkdir(home, 0o700)
}

// cmdTypes checks that a file contains canonical events, one per line. Their
// types, without repetitions, must be the other arguments:
//
//	types FILE TYPE…
func cmdTypes(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: types FILE TYPE…")
	}
	var got []string
	for line := range strings.Lines(ts.ReadFile(args[0])) {
		var ev event.Event
		if err := json.Unmarshal([]byte(line), &ev); err != nil {
			ts.Fatalf("%s: %v", args[0], err)
		}
		if typ := event.Type(ev.Body); len(got) == 0 || got[len(got)-1] != typ {
			got = append(got, typ)
		}
	}
	if want := args[1:]; strings.Join(got, " ") != strings.Join(want, " ") {
		ts.Fatalf("%s holds\n\t%v, want\n\t%v", args[0], got, want)
	}
}

// cmdRules checks that a file contains an event log that follows the rules:
//
//	rules FILE
func cmdRules(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: rules FILE")
	}
	turns, problems := checkLog(ts.ReadFile(args[0]))
	if turns == 0 || len(problems) > 0 {
		ts.Fatalf("%s: %d turns; %s", args[0], turns, strings.Join(problems, "; "))
	}
}

// cmdUnpack writes the files of a recording whose names begin with a prefix to
// a directory. The path of the recording is relative to this folder:
//
//	unpack RECORDING PREFIX DIR
func cmdUnpack(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: unpack RECORDING PREFIX DIR")
	}
	a, err := txtar.ParseFile(args[0])
	ts.Check(err)
	n := 0
	for _, f := range a.Files {
		if name, ok := strings.CutPrefix(f.Name, args[1]); ok {
			path := filepath.Join(ts.MkAbs(args[2]), filepath.FromSlash(name))
			ts.Check(os.MkdirAll(filepath.Dir(path), 0o700))
			ts.Check(os.WriteFile(path, f.Data, 0o600))
			hourAgo := time.Now().Add(-time.Hour) // a new file's conversation counts as in use
			ts.Check(os.Chtimes(path, hourAgo, hourAgo))
			n++
		}
	}
	if n == 0 {
		ts.Fatalf("%s has no file %s*", args[0], args[1])
	}
}

// cmdFill writes a file of n bytes of text:
//
//	fill FILE N
func cmdFill(ts *testscript.TestScript, neg bool, args []string) {
	var n int
	if neg || len(args) != 2 {
		ts.Fatalf("usage: fill FILE N")
	}
	if _, err := fmt.Sscan(args[1], &n); err != nil {
		ts.Fatalf("fill: %v", err)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), bytes.Repeat([]byte("text "), n/5+1)[:n], 0o600))
}

// A reader may close the output early, as head does. That is no error.
func TestOutputThatNobodyReads(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	for _, c := range []struct {
		args string
		code int
	}{
		{"sessions list --json", exitOK}, {"agents", exitOK}, {"agents --json", exitOK}, {"version", exitOK}, {"--help", exitOK},
		{"run --agent script text", exitNotDone}, {"run --agent script -o events text", exitNotDone},
		{"run --agent script -o upserts text", exitNotDone}, {"run --agent script -o universal text", exitNotDone},
	} {
		reader, writer, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		_ = reader.Close()
		cmd := exec.CommandContext(t.Context(), "runnel", strings.Fields(c.args)...)
		var errOut bytes.Buffer
		cmd.Stdout, cmd.Stderr = writer, &errOut
		_ = cmd.Run()
		_ = writer.Close()
		if code := cmd.ProcessState.ExitCode(); code != c.code || errOut.Len() > 0 {
			t.Errorf("runnel %s: exit %d, want %d; stderr %q", c.args, code, c.code, errOut.String())
		}
	}
}
