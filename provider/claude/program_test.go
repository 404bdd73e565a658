package claude

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/fakemodel"
	"github.com/runnel-dev/runnel/internal/realagents"
)

// A configuration can set the program, arguments before the provider's
// arguments, and environment variables.
func TestConfiguredProgramIsUsed(t *testing.T) {
	wrapper, err := exec.LookPath("env")
	if err != nil {
		t.Fatal(err)
	}
	b := realagents.Claude(t)[0]
	model, err := fakemodel.Start(fakemodel.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer model.Close()
	home := realagents.NewHome(t, model.URL())
	t.Setenv("PATH", filepath.Dir(wrapper)) // a PATH that does not lead to the agent
	p := New().WithProgram([]string{wrapper, b.Path}, home.Environ())
	in := p.(runnel.Prober).Probe(t.Context())
	if !in.Installed || in.Version != b.Version || in.Path != wrapper || in.Problem != "" || len(in.Models) == 0 {
		t.Errorf("probed: %+v", in)
	}
	run, err := runnel.Start(t.Context(), p, runnel.Options{Dir: home.Project}, runnel.Text("<<play hello>>"))
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	if res, err := run.Wait(t.Context()); err != nil || res.FinalText == "" {
		t.Errorf("got %+v, %v", res, err)
	}
	found := 0
	for c, err := range p.(runnel.Discoverer).Discover(t.Context(), "") { // reads the configured home directory
		if err != nil || !strings.HasPrefix(c.File, home.Config) {
			t.Errorf("found %+v, %v", c, err)
		}
		for _, err := range p.(runnel.Historian).History(t.Context(), runnel.Conversation{AgentSessionID: c.AgentSessionID}) {
			if err != nil {
				t.Error(err)
			}
		}
		found++
	}
	if found != 1 {
		t.Errorf("%d conversations", found)
	}

	missing := New().WithProgram([]string{filepath.Join(home.Dir, "missing")}, nil)
	_, err = missing.Open(t.Context(), runnel.Options{Dir: home.Project})
	if runnel.CodeOf(err) != runnel.AgentNotInstalled || !strings.Contains(err.Error(), "configuration") {
		t.Errorf("missing program: %v", err)
	}
	for range New().WithProgram(nil, []string{"CLAUDE_CONFIG_DIR=" + filepath.Join(home.Dir, uuid.NewString())}).(runnel.Discoverer).Discover(t.Context(), "") {
		t.Error("found a conversation in a missing directory")
	}
	if _, err := os.Stat(home.Config); err != nil {
		t.Error(err)
	}
}
