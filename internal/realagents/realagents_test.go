package realagents_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel/internal/fakemodel"
	"github.com/runnel-dev/runnel/internal/realagents"
)

func TestClaudeReportsPinnedVersion(t *testing.T) {
	for _, b := range realagents.Claude(t) {
		cmd := exec.CommandContext(t.Context(), b.Path, "--version")
		cmd.Env = append(realagents.NewHome(t, "http://127.0.0.1:1").Environ(), "PATH="+os.Getenv("PATH"))
		out, err := cmd.Output()
		if err != nil || !strings.HasPrefix(string(out), b.Version+" ") {
			t.Errorf("%s --version: %q, %v", b.Version, out, err)
		}
	}
}

func TestClaudeWorksWithFakeModel(t *testing.T) {
	for _, b := range realagents.UsualClaude(t) {
		t.Run(b.Version, func(t *testing.T) {
			model, err := fakemodel.Start(fakemodel.Config{})
			if err != nil {
				t.Fatal(err)
			}
			defer model.Close()
			home := realagents.NewHome(t, model.URL())
			cmd := exec.CommandContext(t.Context(), b.Path, "-p")
			cmd.Dir = home.Project
			cmd.Env = append(home.Environ(), "PATH="+os.Getenv("PATH"))
			cmd.Stdin = strings.NewReader("<<play bash>>")
			out, err := cmd.CombinedOutput()
			if err != nil || strings.TrimSpace(string(out)) != "Done." {
				t.Errorf("answer %q, %v; want Done.", out, err)
			}
		})
	}
}

func TestMissingAgentFailsUnlessSkipped(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("RUNNEL_AGENTS", "")
	if err := os.WriteFile("go.mod", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	without := "fatal"
	if testing.Short() {
		without = "skip"
	}
	for skip, want := range map[string]string{"": without, "1": "skip"} {
		t.Setenv("RUNNEL_SKIP_REAL_AGENTS", skip)
		if got := outcome(t, func(t testing.TB) { realagents.Claude(t) }); got != want {
			t.Errorf("skip=%q: %s, want %s", skip, got, want)
		}
	}
}

// recorder records how a helper ends the test.
type recorder struct {
	testing.TB
	got string
}

func (r *recorder) Fatalf(string, ...any) { r.got = "fatal"; panic(r) }
func (r *recorder) Skipf(string, ...any)  { r.got = "skip"; panic(r) }

func TestAgentEnvironmentStaysInHome(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	home := realagents.NewHomeIn(t, root, "http://127.0.0.1:1")
	for _, name := range append(realagents.ACP(), "claude-code", "codex") {
		env := map[string]string{}
		for _, kv := range home.EnvironFor(name) {
			k, v, _ := strings.Cut(kv, "=")
			env[k] = v
			shared := k == "NODE_COMPILE_CACHE" || k == "COPILOT_PKG_CACHE_HOME" // parts of the programs, beside them
			if strings.HasPrefix(v, "/") && !strings.HasPrefix(v, root+"/") && !shared {
				t.Errorf("%s: %s is outside of its home", name, kv)
			}
			if strings.Contains(v, "://") && !strings.Contains(v, "http://127.0.0.1:1") {
				t.Errorf("%s: %s is not the model API", name, kv)
			}
		}
		if env["HOME"] != home.Dir {
			t.Errorf("%s: HOME is %q", name, env["HOME"])
		}
		if tmp, codex := env["TMPDIR"], env["CODEX_HOME"]; codex != "" && strings.HasPrefix(codex, tmp+"/") {
			t.Errorf("%s: CODEX_HOME %s is in TMPDIR %s", name, codex, tmp)
		}
	}
}
