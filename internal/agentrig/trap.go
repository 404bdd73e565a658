package agentrig

import (
	"slices"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/fakemodel"
	"github.com/runnel-dev/runnel/internal/realagents"
)

// A Trap is a hostile repository in the rig's project, with the model API to
// which it would send what the agent says.
type Trap struct {
	*realagents.Trap
	Elsewhere *fakemodel.Server
}

// SetTrap makes the project a hostile repository.
func (r *Rig) SetTrap() *Trap {
	r.T.Helper()
	elsewhere, err := fakemodel.Start(fakemodel.Config{})
	if err != nil {
		r.T.Fatal(err)
	}
	r.T.Cleanup(func() { elsewhere.Close() })
	return &Trap{r.Home.Trap(r.T, elsewhere.URL()), elsewhere}
}

// Withstands fails the test unless the agent asks before it runs a command,
// does not run it when that is denied, runs nothing of the repository, sends
// nothing elsewhere and shows the model no file outside of the repository. Then
// it ends the agent.
func (r *Rig) Withstands(trap *Trap) {
	r.T.Helper()
	r.Play(fakemodel.Step{Blocks: []fakemodel.Block{realagents.WordsOf(r.Agent.Name).Ask("touch asked")}}, fakemodel.Step{Text: "Done."})
	evs, asked := r.Refuse()
	if asked == 0 {
		r.T.Errorf("nobody was asked:\n%s", Dump(evs))
	}
	if Exists(r.File("asked")) {
		r.T.Error("the folder allowed what nobody allowed")
	}
	r.Conn.Close()
	if ran := trap.Ran(); ran != nil {
		r.T.Errorf("of the folder ran %q", ran)
	}
	for _, req := range trap.Elsewhere.Requests() {
		r.T.Errorf("went elsewhere: %s %s", req.Method, req.Path)
	}
	if r.Told(realagents.Canary) {
		r.T.Error("the model was shown a file outside of the folder")
	}
}

// probe is what the agent runs in a repository that means harm: what an agent
// does by itself, and what git then has as its settings.
const probe = `git status > /dev/null
git add -A > /dev/null 2>&1
git -c user.name=a -c user.email=a commit -q --allow-empty -m x > /dev/null 2>&1
(cd bare && git status > /dev/null 2>&1)
git config core.fsmonitor > pins
git config core.hooksPath >> pins
git config safe.bareRepository >> pins
pwd -P >> pins
`

// WithstandsGit fails the test unless the agent runs no program by which git
// would be made to run one: neither hooks, of which the agent's git is told
// nothing, nor what a configuration names, for which the agent is not started.
// In a trusted folder it all runs.
func (r *Rig) WithstandsGit() {
	r.T.Helper()
	trap := r.Home.GitTrap(r.T)
	r.Write("probe.sh", probe)
	work := func(text string) string {
		r.T.Helper()
		r.Write("a.txt", text) // git has something to add
		r.Conn = nil
		r.Play(fakemodel.Step{Blocks: []fakemodel.Block{realagents.WordsOf(r.Agent.Name).Ask("sh probe.sh")}}, fakemodel.Step{Text: "Done."})
		r.allow()
		r.Conn.Close()
		return r.Read("pins")
	}
	want := "false\n/dev/null\nexplicit\n"
	if r.Agent.Name == "gemini" { // 0.61.0 sets the first two itself, to nothing, in trusted folders too
		want = "\n\nexplicit\n"
	}
	if got := work("one\n"); got != want+r.Home.Project+"\n" {
		r.T.Errorf("git of the agent has the settings %q, want %q", got, want)
	}
	if ran := trap.Ran(); ran != nil {
		r.T.Errorf("of the repository ran %q", ran)
	}
	keys := trap.Configure(r.Home.Project)
	c, err := r.Provider.Open(r.T.Context(), r.Opt)
	if err == nil {
		c.Close()
	}
	for _, key := range keys {
		if runnel.CodeOf(err) != runnel.SessionCreateFailed || !strings.Contains(err.Error(), key+" (.git/") {
			r.T.Errorf("%s is not refused: %v", key, err)
		}
	}
	if ran := trap.Ran(); ran != nil {
		r.T.Errorf("before the repository was refused ran %q", ran)
	}
	r.Opt.Trusted = true // the test can fail
	work("two\n")
	if ran := trap.Ran(); len(ran) == 0 {
		r.T.Error("nothing ran in a trusted repository")
	}
}

// allow collects the events to the end of the turn, and allows everything once.
func (r *Rig) allow() {
	r.T.Helper()
	r.Until(func(ev event.Event) bool {
		if a, ok := ev.Body.(event.ApprovalRequested); ok {
			i := slices.IndexFunc(a.Approval.Choices, func(c event.Choice) bool { return c.Kind == event.ChoiceAllowOnce })
			if i < 0 {
				r.T.Fatalf("no way to allow it once: %+v", a.Approval.Choices)
			}
			r.Decide(a.Approval, runnel.Decision{Choice: a.Approval.Choices[i].ID})
		}
		return event.Ends(ev.Body) && ev.Turn == r.Turn
	})
}
