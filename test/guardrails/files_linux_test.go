package guardrails

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel/internal/realagents"
	"github.com/runnel-dev/runnel/internal/testexec"
	"github.com/runnel-dev/runnel/internal/testprogram"
)

// newHostile returns a world whose Claude Code is a program that only attacks.
func newHostile(t *testing.T, flags ...string) *world {
	t.Helper()
	path := filepath.Join(t.TempDir(), "claude")
	if err := testexec.Write(path, "#!/bin/sh\nexec ./attacker "+filesRole+"\n"); err != nil {
		t.Fatal(err)
	}
	return newWorld(t, realagents.Binary{Name: "claude-code", Path: path}, flags...)
}

// secretFiles creates files outside of the project, and returns their paths.
func (w *world) secretFiles() (paths []string) {
	w.t.Helper()
	home := w.home.Dir
	for _, path := range []string{
		filepath.Join(home, ".ssh", "id_ed25519"), filepath.Join(home, "other", "file"), filepath.Join(w.prog.Data, "secret"),
		filepath.Join(home, ".config", "runnel", "config.yaml"), filepath.Join(home, ".bashrc"),
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			w.t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("# secret\n"), 0o600); err != nil {
			w.t.Fatal(err)
		}
		paths = append(paths, path)
	}
	return paths
}

// TestHostileAgentInASandboxOfFiles starts a program as an agent that tries to
// read and write outside of the project, and then works in it.
func TestHostileAgentInASandboxOfFiles(t *testing.T) {
	w := newHostile(t)
	secrets := w.secretFiles()
	to := targets{Pid: w.prog.PID, Read: append(secrets, filepath.Join(w.prog.Data, "runnel.db"), "/etc/shadow")}
	to.Write = append(slices.Clone(secrets), "/usr/attacked", "/etc/attacked", "/attacked", "/tmp/attacked", filepath.Join(w.home.Config, "settings.json"))
	abstract := fmt.Sprintf("@runnel-files-%d", os.Getpid())
	ln, err := net.Listen("unix", abstract)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	to.Unix = []string{abstract}
	w.place(to)
	if err := testexec.Write(filepath.Join(w.home.Project, "program"), "#!/bin/sh\n"); err != nil {
		t.Fatal(err)
	}

	if id, code, message := w.create(map[string]any{"sandbox": "files"}); code < 400 {
		t.Errorf("a program that is no agent became session %s: %d %s", id, code, message)
	}
	report := w.report(nil)
	for name := range report {
		if !strings.HasPrefix(name, "work: ") {
			t.Errorf("the attacker could %s", name)
		}
	}
	for _, name := range []string{"files", "programs", "temporary files", "devices", "git", "names of hosts", "its own processes"} {
		if report["work: "+name] == "" {
			t.Errorf("no work with %s", name)
		}
	}
	for _, path := range secrets {
		if got, err := os.ReadFile(path); err != nil || string(got) != "# secret\n" {
			t.Errorf("%s is now %q, %v", path, got, err)
		}
	}
	w.prog.Stop()
	if boxes, _ := filepath.Glob(filepath.Join(w.prog.Data, "run", "*.box")); len(boxes) > 0 {
		t.Errorf("the sandbox left %v", boxes)
	}
}

// TestSandboxOfFilesNeedsLandlock runs the program as on a kernel without
// Landlock.
func TestSandboxOfFilesNeedsLandlock(t *testing.T) {
	w := newHostile(t)
	w.prog.Stop()
	w.place(targets{Read: w.secretFiles()})
	old := func(args ...string) (string, error) {
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(self, append([]string{oldKernelRole, testprogram.Path(t)}, args...)...)
		cmd.Env = w.prog.Env
		out, err := cmd.CombinedOutput()
		return strings.Join(strings.Fields(string(out)), " "), err
	}
	out, err := old("run", "--agent", "claude-code", "--dir", w.home.Project, "--sandbox", "files", "--data", w.prog.Data, "Go.")
	if err == nil || !strings.Contains(out, "needs Landlock, which this kernel does not have") {
		t.Errorf("%v\n%s", err, out)
	}
	if _, err := os.Stat(filepath.Join(w.home.Project, reportFile)); err == nil {
		t.Error("the agent ran without a sandbox")
	}
	if out, _ := old("doctor", "--data", w.prog.Data); !strings.Contains(out, "refuses to start an agent with sandbox: files") {
		t.Errorf("runnel doctor printed\n%s", out)
	}
	if out := w.prog.Command(t, "doctor"); !strings.Contains(out, "sandbox: files works here") {
		t.Errorf("runnel doctor printed\n%s", out)
	}
}

// TestEgressIsRefusedInASandboxOfFiles asks for limits of the network that
// Landlock does not enforce, in one source and in two.
func TestEgressIsRefusedInASandboxOfFiles(t *testing.T) {
	w := newHostile(t)
	w.place(targets{Read: w.secretFiles()})
	want := "sandbox: files does not limit the network"
	if _, code, message := w.create(map[string]any{"sandbox": "files", "egress": map[string]any{"sets": []string{"git"}}}); code != http.StatusBadRequest || !strings.Contains(message, want) {
		t.Errorf("%d %s", code, message)
	}
	w.prog.Stop()
	config := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(config, []byte("options:\n  egress:\n    sets: [git]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.prog.Args = []string{"--config", config}
	w.start()
	if _, code, message := w.create(map[string]any{"sandbox": "files"}); code != http.StatusBadRequest || !strings.Contains(message, want) {
		t.Errorf("with egress in the configuration: %d %s", code, message)
	}
	if _, err := os.Stat(filepath.Join(w.home.Project, reportFile)); err == nil {
		t.Error("the agent ran")
	}
}

// survives kills the server while a tool runs, and lets the tool continue with a
// command under the next server.
func (w *world) survives(session, command string) {
	w.t.Helper()
	c := w.Follow(session)
	turn, release := w.blocked(c, command)
	w.prog.Kill()
	c.Leave()
	w.start()
	c = w.Follow(session)
	defer c.Leave()
	release()
	if end := c.End(turn); !isDone(end) {
		w.t.Errorf("the turn ended with %+v", end.Body)
	}
}

// TestRealAgentInASandboxOfFiles drives real agents.
func TestRealAgentInASandboxOfFiles(t *testing.T) {
	if !long() {
		t.Skip("RUNNEL_LONG is not set")
	}
	agents := map[string]realagents.Binary{"claude-code": realagents.Claude(t)[0]}
	for _, name := range []string{"codex", "qwen", "opencode"} {
		agents[name] = realagents.Find(t, name)
	}
	for name, agent := range agents {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, agent)
			secrets := w.secretFiles()
			if name == "opencode" {
				w.instruct()
			}
			session, code, message := w.create(map[string]any{"sandbox": "files"})
			if code != http.StatusCreated {
				t.Fatalf("create: %d %s", code, message)
			}
			w.tool(session, "cat "+strings.Join(secrets, " ")+" > read; for p in "+strings.Join(secrets, " ")+"; do echo x >> $p; done; echo over > over")
			w.tool(session, "cat over > again")
			if text, err := os.ReadFile(filepath.Join(w.home.Project, "again")); err != nil || string(text) != "over\n" {
				t.Errorf("the tool did not run: %q, %v", text, err)
			}
			if name == "opencode" && !w.model.Received(instructions) {
				t.Error("the agent did not read the user's instructions")
			}
			if text, err := os.ReadFile(filepath.Join(w.home.Project, "read")); err != nil || len(text) > 0 {
				t.Errorf("the tool read %q, %v", text, err)
			}
			for _, path := range secrets {
				if got, err := os.ReadFile(path); err != nil || string(got) != "# secret\n" {
					t.Errorf("%s is now %q, %v", path, got, err)
				}
			}
			w.prog.Stop()
			w.start()
			w.tool(session, "echo resumed > resumed") // the conversation is among what the agent keeps
			if _, err := os.Stat(filepath.Join(w.home.Project, "resumed")); err != nil {
				t.Error(err)
			}
			w.survives(session, "cat "+secrets[0]+" > read")
			if text, err := os.ReadFile(filepath.Join(w.home.Project, "read")); err != nil || len(text) > 0 {
				t.Errorf("after the takeover, the tool read %q, %v", text, err)
			}
		})
	}
	t.Run("gemini", func(t *testing.T) {
		w := newWorld(t, realagents.Find(t, "gemini"))
		if _, code, message := w.create(map[string]any{"sandbox": "files"}); code < 400 || !strings.Contains(message, "sandbox: files cannot hide") {
			t.Errorf("%d %s", code, message)
		}
	})
}
