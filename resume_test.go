package runnel_test

import (
	"context"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/provider/script"
)

// remembering is an agent that stores conversations and records how it was
// started.
type remembering struct {
	script.Resumable
	started []string
	lists   []string // directories
	refuse  error    // of every start
}

func (r *remembering) Open(ctx context.Context, opt runnel.Options) (runnel.Conn, error) {
	r.started = append(r.started, strings.TrimSpace("open "+opt.Resume))
	if r.refuse != nil {
		return nil, r.refuse
	}
	return r.Resumable.Open(ctx, opt)
}

func (r *remembering) Fork(ctx context.Context, opt runnel.Options) (runnel.Conn, error) {
	r.started = append(r.started, "fork "+opt.Resume)
	return r.Resumable.Fork(ctx, opt)
}

func (r *remembering) Discover(ctx context.Context, dir string) iter.Seq2[runnel.Conversation, error] {
	r.lists = append(r.lists, dir)
	return r.Resumable.Discover(ctx, dir)
}

// one runs one prompt and returns the agent's id of the conversation.
func one(t *testing.T, p runnel.Provider, opt runnel.Options) string {
	t.Helper()
	run, err := runnel.Start(t.Context(), p, opt, runnel.Text("text"))
	if err != nil {
		t.Fatal(err)
	}
	res, err := run.Wait(t.Context())
	if err != nil || res.AgentSessionID == "" {
		t.Fatal(res, err)
	}
	return res.AgentSessionID
}

func TestResumeLastTakesTheNewestConversationOfTheDirectory(t *testing.T) {
	here, there := t.TempDir(), t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(here, link); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		p := new(remembering)
		one(t, p, runnel.Options{Dir: here})
		newest := one(t, p, runnel.Options{Dir: here})
		one(t, p, runnel.Options{Dir: there})
		p.started = nil
		if got := one(t, p, runnel.Options{Dir: link, Resume: runnel.ResumeLast}); got != newest {
			t.Errorf("the conversation is %s, want %s", got, newest)
		}
		if want := []string{"open " + newest}; !slices.Equal(p.started, want) {
			t.Errorf("started %q, want %q", p.started, want)
		}
		s, err := runnel.Open(t.Context(), p, runnel.Options{Dir: here, Resume: runnel.ResumeLast}, runnel.Config{})
		if err != nil || s.Status().AgentSessionID != newest {
			t.Fatal(err)
		}
		_ = s.Close()
	})
}

func TestResumeLastOfNothingStartsNothing(t *testing.T) {
	dir, empty := t.TempDir(), t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		p := new(remembering)
		one(t, p, runnel.Options{Dir: dir})
		p.started = nil
		for _, fork := range []bool{false, true} {
			_, err := runnel.Start(t.Context(), p, runnel.Options{Dir: empty, Resume: runnel.ResumeLast, Fork: fork}, runnel.Text("text"))
			if runnel.CodeOf(err) != runnel.SessionNotFound || !strings.HasPrefix(runnel.Safe(err).Message, "no session found: ") || len(p.started) > 0 {
				t.Errorf("%v; started %q", err, p.started)
			}
		}
		_, err := runnel.Start(t.Context(), script.New(), runnel.Options{Dir: dir, Resume: runnel.ResumeLast}, runnel.Text("text"))
		if runnel.CodeOf(err) != runnel.UnsupportedCapability {
			t.Error(err)
		}
	})
}

// A run that cannot resume its conversation fails, and does not start a new
// conversation.
func TestRunDoesNotForgetTheConversationItResumes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := new(remembering)
		run, err := runnel.Start(t.Context(), p, runnel.Options{Resume: "nonesuch"}, runnel.Text("text"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err = run.Wait(t.Context()); runnel.CodeOf(err) != runnel.SessionNotFound || !strings.HasPrefix(runnel.Safe(err).Message, "session not found: ") {
			t.Error(err)
		}
		p.refuse = runnel.Fail(runnel.UnsupportedCapability, "the agent cannot resume")
		if run, err = runnel.Start(t.Context(), p, runnel.Options{Resume: "nonesuch"}, runnel.Text("text")); err != nil {
			t.Fatal(err)
		}
		if _, err = run.Wait(t.Context()); runnel.CodeOf(err) != runnel.UnsupportedCapability {
			t.Error(err)
		}
		if want := []string{"open nonesuch", "open nonesuch"}; !slices.Equal(p.started, want) {
			t.Errorf("started %q, want %q", p.started, want)
		}
	})
}

func TestForkBeginsWithACopy(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		p := new(remembering)
		source := one(t, p, runnel.Options{Dir: dir})
		for _, resume := range []string{source, runnel.ResumeLast} {
			p.started = nil
			copied := one(t, p, runnel.Options{Dir: dir, Resume: resume, Fork: true})
			if copied == source || len(p.started) != 1 || !strings.HasPrefix(p.started[0], "fork ") {
				t.Errorf("%s: the copy of %s is %s; started %q", resume, source, copied, p.started)
			}
		}
		p.started = nil
		s, err := runnel.Open(t.Context(), p, runnel.Options{Dir: dir, Resume: source, Fork: true}, runnel.Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if id := s.Status().AgentSessionID; id != "" {
			t.Errorf("before its first prompt the copy has the id %s", id)
		}
		copied := ""
		for range 2 { // the second prompt starts the agent again, with the copy
			turn, err := s.Send(t.Context(), runnel.Text("text"))
			if err != nil {
				t.Fatal(err)
			}
			res, err := turn.Wait(t.Context())
			if err != nil || copied != "" && res.AgentSessionID != copied {
				t.Fatal(res, err)
			}
			copied = res.AgentSessionID
			if err := s.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if want := []string{"fork " + source, "open " + copied}; !slices.Equal(p.started, want) || copied == source {
			t.Errorf("started %q, want %q", p.started, want)
		}
	})
}

func TestForkNeedsAConversationAndAnAgentThatCopies(t *testing.T) {
	p := new(remembering)
	if _, err := runnel.Start(t.Context(), p, runnel.Options{Fork: true}, runnel.Text("text")); runnel.CodeOf(err) != runnel.InvalidRequest {
		t.Error(err)
	}
	_, err := runnel.Start(t.Context(), script.New(), runnel.Options{Resume: "x", Fork: true, Model: " "}, runnel.Text("text"))
	if runnel.CodeOf(err) != runnel.UnsupportedCapability {
		t.Error(err)
	}
	if len(p.started) > 0 {
		t.Errorf("started %q", p.started)
	}
}
