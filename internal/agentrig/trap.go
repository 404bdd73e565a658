package agentrig

import (
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
