//go:build unix

package e2e

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel/internal/fakemodel"
	"github.com/runnel-dev/runnel/internal/realagents"
	"github.com/runnel-dev/runnel/provider/providertest"
)

// TestEveryAgentInABrowser runs the same prompts with each agent in a real
// browser: ui/e2e/real.test.ts checks what the page shows. The test needs the
// built page, its Node modules, Chromium and RUNNEL_BROWSER=1.
func TestEveryAgentInABrowser(t *testing.T) {
	if os.Getenv("RUNNEL_BROWSER") != "1" {
		t.Skip("RUNNEL_BROWSER=1 looks at the agents in a browser")
	}
	providertest.Each(t, filepath.Join("..", ".."), append(realagents.Others(), "claude-code"), func(t *testing.T, found providertest.Report) {
		s := serve(t, realagents.Find(t, found.Agent))
		s.watchIt(t, found, realagents.ToolsetOf(found.Agent))
	})
}

// watchIt runs the browser's part of the test and checks that the denied
// command did not run.
func (s *server) watchIt(t *testing.T, rep providertest.Report, words realagents.Toolset) {
	t.Helper()
	cannot := make(map[string]string)
	for _, f := range rep.Results {
		if !f.Works {
			cannot[f.Test] = f.Why
		}
	}
	file := filepath.Join(s.home.Project, "seen.txt")
	prompts := map[string]string{
		"text":   play(fakemodel.Step{Text: "Grüße, **世界** 🙂."}),
		"tool":   play(step(words.Ask(`printf 'plain\ndone\n'`)), done),
		"colour": play(step(words.Ask(`printf '\033[31mred\033[0m\n10%%\rdone\n'`)), done),
		"edit":   play(step(words.Write(file, "one\ntwo\n")), done),
		"denied": play(step(words.Ask("touch "+file+".denied")), done),
		"fail":   play(fakemodel.Step{Fail: &fakemodel.Failure{Status: 400, Message: "the model has a cold"}}),
		"long":   play(fakemodel.Step{Text: strings.Repeat("on and on ", 40), Faults: []fakemodel.Fault{{Kind: fakemodel.Stall, After: 6}}}, done),
	}
	told, err := json.Marshal(map[string]any{
		"agent": s.agent, "origin": s.page, "link": s.login, "project": s.home.Project, "prompts": prompts, "cannot": cannot, "silent": words.OmitsOutput,
	})
	if err != nil {
		t.Fatal(err)
	}
	browse(t, "e2e/real.test.ts", "RUNNEL_REAL="+string(told))
	if _, err := os.Stat(file + ".denied"); err == nil {
		t.Error("what was denied was done")
	}
}

// TestWorkWithRealAgentsInABrowser walks users' journeys through the page with
// Claude Code and Codex. ui/e2e/work.test.ts starts the server itself, because
// it also restarts the server. The test needs what TestEveryAgentInABrowser
// needs.
func TestWorkWithRealAgentsInABrowser(t *testing.T) {
	if os.Getenv("RUNNEL_BROWSER") != "1" {
		t.Skip("RUNNEL_BROWSER=1 looks at the agents in a browser")
	}
	model, err := fakemodel.Start(fakemodel.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = model.Close() })
	home := realagents.NewHome(t, model.URL())
	bin := t.TempDir()
	env := []string{"PATH=" + bin + ":" + os.Getenv("PATH")}
	var found []string
	for _, name := range []string{"claude-code", "codex"} {
		if !realagents.Selected(name) {
			continue
		}
		found = append(found, name)
		command := filepath.Join(bin, strings.TrimSuffix(name, "-code")) // the program's name in PATH
		if err := os.Symlink(realagents.Find(t, name).Path, command); err != nil {
			t.Fatal(err)
		}
		env = append(env, home.EnvironFor(name)...)
	}
	if len(found) == 0 {
		t.Skip("RUNNEL_AGENTS selects none of the agents")
	}
	binary, err := build()
	if err != nil {
		t.Fatal(err)
	}
	gates := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		model.Gate(strings.TrimPrefix(r.URL.Path, "/")).Open()
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(gates.Close)
	told, err := json.Marshal(map[string]any{"agents": found, "project": home.Project, "env": env, "gates": gates.URL + "/"})
	if err != nil {
		t.Fatal(err)
	}
	browse(t, "e2e/work.test.ts", "RUNNEL_WORK="+string(told), "RUNNEL_BIN="+binary)
}

// browse runs a test file of the page in a browser, with env added to the
// environment.
func browse(t *testing.T, file string, env ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "node", filepath.Join("node_modules", "vitest", "vitest.mjs"), "run", "--bail", "1", "--config", "vitest.browser.config.ts", file)
	cmd.Dir = filepath.Join("..", "..", "ui")
	cmd.Env = append(append(os.Environ(), "NO_COLOR=1"), env...)
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Error(err)
	}
}
