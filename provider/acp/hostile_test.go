package acp

import (
	"bytes"
	"context"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/fakemodel"
	"github.com/runnel-dev/runnel/internal/realagents"
)

// told reports whether the model was told something.
func (r *rig) told(what string) bool {
	return slices.ContainsFunc(r.model.Requests(), func(req fakemodel.Request) bool { return bytes.Contains(req.Body, []byte(what)) })
}

// refuse collects the events to the end of the turn, and allows nothing.
func (r *rig) refuse() []event.Event {
	r.t.Helper()
	return r.until(func(ev event.Event) bool {
		if a, ok := ev.Body.(event.ApprovalRequested); ok {
			no := event.ChoiceDeny
			if !slices.ContainsFunc(a.Approval.Choices, func(c event.Choice) bool { return c.Kind == no }) {
				no = event.ChoiceDenyStop
			}
			r.decide(a.Approval, no)
		}
		return event.Ends(ev.Body)
	})
}

// most are the agents, without one that takes long to start if there is no time.
func most() []string {
	names := realagents.ACP()
	if os.Getenv("RUNNEL_LONG") == "" {
		names = slices.DeleteFunc(names, func(name string) bool { return name == "qwen" })
	}
	return names
}

// setTrap is a rig in a repository that means harm, and counts what goes to its
// model API.
func setTrap(t *testing.T, name string) (*rig, *realagents.Trap, *fakemodel.Server) {
	t.Helper()
	r := newRig(t, name)
	elsewhere, err := fakemodel.Start(fakemodel.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { elsewhere.Close() })
	return r, r.home.Trap(t, elsewhere.URL()), elsewhere
}

// refused takes from the folder, one after another, what the agent is not
// started with. Each must be named.
func (r *rig) refused() (files []string) {
	r.t.Helper()
	for {
		ctx, cancel := context.WithTimeout(r.t.Context(), patience)
		c, err := r.provider.Open(ctx, r.opt)
		cancel()
		if err == nil {
			r.conn = c
			r.t.Cleanup(func() { c.Close() })
			return files
		}
		named := regexp.MustCompile(`would obey (\S+),`).FindStringSubmatch(err.Error())
		if runnel.CodeOf(err) != runnel.SessionCreateFailed || named == nil || !strings.HasPrefix(named[1], r.home.Project) {
			r.t.Fatal(err)
		}
		if err := os.RemoveAll(named[1]); err != nil {
			r.t.Fatal(err)
		}
		files = append(files, strings.TrimPrefix(named[1], r.home.Project+"/"))
	}
}

func TestC06_RepositoryThatMeansHarm(t *testing.T) {
	for _, name := range most() {
		t.Run(name, func(t *testing.T) {
			r, trap, elsewhere := setTrap(t, name)
			files := r.refused()
			if may := known(t, name); (len(may.Obeys) > 0) != (files != nil) {
				t.Errorf("refused: %q", files)
			}
			if ran := trap.Ran(); files != nil && ran != nil {
				t.Errorf("something ran before it was refused: %q", ran)
			}
			r.send(scenario(calls(realagents.WordsOf(name).Ask("touch asked")), said))
			evs := r.refuse()
			if len(bodies[event.ApprovalRequested](evs)) == 0 {
				t.Errorf("nobody was asked:\n%s", dump(evs))
			}
			if _, err := os.Stat(r.file("asked")); err == nil {
				t.Error("the folder allowed what nobody allowed")
			}
			r.conn.Close()
			if ran := trap.Ran(); ran != nil {
				t.Errorf("of the folder ran %q", ran)
			}
			for _, req := range elsewhere.Requests() {
				t.Errorf("went elsewhere: %s %s", req.Method, req.Path)
			}
			if r.told(realagents.Canary) {
				t.Error("the model was shown a file outside of the folder")
			}
			if told := r.told(realagents.Memory); told != readsMemory[name] {
				t.Errorf("the model was shown what the folder says: %v", told)
			}
		})
	}
}

// readsMemory are the agents that show the model what a folder says in a file
// such as AGENTS.md also if it is not trusted: there is no switch, and it is text.
var readsMemory = map[string]bool{"codex-acp": true, "copilot": true, "qwen": true}

// TestC06_TrustedRepository: the same folder, trusted, is obeyed: what is
// refused and switched off is what would run.
func TestC06_TrustedRepository(t *testing.T) {
	names := []string{"codex-acp"} // the quickest
	if os.Getenv("RUNNEL_LONG") != "" {
		names = []string{"claude-agent-acp", "codex-acp", "copilot", "gemini", "opencode"} // qwen leaves for elsewhere at once
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			r, trap, elsewhere := setTrap(t, name)
			r.opt.Trusted = true
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			c, err := r.provider.Open(ctx, r.opt)
			if err == nil {
				r.conn = c
				r.send("hi")
				r.refuse()
				c.Close()
			}
			if ran := trap.Ran(); len(ran) == 0 && len(elsewhere.Requests()) == 0 {
				t.Errorf("nothing ran, and nothing went elsewhere: %v", err)
			}
		})
	}
}
