//go:build unix

package e2e

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/runnel-dev/runnel/internal/fakemodel"
	"github.com/runnel-dev/runnel/internal/realagents"
	"github.com/runnel-dev/runnel/provider/providertest"
	"github.com/runnel-dev/runnel/upsert"
)

// TestEveryAgent runs the same scenarios with each agent, for a client that
// receives the same upserts as the page. It skips scenarios that the agent
// cannot do according to the stored report of its provider's tests.
func TestEveryAgent(t *testing.T) {
	providertest.Each(t, filepath.Join("..", ".."), realagents.Others(), func(t *testing.T, found providertest.Report) {
		if found.Agent != "codex" && found.Agent != oneACP {
			needsLong(t, "the tests of its provider do the same, and other agents prove what the server does")
		}
		t.Parallel() // one agent waits up to a minute before it resumes
		s := serve(t, realagents.Find(t, found.Agent))
		d := newWS(s)
		a := subject{t, d, found, realagents.ToolsetOf(found.Agent), func(name string) string { return filepath.Join(s.home.Project, name) }}
		t.Run("Text", func(t *testing.T) { a.on(t).text() })
		t.Run("Tool", func(t *testing.T) { a.on(t).tool() })
		t.Run("Edit", func(t *testing.T) { a.on(t).edit() })
		t.Run("Approvals", func(t *testing.T) { a.on(t).approvals() })
		t.Run("Interrupts", func(t *testing.T) { a.on(t).interrupts() })
		t.Run("Failure", func(t *testing.T) { a.on(t).failure() })
		t.Run("ResumeAfterKill", func(t *testing.T) { a.on(t).resume() })
		t.Run("Reload", func(t *testing.T) { reload(t, s, d) })
	})
}

// subject is an agent and one client's session with it.
type subject struct {
	t     *testing.T
	d     driver
	found providertest.Report
	words realagents.Toolset
	file  func(name string) string
}

func (a subject) on(t *testing.T) subject {
	a.t = t
	return a
}

// needs skips the rest of the test if the named test of the provider's suite
// does not work with the agent.
func (a subject) needs(test string) {
	a.t.Helper()
	i := slices.IndexFunc(a.found.Results, func(f providertest.Finding) bool { return f.Test == test })
	if i >= 0 && !a.found.Results[i].Works {
		a.t.Skip(a.found.Results[i].Why)
	}
}

func (a subject) text() {
	got := a.d.turn(play(fakemodel.Step{Text: "Grüße, 世界 🙂."}), ignore)
	if got.Status != "completed" || !slices.Equal(got.Text, []string{"Grüße, 世界 🙂."}) {
		a.t.Errorf("%+v", got)
	}
}

func (a subject) tool() {
	a.needs("Tool")
	command := "printf made-%s 42"
	if a.found.Agent == "qwen" {
		// Qwen Code 0.24.4 takes the end of a command for the end of its output,
		// and can miss what was just printed. It reports output only after the
		// end, so no event could release the command.
		command += "; sleep 0.5"
	}
	got := a.d.turn(play(step(a.words.Ask(command)), done), always(asked, allow))
	if got.Status != "completed" || len(got.Tools) != 1 || strings.Contains(got.Tools[0].Output, "made-42") == a.words.OmitsOutput || !slices.Contains(got.Text, done.Text) {
		a.t.Errorf("%+v", got)
	}
}

func (a subject) edit() {
	a.needs("Edit")
	_ = os.Remove(a.file("new.txt"))
	got := a.d.turn(play(step(a.words.Write(a.file("new.txt"), "new\n")), done), always(asked, allow))
	if got.Status != "completed" || len(got.Tools) != 1 || got.Tools[0].Changes != 1 {
		a.t.Errorf("%+v", got)
	}
	if text, _ := os.ReadFile(a.file("new.txt")); string(text) != "new\n" {
		a.t.Errorf("the file holds %q", text)
	}
}

func (a subject) approvals() {
	a.needs("ApprovalAllowed")
	for _, tt := range []struct {
		react  reaction
		status []string // how the turn may end
		ran    bool
	}{
		{allow, []string{"completed"}, true},
		{deny, []string{"completed", "cancelled"}, false}, // some agents end the turn after a denial
		{stop, []string{"cancelled"}, false},
		{cancel, []string{"cancelled"}, false},
	} {
		_ = os.Remove(a.file("asked"))
		got := a.d.turn(play(step(a.words.Ask("touch "+a.file("asked"))), done), once(asked, tt.react))
		_, err := os.Stat(a.file("asked"))
		if !slices.Contains(tt.status, got.Status) || len(got.Resolved) != 1 || (err == nil) != tt.ran {
			a.t.Errorf("%s: %+v, ran %v", tt.react, got, err == nil)
		}
	}
}

func (a subject) interrupts() {
	long := fakemodel.Step{Text: strings.Repeat("on and on ", 40), Faults: []fakemodel.Fault{{Kind: fakemodel.Stall, After: 6}}}
	if got := a.d.turn(play(long, done), once(inText, cancel)); got.Status != "cancelled" {
		a.t.Errorf("in text: %+v", got)
	}
	if got := a.d.turn(play(done), ignore); got.Status != "completed" {
		a.t.Errorf("the next turn: %+v", got)
	}
	a.needs("InterruptInTool")
	_ = os.Remove(a.file("running"))
	if err := syscall.Mkfifo(a.file("running"), 0o600); err != nil {
		a.t.Fatal(err)
	}
	running := step(a.words.Ask("echo > " + a.file("running") + "; sleep 600"))
	if got := a.d.turn(play(running, done), once(asked, allowed)); got.Status != "cancelled" {
		a.t.Errorf("in a tool: %+v", got)
	}
	if got := a.d.turn(play(done), ignore); got.Status != "completed" {
		a.t.Errorf("the next turn: %+v", got)
	}
}

func (a subject) failure() {
	a.needs("Failure")
	got := a.d.turn(play(fakemodel.Step{Fail: &fakemodel.Failure{Status: 400, Message: "the model has a cold"}}), ignore)
	if got.Status == "completed" || got.Status == "cancelled" {
		a.t.Errorf("%+v", got)
	}
	if got := a.d.turn(play(done), ignore); got.Status != "completed" {
		a.t.Errorf("the next turn: %+v", got)
	}
}

func (a subject) resume() {
	a.needs("ResumeAfterKill")
	long := fakemodel.Step{Text: strings.Repeat("on and on ", 40), Faults: []fakemodel.Fault{{Kind: fakemodel.Stall, After: 6}}}
	if got := a.d.turn(play(long), once(inText, kill)); got.Status != "PROCESS_CRASH" {
		a.t.Errorf("%+v", got)
	}
	if got := a.d.turn(play(done), ignore); got.Status != "completed" || !slices.Equal(got.Text, []string{done.Text}) {
		a.t.Errorf("the next turn: %+v", got)
	}
}

// reload reads the session's items again. They must have the texts that the
// client was shown live.
func reload(t *testing.T, s *server, d driver) {
	session, shown := d.shown()
	var page struct {
		Items []frame
		More  bool
	}
	if code := s.on(t).call("GET", "/api/session/"+session+"/items?limit=1000", nil, &page); code != http.StatusOK || page.More {
		t.Fatalf("items: %d, more %v", code, page.More)
	}
	again := make(map[string]string)
	for _, f := range page.Items {
		var u upsert.Upsert
		if f.Type == "session:upsert" && json.Unmarshal(f.Payload, &u) == nil && shown[u.ItemID] != "" {
			again[u.ItemID] = textOf(u)
		}
	}
	for id, text := range shown {
		if text == "" {
			delete(shown, id)
		}
	}
	if d := cmp.Diff(shown, again); d != "" || len(again) == 0 {
		t.Errorf("%d items (-live +read again):\n%s", len(again), d)
	}
}
