package runnel_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/universal"
)

// able is an agent that supports every extension key. It records the options
// with which it was started.
type able struct {
	remembering
	opt runnel.Options
}

func (a *able) Takes() runnel.Takes {
	t := a.remembering.Takes()
	t.AddDirs = true
	t.Settings = append(t.Settings, event.ConfigOption{ID: "Not.A.Key"}, event.ConfigOption{ID: "effort", Category: "effort"})
	return t
}

func (a *able) Extra() []runnel.Capability {
	return append(a.remembering.Extra(), runnel.CapAddDirs, runnel.CapExternalSandbox)
}

func (a *able) Open(ctx context.Context, opt runnel.Options) (runnel.Conn, error) {
	a.opt = opt
	return a.remembering.Open(ctx, opt)
}

func (a *able) Fork(ctx context.Context, opt runnel.Options) (runnel.Conn, error) {
	a.opt = opt
	return a.remembering.Fork(ctx, opt)
}

// ext returns extensions from pairs of a key and a JSON value.
func ext(pairs ...string) runnel.Extensions {
	x := make(runnel.Extensions)
	for i := 0; i < len(pairs); i += 2 {
		x[pairs[i]] = json.RawMessage(pairs[i+1])
	}
	return x
}

const (
	model   = "agent_api.config.model.v1"
	addDirs = "agent_api.exec.add_dirs.v1"
	unasked = "agent_api.exec.non_interactive"
	sandbox = "agent_api.exec.external_sandbox.v1"
	resume  = "agent_api.session.resume.v1"
	fork    = "agent_api.session.fork.v1"
	results = "agent_api.tools.results.v1"
	pace    = "backend.script.config.pace"
)

func TestExtensionKeysAreTheCapabilitiesWithAValue(t *testing.T) {
	want := []runnel.Capability{model, addDirs, sandbox, unasked, fork, resume, results, "backend.script.config.effort", pace, "backend.script.config.thoughts"}
	slices.Sort(want)
	if got := runnel.ExtensionKeys(new(able)); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if err := runnel.Require(new(able), want...); err != nil {
		t.Error(err)
	}
	if err := runnel.Require(new(able), "backend.other.config.pace"); runnel.CodeOf(err) != runnel.UnsupportedCapability {
		t.Error(err)
	}
}

func TestUnsupportedExtensionWinsOverAnInvalidValue(t *testing.T) {
	opt := func(pairs ...string) runnel.Options { return runnel.Options{Extensions: ext(pairs...)} }
	p := new(able)
	for name, tt := range map[string]struct {
		p   runnel.Provider
		opt runnel.Options
	}{
		"unknown":             {p, opt("agent_api.nonesuch.v1", "true", model, `""`, resume, "1", fork, "1")},
		"no key":              {p, opt("agent_api.run", "true")},
		"of another agent":    {p, opt("backend.other.config.pace", `"fast"`)},
		"of no setting":       {p, opt("backend.script.config.nonesuch", `"fast"`)},
		"not namespaced":      {p, opt("model", `"m"`)},
		"in capitals":         {p, opt("Agent_api.config.model.v1", `"m"`)},
		"empty":               {p, opt("", "true")},
		"huge":                {p, opt(strings.Repeat("x", 1<<20), "true")},
		"lacked":              {&p.remembering, opt(addDirs, "1", model, `""`)},
		"sandbox not allowed": {p, opt(sandbox, "1")},
	} {
		_, err := runnel.Start(t.Context(), tt.p, tt.opt, runnel.Text("text"))
		if runnel.CodeOf(err) != runnel.UnsupportedCapability || len(runnel.Safe(err).Message) > 1000 {
			t.Errorf("%s: %.300v", name, err)
		}
	}
	if len(p.started)+len(p.lists) > 0 {
		t.Errorf("started %q, listed %q", p.started, p.lists)
	}
}

func TestBlankPromptIsRefusedBeforeExtensions(t *testing.T) {
	_, err := runnel.Start(t.Context(), new(able), runnel.Options{Extensions: ext("nonesuch", "1")}, runnel.Text(" \n"))
	if runnel.CodeOf(err) != runnel.InvalidRequest || !strings.Contains(err.Error(), "prompt") {
		t.Error(err)
	}
}

func TestInvalidExtensionsStartNothing(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	quoted := func(s string) string { return fmt.Sprintf("%q", s) }
	dirs := func(n int) string {
		return `{"dirs":[` + strings.TrimSuffix(strings.Repeat(quoted(dir)+",", n), ",") + "]}"
	}
	approve := func(context.Context, event.Approval) runnel.Decision { return runnel.Decision{} }
	p := new(able)
	for _, tt := range []struct {
		opt  runnel.Options
		ext  runnel.Extensions
		want string // the message, whole if it begins with "invalid"
	}{
		{runnel.Options{}, ext(model, "1"), "invalid agent_api.config.model.v1"},
		{runnel.Options{}, ext(model, "null"), "invalid agent_api.config.model.v1"},
		{runnel.Options{}, ext(model, ""), "invalid agent_api.config.model.v1"},
		{runnel.Options{}, ext(model, `" \t"`), "invalid agent_api.config.model.v1"},
		{runnel.Options{}, ext(model, quoted(strings.Repeat("x", 129))), "invalid agent_api.config.model.v1"},
		{runnel.Options{Model: "m"}, ext(model, `"m"`), "Options.Model is given, too"},
		{runnel.Options{}, ext(addDirs, `["/"]`), "invalid agent_api.exec.add_dirs.v1"},
		{runnel.Options{}, ext(addDirs, `{"dirs":["/"],"more":1}`), "invalid agent_api.exec.add_dirs.v1"},
		{runnel.Options{}, ext(addDirs, `{"Dirs":["/"]}`), "invalid agent_api.exec.add_dirs.v1"},
		{runnel.Options{}, ext(addDirs, `{"dirs":["/"],"dirs":["/"]}`), "invalid agent_api.exec.add_dirs.v1"},
		{runnel.Options{}, ext(addDirs, `{}`), "invalid agent_api.exec.add_dirs.v1.dirs"},
		{runnel.Options{}, ext(addDirs, `{"dirs":"/"}`), "invalid agent_api.exec.add_dirs.v1.dirs"},
		{runnel.Options{}, ext(addDirs, `{"dirs":[]}`), "invalid agent_api.exec.add_dirs.v1.dirs"},
		{runnel.Options{}, ext(addDirs, dirs(17)), "invalid agent_api.exec.add_dirs.v1.dirs"},
		{runnel.Options{}, ext(addDirs, `{"dirs":["/",1]}`), "invalid agent_api.exec.add_dirs.v1.dirs[1]"},
		{runnel.Options{}, ext(addDirs, `{"dirs":["/"," "]}`), "invalid agent_api.exec.add_dirs.v1.dirs[1]"},
		{runnel.Options{}, ext(addDirs, `{"dirs":["~"]}`), "invalid agent_api.exec.add_dirs.v1.dirs[0]"},
		{runnel.Options{}, ext(addDirs, `{"dirs":["`+filepath.ToSlash(file)+`"]}`), "invalid agent_api.exec.add_dirs.v1.dirs[0]"},
		{runnel.Options{}, ext(addDirs, `{"dirs":["/`+strings.Repeat("x", 1024)+`"]}`), "invalid agent_api.exec.add_dirs.v1.dirs[0]"},
		{runnel.Options{AddDirs: []string{dir}}, ext(addDirs, dirs(1)), "Options.AddDirs is given, too"},
		{runnel.Options{}, ext(resume, `"last"`), `want {"selector": "last"}`},
		{runnel.Options{}, ext(resume, `{"selector":"newest"}`), `unknown selector "newest"`},
		{runnel.Options{}, ext(resume, `{"selector":"last","id":"x"}`), "takes no id"},
		{runnel.Options{}, ext(resume, `{"selector":"id"}`), "needs an id"},
		{runnel.Options{}, ext(resume, `{"selector":"id","id":" "}`), "needs an id"},
		{runnel.Options{}, ext(resume, `{"selector":"id","id":"`+strings.Repeat("x", 1025)+`"}`), "1025 bytes"},
		{runnel.Options{}, ext(resume, `{"selector":"last","dir":"/"}`), `want {"selector": "last"}`},
		{runnel.Options{}, ext(resume, `{"selector":"last"}`, fork, `{"selector":"last"}`), "excludes agent_api.session.fork.v1"},
		{runnel.Options{Resume: "x"}, ext(fork, `{"selector":"last"}`), "Options.Resume is given, too"},
		{runnel.Options{}, ext(unasked, `"true"`), "want true or false"},
		{runnel.Options{}, ext(unasked, "false"), "needs Options.Approve"},
		{runnel.Options{Approve: approve}, ext(unasked, "true"), "contradicts Options.Approve"},
		{runnel.Options{AllowBypass: true}, ext(sandbox, "null"), "want true or false"},
		{runnel.Options{AllowBypass: true, Approve: approve}, ext(sandbox, "true", unasked, "false"), "contradicts agent_api.exec.non_interactive"},
		{runnel.Options{AllowBypass: true, PermissionMode: runnel.ModePlan}, ext(sandbox, "true"), `contradicts the permission mode "plan"`},
		{runnel.Options{AllowBypass: true}, ext(sandbox, "true", pace, `"fast"`), "contradicts backend.script.config.pace"},
		{runnel.Options{}, ext(results, "1"), "want true or false"},
		{runnel.Options{}, ext(pace, `"warp"`), `backend.script.config.pace: unknown value "warp"; want written or fast`},
		{runnel.Options{}, ext(pace, "1"), "want a string"},
		{runnel.Options{Config: runnel.Values{"pace": "fast"}}, ext(pace, `"fast"`), "Options.Config is given, too"},
	} {
		tt.opt.Extensions = tt.ext
		_, err := runnel.Start(t.Context(), p, tt.opt, runnel.Text("text"))
		message := runnel.Safe(err)
		switch {
		case err == nil || message.Code != runnel.InvalidRequest:
			t.Errorf("%s: %v", tt.ext, err)
		case strings.HasPrefix(tt.want, "invalid ") && message.Message != tt.want, !strings.Contains(message.Message, tt.want):
			t.Errorf("%s: %s, want %s", tt.ext, message.Message, tt.want)
		}
	}
	_, err := runnel.Start(t.Context(), p, runnel.Options{Extensions: ext(resume, `{"selector":"id","id":"last"}`)}, runnel.Text("text"))
	if runnel.CodeOf(err) != runnel.SessionNotFound {
		t.Errorf("an id is not the selector last: %v", err)
	}
	if _, err := runnel.Open(t.Context(), p, runnel.Options{Extensions: ext(results, "true")}, runnel.Config{}); runnel.CodeOf(err) != runnel.InvalidRequest {
		t.Errorf("a session with extensions: %v", err)
	}
	if len(p.started)+len(p.lists) > 0 {
		t.Errorf("started %q, listed %q", p.started, p.lists)
	}
}

func TestExtensionsBecomeOptions(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		p := new(able)
		id := one(t, p, runnel.Options{Dir: dir, Extensions: ext(model, `" m "`, pace, `"fast"`, "backend.script.config.thoughts", "false",
			addDirs, `{"dirs":["sub"," sub/../sub ","`+filepath.ToSlash(dir)+`"]}`)})
		o := p.opt
		if o.Model != "m" || o.Config["pace"] != "fast" || o.Config["thoughts"] != "false" || !slices.Equal(o.AddDirs, []string{filepath.Join(dir, "sub"), dir}) {
			t.Errorf("%+v", o)
		}
		for _, selector := range []string{`{"selector":"last"}`, `{"selector":"id","id":" ` + id + ` "}`} {
			if got := one(t, p, runnel.Options{Dir: dir, Extensions: ext(resume, selector)}); got != id {
				t.Errorf("%s resumed %s, want %s", selector, got, id)
			}
		}
		p.started = nil
		for _, key := range []string{resume, fork} { // programs compare these messages
			_, err := runnel.Start(t.Context(), p, runnel.Options{Dir: filepath.Join(dir, "sub"), Extensions: ext(key, `{"selector":"last"}`)}, runnel.Text("text"))
			if runnel.CodeOf(err) != runnel.SessionNotFound || runnel.Safe(err).Message != "no session found" {
				t.Errorf("%s: %v", key, err)
			}
			run, err := runnel.Start(t.Context(), p, runnel.Options{Extensions: ext(key, `{"selector":"id","id":"nonesuch"}`)}, runnel.Text("text"))
			if err != nil {
				t.Fatal(err)
			}
			done, err := run.Completion(t.Context())
			if runnel.CodeOf(err) != runnel.SessionNotFound || runnel.Safe(err).Message != "session not found" || done.Status != "error" || done.Data != nil {
				t.Errorf("%s: %+v, %v", key, done, err)
			}
		}
		p.started = nil
		if got := one(t, p, runnel.Options{Dir: dir, Extensions: ext(fork, `{"selector":"last"}`)}); got == id || !slices.Equal(p.started, []string{"fork " + id}) {
			t.Errorf("the copy of %s is %s; started %q", id, got, p.started)
		}
	})
}

// The session logs the warning even if the agent does not start.
func TestExternalSandboxWarnsIfTheAgentDoesNotStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := new(able)
		p.refuse = runnel.Fail(runnel.AgentNotInstalled, "it is not there")
		run, err := runnel.Start(t.Context(), p, runnel.Options{AllowBypass: true, Extensions: ext(sandbox, "true")}, runnel.Text("text"))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for u := range run.Universal(t.Context()) {
			got = append(got, u.Channel)
		}
		if want := []string{"user", "response_start", "status", "response_error"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		_, _ = run.Wait(t.Context())
	})
}

func TestExternalSandboxWarnsOnceBeforeAnyText(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := new(able)
		for _, on := range []string{"true", "false"} {
			run, err := runnel.Start(t.Context(), p, runnel.Options{AllowBypass: true, Extensions: ext(sandbox, on)}, runnel.Text("text"))
			if err != nil {
				t.Fatal(err)
			}
			warned, worked := 0, false
			for u, err := range run.Universal(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				worked = worked || u.Kind == universal.TextOutput || strings.Contains(string(u.Data), "session.handle")
				if u.Message != "DANGEROUS: external sandbox exec policy enabled (agent_api.exec.external_sandbox.v1=true)" {
					continue
				}
				if warned++; worked || u.Kind != universal.StatusInfo || u.Channel != "status" || u.Data != nil {
					t.Errorf("%+v, after work: %v", u, worked)
				}
			}
			if want := map[string]int{"true": 1}[on]; warned != want || !worked {
				t.Errorf("%s: warned %d times, want %d", on, warned, want)
			}
			if (p.opt.PermissionMode == runnel.ModeBypass) != (on == "true") {
				t.Errorf("%s: the mode is %q", on, p.opt.PermissionMode)
			}
		}
	})
}
