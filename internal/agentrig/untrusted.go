package agentrig

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/fakemodel"
	"github.com/runnel-dev/runnel/internal/realagents"
)

// A Trap is a hostile repository in the rig's project, and the model API to
// which the repository tries to redirect the agent.
type Trap struct {
	*realagents.Trap
	Elsewhere *fakemodel.Server
}

// SetTrap turns the project into a hostile repository.
func (r *Rig) SetTrap() *Trap {
	r.T.Helper()
	elsewhere, err := fakemodel.Start(fakemodel.Config{})
	if err != nil {
		r.T.Fatal(err)
	}
	r.T.Cleanup(func() { elsewhere.Close() })
	return &Trap{r.Home.Trap(r.T, elsewhere.URL()), elsewhere}
}

// StillAsks fails the test unless the agent asks before it runs a command, and
// obeys a denial.
func (r *Rig) StillAsks() {
	r.T.Helper()
	words, steps := realagents.ToolsetOf(r.Agent.Name), []fakemodel.Step(nil)
	if words.Read != nil { // when the model reads a file, some agents also show it instruction files in the same folder
		steps = append(steps, fakemodel.Step{Blocks: []fakemodel.Block{words.Read(r.File(realagents.Nested))}})
	}
	r.Play(append(steps, fakemodel.Step{Blocks: []fakemodel.Block{words.Ask("touch asked")}}, fakemodel.Step{Text: "Done."})...)
	evs, asked := r.DenyAll()
	if asked == 0 {
		r.T.Errorf("the agent ran a command without an approval:\n%s", Dump(evs))
	}
	if Exists(r.File("asked")) {
		r.T.Error("the folder's settings allowed a command that the user denied")
	}
}

// Withstands fails the test unless the agent still asks. The agent must run no
// program of the repository, send nothing to the other model API, and show the
// model no file outside of the repository. Withstands then stops the agent.
func (r *Rig) Withstands(trap *Trap) {
	r.T.Helper()
	r.StillAsks()
	r.Conn.Close()
	if ran := trap.Ran(); ran != nil {
		r.T.Errorf("programs of the folder ran: %q", ran)
	}
	r.StayedInside(trap)
}

// StayedInside fails the test if the agent sent anything to the other model API,
// or showed the model a file outside of the repository.
func (r *Rig) StayedInside(trap *Trap) {
	r.T.Helper()
	for _, req := range trap.Elsewhere.Requests() {
		r.T.Errorf("the agent sent a request to the folder's model API: %s %s", req.Method, req.Path)
	}
	if r.ModelReceived(realagents.Canary) {
		r.T.Error("the model was shown a file outside of the folder")
	}
}

// probe is the script that the agent runs in a hostile repository. It makes the
// git calls that agents make by themselves, and writes git's settings to a
// file.
const probe = `git status > /dev/null
git add -A > /dev/null 2>&1
git -c user.name=a -c user.email=a commit -q --allow-empty -m x > /dev/null 2>&1
(cd bare && git status > /dev/null 2>&1)
git config core.fsmonitor > pins
git config core.hooksPath >> pins
git config safe.bareRepository >> pins
pwd -P >> pins
`

// slowAgents take seconds of processor time to start.
var slowAgents = []string{"copilot", "gemini", "opencode", "qwen"}

// WithstandsGit fails the test if git in an untrusted folder runs a program of
// the folder. It calls first, unless that is nil, before the agent runs git, so
// that other tests can use the same process; first may start the agent. Hooks
// must not run. If the git configuration names programs, the agent must not
// start. In a trusted folder, these programs must run, which proves that the test
// can fail. With slowAgents, that part needs RUNNEL_LONG=1.
func (r *Rig) WithstandsGit(first func()) {
	r.T.Helper()
	trap := r.Home.GitTrap(r.T)
	r.Write("probe.sh", probe)
	work := func(text string) string {
		r.T.Helper()
		r.Write("a.txt", text) // a change for git to add
		r.Play(fakemodel.Step{Blocks: []fakemodel.Block{realagents.ToolsetOf(r.Agent.Name).Ask("sh probe.sh")}}, fakemodel.Step{Text: "Done."})
		r.allow()
		r.Conn.Close()
		return r.Read("pins")
	}
	r.Conn = nil
	if first != nil {
		first()
	}
	want := "false\n/dev/null\nexplicit\n"
	if r.Agent.Name == "gemini" { // 0.61.0 sets the first two to nothing, also in trusted folders
		want = "\n\nexplicit\n"
	}
	if got := work("one\n"); got != want+r.Home.Project+"\n" {
		r.T.Errorf("git of the agent has the settings %q, want %q", got, want)
	}
	if ran := trap.Ran(); ran != nil {
		r.T.Errorf("programs of the repository ran: %q", ran)
	}
	keys := trap.Configure(r.Home.Project)
	c, err := r.Provider.Open(r.T.Context(), r.Opt)
	if err == nil {
		c.Close()
	}
	for _, key := range keys {
		if runnel.CodeOf(err) != runnel.SessionCreateFailed || !strings.Contains(err.Error(), key+" (.git/") {
			r.T.Errorf("%s is not rejected: %v", key, err)
		}
	}
	if ran := trap.Ran(); ran != nil {
		r.T.Errorf("programs ran before the repository was rejected: %q", ran)
	}
	if os.Getenv("RUNNEL_LONG") == "" && slices.Contains(slowAgents, r.Agent.Name) {
		return
	}
	r.Home.Project = filepath.Join(filepath.Dir(r.Home.Project), "trusted")
	trap = r.Home.GitTrap(r.T)
	trap.Configure(r.Home.Project)
	r.Write("probe.sh", probe)
	r.Opt.Dir, r.Opt.Trusted, r.Conn = r.Home.Project, true, nil // proves that the test can fail
	work("two\n")
	if ran := trap.Ran(); len(ran) == 0 {
		r.T.Error("nothing ran in a trusted repository")
	}
}

// allow reads events up to the end of the last prompt's turn, and allows every
// approval once.
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
