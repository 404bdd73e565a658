package gateway

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/provider/script"
	"github.com/runnel-dev/runnel/store"
)

// After a forced boot, no later start resumes the abandoned conversation, even
// if the server stops before the new agent has reported its id.
func TestForcedBootForgetsTheConversationAtOnce(t *testing.T) {
	d := newDisk(t)
	g := d.open(t)
	id := d.create(t, g)
	d.ends(t, send(t, g, id, "text"))
	before, err := g.Status(t.Context(), id)
	if err != nil || before.AgentSessionID == "" {
		t.Fatalf("got %+v, %v", before, err)
	}
	after, boot, err := g.Boot(t.Context(), id, true)
	if err != nil || boot.Resumed || after.AgentSessionID == before.AgentSessionID {
		t.Errorf("booted %+v: %+v, %v", boot, after, err)
	}
	notices := 0
	for ev, err := range d.log.Read(t.Context(), id, before.LastSeq) {
		if n, ok := ev.Body.(event.Notice); ok && n.Code == runnel.ConversationForgotten && err == nil {
			notices++
		}
	}
	if notices != 1 {
		t.Errorf("readers were told %d times", notices)
	}
	closeIt(t, g)

	f := &fake{name: "script", open: func(o runnel.Options) (runnel.Conn, error) { return script.New().Open(context.Background(), o) }}
	g = d.open(t, func(c *Config) { c.Providers = []runnel.Provider{f} })
	defer closeIt(t, g)
	d.ends(t, send(t, g, id, "text"))
	if got := f.resumed.Load(); got == before.AgentSessionID {
		t.Errorf("the next agent resumed %v", got)
	}
}

// A booter is a source of providers that open scripted agents. It records the
// options of each start and lets refuse make a start fail.
type booter struct {
	opened []runnel.Options
	refuse func(runnel.Options) error
}

func (b *booter) provider() runnel.Provider {
	return &fake{name: "script", open: func(o runnel.Options) (runnel.Conn, error) {
		b.opened = append(b.opened, o)
		if b.refuse != nil {
			if err := b.refuse(o); err != nil {
				return nil, err
			}
		}
		return script.New().Open(context.Background(), o)
	}}
}

func (b *booter) config(c *Config) {
	c.Providers, c.TrustedDirs = []runnel.Provider{b.provider()}, []string{"/"}
}

// settings writes the settings file of a project.
func settings(t *testing.T, dir, text string) {
	t.Helper()
	file := filepath.Join(dir, ".runnel", "config.yaml")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func boots(t *testing.T, g *Gateway, id string, force bool, want Boot) Status {
	t.Helper()
	st, boot, err := g.Boot(t.Context(), id, force)
	if err != nil || boot != want {
		t.Fatalf("booted %+v, %v; want %+v", boot, err, want)
	}
	if !st.IsAlive || st.BootedAt.IsZero() || len(st.BootFingerprint) != 64 {
		t.Fatalf("status %+v", st)
	}
	return st
}

func TestBootReasons(t *testing.T) {
	d, b := newDisk(t), new(booter)
	g := d.open(t, b.config)
	id := d.create(t, g)
	first := boots(t, g, id, false, Boot{Reason: "already_booted"})
	d.ends(t, send(t, g, id, "text"))

	// Boot does not restart a running agent whose settings have changed while
	// it ran.
	if _, err := g.Set(t.Context(), id, runnel.Options{PermissionMode: runnel.ModePlan}); err != nil {
		t.Fatal(err)
	}
	same := boots(t, g, id, false, Boot{Reason: "already_booted"})
	if same.BootFingerprint != first.BootFingerprint || !same.BootedAt.Equal(first.BootedAt) || len(b.opened) != 1 {
		t.Errorf("first %+v, then %+v, %d agents", first, same, len(b.opened))
	}

	// Change the options with which the next agent would start.
	settings(t, d.dir, "model: another\n")
	changed := boots(t, g, id, false, Boot{Started: true, Resumed: true, Reason: "fingerprint_changed"})
	if last := b.opened[len(b.opened)-1]; last.Model != "another" || last.Resume == "" {
		t.Errorf("started with %+v", last)
	}
	if changed.BootFingerprint == first.BootFingerprint || !changed.BootedAt.After(first.BootedAt) {
		t.Errorf("first %+v, then %+v", first, changed)
	}
	boots(t, g, id, false, Boot{Reason: "already_booted"})

	forced := boots(t, g, id, true, Boot{Started: true, Reason: "forced"})
	if forced.BootFingerprint != changed.BootFingerprint || b.opened[len(b.opened)-1].Resume != "" {
		t.Errorf("forced %+v, with %+v", forced, b.opened[len(b.opened)-1])
	}
	d.ends(t, send(t, g, id, "text"))
	closeIt(t, g)

	// The record has the time and the fingerprint, and the next server compares
	// its options with them.
	g = d.open(t, b.config)
	defer closeIt(t, g)
	kept, err := g.Status(t.Context(), id)
	if err != nil || kept.BootFingerprint != forced.BootFingerprint || !kept.BootedAt.Equal(forced.BootedAt) {
		t.Errorf("kept %+v, %v", kept, err)
	}
	boots(t, g, id, false, Boot{Started: true, Resumed: true})
	settings(t, d.dir, "model: third\n")
	boots(t, g, id, false, Boot{Started: true, Resumed: true, Reason: "fingerprint_changed"})
}

func TestBootWithoutConversation(t *testing.T) {
	d, b := newDisk(t), new(booter)
	g := d.open(t, b.config)
	defer closeIt(t, g)
	id := d.create(t, g)
	if err := g.sessions.peek(id).session.Release(t.Context()); err != nil { // before the agent has reported its conversation
		t.Fatal(err)
	}
	boots(t, g, id, false, Boot{Started: true, Reason: "missing_agent_session"})
}

// An agent that cannot resume is started once more, with a new conversation. An
// error that would recur is not retried.
func TestFailedResumeIsRetriedOnceAfresh(t *testing.T) {
	for _, tt := range []struct {
		name   string
		refuse func(runnel.Options) error
		starts []bool // whether each start resumes
		code   runnel.Code
	}{
		{"cannot resume", func(o runnel.Options) error {
			if o.Resume != "" {
				return runnel.Fail(runnel.ProtocolError, "no such conversation")
			}
			return nil
		}, []bool{true, false}, ""},
		{"cannot start at all", func(runnel.Options) error { return runnel.Fail(runnel.ProcessCrash, "it crashes") }, []bool{true, false}, runnel.ProcessCrash},
		{"is not installed", func(runnel.Options) error { return runnel.Fail(runnel.AgentNotInstalled, "install it") }, []bool{true}, runnel.AgentNotInstalled},
		{"is not logged in", func(runnel.Options) error { return runnel.Fail(runnel.AgentNotLoggedIn, "log in") }, []bool{true}, runnel.AgentNotLoggedIn},
		{"has no key", func(runnel.Options) error { return runnel.Fail(runnel.MissingAPIKey, "set it") }, []bool{true}, runnel.MissingAPIKey},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d, b := newDisk(t), new(booter)
			g := d.open(t, b.config)
			defer closeIt(t, g)
			id := d.create(t, g)
			d.ends(t, send(t, g, id, "text"))
			if err := g.sessions.peek(id).session.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
			b.opened, b.refuse = nil, tt.refuse
			_, boot, err := g.Boot(t.Context(), id, false)
			if tt.code != "" {
				wantCode(t, err, tt.code)
			} else if want := (Boot{Started: true, Reason: "missing_agent_session"}); err != nil || boot != want {
				t.Errorf("booted %+v, %v", boot, err)
			}
			var starts []bool
			for _, o := range b.opened {
				starts = append(starts, o.Resume != "")
			}
			if !slices.Equal(starts, tt.starts) {
				t.Errorf("started %v, want %v", starts, tt.starts)
			}
		})
	}
}

// The fingerprint depends on everything with which the agent is started, and on
// nothing else.
func TestFingerprintCoversWhatTheAgentGets(t *testing.T) {
	base := runnel.Options{Dir: "/p", Model: "m", MCPServers: json.RawMessage(`{"a":{"env":{"KEY":"secret"}}}`)}
	rec := store.Session{ID: "s", CLIType: "script", Options: json.RawMessage(`{"mcpServers":"sealed"}`)}
	seen := map[string]string{fingerprint(rec, base): "nothing"}
	for name, edit := range map[string]func(*runnel.Options){
		"model": func(o *runnel.Options) { o.Model = "n" }, "tools": func(o *runnel.Options) { o.Tools = []string{"Bash"} },
		"directory": func(o *runnel.Options) { o.Dir = "/q" }, "profile text": func(o *runnel.Options) { o.SystemPromptAppend = "Be brief." },
		"max turns": func(o *runnel.Options) { o.MaxTurns = 3 }, "mode": func(o *runnel.Options) { o.PermissionMode = runnel.ModePlan },
		"effort": func(o *runnel.Options) { o.ReasoningEffort = "high" }, "config": func(o *runnel.Options) { o.Config = runnel.Values{"a": "b"} },
		"thinking": func(o *runnel.Options) { o.MaxThinkingTokens = 9 }, "directories": func(o *runnel.Options) { o.AddDirs = []string{"/r"} },
		"no mcp servers": func(o *runnel.Options) { o.MCPServers = nil }, "forbidden tools": func(o *runnel.Options) { o.ServerDisallowedTools = []string{"Bash"} },
		"subagents":  func(o *runnel.Options) { o.Subagents = []runnel.Subagent{{Name: "tester"}} },
		"delegation": func(o *runnel.Options) { o.Delegation = "never" }, "trust": func(o *runnel.Options) { o.Trusted = true },
		"untrusted": func(o *runnel.Options) { o.UntrustedDirs = []string{"/r"} }, "program": func(o *runnel.Options) { o.Path = "/bin/x" },
		"environment": func(o *runnel.Options) { o.Env = []string{"A=b"} },
		"sandbox":     func(o *runnel.Options) { o.Sandbox = runnel.SandboxProject },
		"allowed":     func(o *runnel.Options) { o.Allowed = []runnel.AllowedPath{{Path: "/data"}} },
		"writable":    func(o *runnel.Options) { o.Allowed = []runnel.AllowedPath{{Path: "/data", Write: true}} },
		"egress":      func(o *runnel.Options) { o.Egress.Sets = []string{"git"} },
	} {
		opt := base
		edit(&opt)
		sum := fingerprint(rec, opt)
		if other, ok := seen[sum]; ok {
			t.Errorf("%s and %s have the same fingerprint", name, other)
		}
		seen[sum] = name
	}
	same := base
	same.Resume, same.Counters, same.MCPServers = "agent-1", new(runnel.Counters), json.RawMessage(`{"a":{"env":{"KEY":"guessed"}}}`)
	if seen[fingerprint(rec, same)] != "nothing" {
		t.Error("the conversation or a secret is in the fingerprint")
	}
}

// The JSON of Options is part of the fingerprint. A new field of Options
// without JSON must be added to one of the two lists.
func TestEveryOptionIsInTheFingerprintOrLeftOut(t *testing.T) {
	covered := []string{"Dir", "Path", "Env", "ServerDisallowedTools", "Delegation", "Subagents", "Trusted", "UntrustedDirs", "Allowed"}
	leftOut := []string{ // options of the server or of one run, and those that are equal for all agents of a session
		"Extensions", "Takeover", "Resume", "Fork", "EndWithContext", "OneTurn", "AllowBypass", "Timeout", "Approve", "Judge", "Tap", "Tapping", "Filter", "Counters", "Warn",
		"Limits", "InPlace", "Protected", "Withheld", "RefusedPorts", "Reached", "Unknown",
	}
	for f := range reflect.TypeFor[runnel.Options]().Fields() {
		if f.Tag.Get("json") == "-" && !slices.Contains(covered, f.Name) && !slices.Contains(leftOut, f.Name) {
			t.Errorf("%s is new: does the agent get it?", f.Name)
		}
	}
}
