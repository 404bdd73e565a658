package runnel_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/provider/script"
)

// named is the scripted agent under another name.
type named struct {
	*script.Provider
	name string
	opt  runnel.Options // of the last start
}

func (n *named) Name() string { return n.name }

func (n *named) Open(ctx context.Context, opt runnel.Options) (runnel.Conn, error) {
	n.opt = opt
	return n.Provider.Open(ctx, opt)
}

// kinded is a provider whose agent kind differs from its name.
type kinded struct{ named }

func (kinded) AgentKind() string { return "other_kind" }

func TestRegistryHasEachKindOnce(t *testing.T) {
	var r runnel.Registry
	if _, err := r.Provider("script"); runnel.CodeOf(err) != runnel.UnsupportedCLIType || !strings.Contains(err.Error(), "none is registered") {
		t.Error(err)
	}
	for _, p := range []runnel.Provider{script.New(), &named{Provider: script.New(), name: "my-agent-2"}, &kinded{named{Provider: script.New(), name: "x"}}} {
		if err := r.Register(p, runnel.Defaults{}); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{"script", "my-agent-2", "other-kind"} {
		err := r.Register(&named{Provider: script.New(), name: name}, runnel.Defaults{})
		if runnel.CodeOf(err) != runnel.InvalidRequest || !strings.Contains(err.Error(), "is registered already") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if want := []string{"my_agent_2", "other_kind", "script"}; !slices.Equal(r.Kinds(), want) {
		t.Errorf("got %q, want %q", r.Kinds(), want)
	}
	if _, err := r.Start(t.Context(), "nobody", runnel.Options{}, runnel.Text("text")); !strings.Contains(err.Error(), "want my_agent_2, other_kind or script") {
		t.Error(err)
	}
	if p, err := r.Provider("script"); err != nil || p.Name() != "script" {
		t.Error(p, err)
	}
}

func TestRegistryRefusesNamesThatAreNoKinds(t *testing.T) {
	for _, name := range []string{"", "2fast", "_x", "Agent", "a.b", "a b", "ä", "agent\n"} {
		var r runnel.Registry
		if err := r.Register(&named{Provider: script.New(), name: name}, runnel.Defaults{}); runnel.CodeOf(err) != runnel.InvalidRequest {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// The options of a request override the defaults, even if the request sets them
// as extensions. The environment variables of the request follow those of the
// defaults and thus override them.
func TestDefaultsHoldWhereARequestSaysNothing(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		p := &named{Provider: script.New(), name: "mine"}
		d := runnel.Defaults{Model: "small", Dir: dir, Timeout: time.Minute, Env: []string{"A=1", "B=1"}}
		var r runnel.Registry
		if err := r.Register(p, d); err != nil {
			t.Fatal(err)
		}
		for _, tt := range []struct {
			name      string
			opt, want runnel.Options
		}{
			{"nothing", runnel.Options{}, runnel.Options{Model: "small", Dir: dir, Timeout: time.Minute, Env: []string{"A=1", "B=1"}}},
			{"all", runnel.Options{Model: "large", Dir: other, Timeout: time.Hour, Env: []string{"B=2"}},
				runnel.Options{Model: "large", Dir: other, Timeout: time.Hour, Env: []string{"A=1", "B=1", "B=2"}}},
			{"extension", runnel.Options{Extensions: ext(model, `"large"`), Timeout: -1},
				runnel.Options{Model: "large", Dir: dir, Timeout: -1, Env: []string{"A=1", "B=1"}}},
		} {
			run, err := r.Start(t.Context(), "mine", tt.opt, runnel.Text("text"))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := run.Wait(t.Context()); err != nil {
				t.Error(err)
			}
			o := p.opt
			if o.Model != tt.want.Model || o.Dir != tt.want.Dir || o.Timeout != tt.want.Timeout || !slices.Equal(o.Env, tt.want.Env) {
				t.Errorf("%s: got %+v", tt.name, o)
			}
		}
		if err := r.SetDefaults("mine", runnel.Defaults{Model: "medium"}); err != nil {
			t.Fatal(err)
		}
		s, err := r.Open(t.Context(), "mine", runnel.Options{Env: []string{"C=3"}}, runnel.Config{})
		if err != nil {
			t.Fatal(err)
		}
		_ = s.Close()
		if p.opt.Model != "medium" || p.opt.Dir != "" || !slices.Equal(p.opt.Env, []string{"C=3"}) {
			t.Errorf("a session got %+v", p.opt)
		}
	})
}

func TestDefaultTimeoutEndsARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r runnel.Registry
		if err := r.Register(&script.Provider{Script: script.Script{Steps: []script.Step{hang}}}, runnel.Defaults{Timeout: time.Minute}); err != nil {
			t.Fatal(err)
		}
		run, err := r.Start(t.Context(), "script", runnel.Options{}, runnel.Text("x"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := run.Wait(t.Context()); runnel.CodeOf(err) != runnel.Timeout {
			t.Error(err)
		}
	})
}
