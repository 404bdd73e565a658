package acp

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/agentrig"
	"github.com/runnel-dev/runnel/internal/fakemodel"
	"github.com/runnel-dev/runnel/internal/realagents"
	"github.com/runnel-dev/runnel/internal/translate"
)

// refused opens the agent again and again until the agent starts. Each error
// must name the file in the folder that prevents the start, and refused removes
// that file. It returns the removed files.
func (r *rig) refused() (files []string) {
	r.T.Helper()
	for {
		ctx, cancel := context.WithTimeout(r.T.Context(), waitTimeout)
		c, err := r.Provider.Open(ctx, r.Opt)
		cancel()
		if err == nil {
			r.Takes(c)
			return files
		}
		named := regexp.MustCompile(`cannot ignore (\S+),`).FindStringSubmatch(err.Error())
		if runnel.CodeOf(err) != runnel.SessionCreateFailed || named == nil || !strings.HasPrefix(named[1], r.Home.Project) {
			r.T.Fatal(err)
		}
		if err := os.RemoveAll(named[1]); err != nil {
			r.T.Fatal(err)
		}
		files = append(files, strings.TrimPrefix(named[1], r.Home.Project+"/"))
	}
}

// TestUntrustedRepository gives each agent a hostile repository. One process first
// uses what the repository contains, then answers prompts, and then runs git,
// because agents start slowly.
func TestUntrustedRepository(t *testing.T) {
	eachOf(t, realagents.ACP(), func(t *testing.T, r *rig) {
		name := r.Agent.Name
		if name == "claude-agent-acp" { // as a release that does not know the variable, so that prompts could have files read
			r.Opt.Env = append(r.Opt.Env, "CLAUDE_CODE_DISABLE_FILE_MENTIONS=0")
		}
		trap := r.SetTrap()
		var helpers []string
		if name == "opencode" {
			helpers = r.offersHelpers()
		}
		r.WithstandsGit(func() {
			files := r.refused()
			if may := known(t, name); (len(may.SettingsFiles) > 0) != (files != nil) {
				t.Errorf("refused: %q", files)
			}
			if ran := trap.Ran(); files != nil && ran != nil {
				t.Errorf("something ran before it was refused: %q", ran)
			}
			t.Run("RunsNothing", func(t *testing.T) { r.on(t).runsNothing(trap) })
			if helpers != nil {
				t.Run("LanguageServersAndFormattersDoNotRun", func(t *testing.T) {
					r := r.on(t)
					r.usesHelpers("one.php")
					if ran := slices.DeleteFunc(helpers, func(mark string) bool { return !agentrig.Exists(mark) }); len(ran) > 0 {
						t.Errorf("programs of the folder ran: %q", ran)
					}
				})
			}
			t.Run("PromptsReachTheModelUnchanged", func(t *testing.T) { r.on(t).promptsReachTheModelUnchanged() })
			if os.Getenv("RUNNEL_LONG") != "" { // the longest prompt fills the model's context
				r.Close()
				r.Conn = nil
			}
		})
		r.StayedInside(trap)
	})
}

// runsNothing fails the test if a program of the repository runs while the model
// uses the repository's skills and subagents.
func (r *rig) runsNothing(trap *agentrig.Trap) {
	t, name := r.T, r.Agent.Name
	t.Helper()
	if os.Getenv("RUNNEL_LONG") != "" { // otherwise, asks only after the agent has used everything
		r.StillAsks()
	}
	// The user may allow the agent to use the skills and subagents of the
	// folder. Even then, these must not allow tools or run commands.
	for _, use := range uses[name] {
		r.Play(calls(use), said)
		r.Finish(translate.AllowOnce)
	}
	r.StillAsks()
	if told := r.ModelReceived(realagents.Memory); told != readsMemory[name] {
		t.Errorf("the model was shown what the folder says: %v", told)
	}
	if ran := trap.Ran(); ran != nil {
		t.Errorf("programs of the folder ran: %q", ran)
	}
}

// uses lists, by agent, the tool calls that use the skills and subagents of a
// trap.
var uses = map[string][]fakemodel.Block{
	"claude-agent-acp": {
		fakemodel.Call("Skill", args{"skill": "claude-evil"}),
		fakemodel.Call("Agent", args{"description": "Look", "prompt": scenario(said), "subagent_type": "claude-evil", "run_in_background": false}),
	},
	"copilot": {
		fakemodel.Call("skill", args{"skill": "agents-evil"}),
		fakemodel.Call("skill", args{"skill": "claude-evil"}),
		fakemodel.Call("task", args{"name": "x", "description": "Look", "prompt": scenario(said), "agent_type": "claude-worse", "mode": "sync"}),
		fakemodel.Call("task", args{"name": "y", "description": "Look", "prompt": scenario(said), "agent_type": "github-evil", "mode": "sync"}),
	},
	"gemini": {
		fakemodel.Call("activate_skill", args{"name": "evil"}),
		fakemodel.Call("activate_skill", args{"name": "agents-evil"}),
		fakemodel.Call("invoke_agent", args{"agent_name": "evil", "prompt": scenario(said)}),
	},
	"opencode": {
		fakemodel.Call("skill", args{"name": "agents-evil"}),
		fakemodel.Call("skill", args{"name": "claude-evil"}),
	},
	"qwen": {fakemodel.Call("skill", args{"skill": "agents-evil"})},
}

// When the model reads a file in a trusted folder, Gemini CLI 0.61.0 also shows
// it the GEMINI.md in the same directory. Runnel must not treat a folder with a
// nested GEMINI.md as trusted, although the folder has no settings.
func TestGeminiReadsNoNestedContextOfUntrustedFolder(t *testing.T) {
	eachOf(t, []string{"gemini"}, func(t *testing.T, r *rig) {
		if err := os.Mkdir(r.File("sub"), 0o700); err != nil {
			t.Fatal(err)
		}
		r.Write("sub/GEMINI.md", realagents.Memory+"\n")
		r.Write(realagents.Nested, "beta\n")
		read := func() {
			t.Helper()
			r.Play(calls(r.words().Read(r.File(realagents.Nested))), said)
			r.Finish(translate.AllowOnce)
			r.Close()
		}
		read()
		if r.ModelReceived(realagents.Memory) {
			t.Error("the model was shown what the folder says")
		}
		if os.Getenv("RUNNEL_LONG") == "" {
			return
		}
		r.Opt.Trusted, r.Conn = true, nil // proves that the test can fail
		read()
		if !r.ModelReceived(realagents.Memory) {
			t.Error("the model was not shown what a trusted folder says")
		}
	})
}

// GitHub Copilot 1.0.102 ignores case when it looks for its context files.
func TestContextFilesSpelledOtherwiseDoNotLeadElsewhere(t *testing.T) {
	eachOf(t, []string{"copilot"}, func(t *testing.T, r *rig) {
		outside := filepath.Join(r.Home.Dir, "outside.md")
		if err := os.WriteFile(outside, []byte(realagents.Canary+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, dir := range []string{".git", ".github"} {
			if err := os.Mkdir(r.File(dir), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		links := []string{".github/Copilot-Instructions.md", "Agents.md", "claude.md"}
		for _, name := range links {
			if err := os.Symlink(outside, r.File(name)); err != nil {
				t.Fatal(err)
			}
		}
		files := r.refused()
		slices.Sort(files)
		if !slices.Equal(files, links) {
			t.Errorf("refused: %q, want %q", files, links)
		}
		r.Play(said)
		r.Finish(translate.AllowOnce)
		if r.ModelReceived(realagents.Canary) {
			t.Error("the model was shown a file outside of the folder")
		}
	})
}

// readsMemory lists the agents that show the model a file such as AGENTS.md
// even in an untrusted folder. They have no switch for that. The file is only
// text and runs nothing.
var readsMemory = map[string]bool{"codex-acp": true, "copilot": true, "qwen": true}

// TestTrustedRepositorySettingsApply trusts the same folder. Its programs must
// run, which proves that the tests with an untrusted folder can fail.
func TestTrustedRepositorySettingsApply(t *testing.T) {
	eachOf(t, realagents.Usually("codex-acp"), func(t *testing.T, r *rig) {
		trap := r.SetTrap()
		r.Opt.Trusted = true
		ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
		defer cancel()
		c, err := r.Provider.Open(ctx, r.Opt)
		if err == nil {
			r.Conn = c
			r.Send("hi")
			r.DenyAll()
			c.Close()
		}
		if ran := trap.Ran(); len(ran) == 0 && len(trap.Elsewhere.Requests()) == 0 {
			t.Errorf("nothing ran, and nothing went elsewhere: %v", err)
		}
	})
}

// The configuration of Codex may hide variables from commands if their names
// look like those of keys. GIT_CONFIG_KEY_0 is such a name.
func TestGitSettingsReachCodexToolsThatFilterVariables(t *testing.T) {
	eachOf(t, []string{"codex-acp"}, func(t *testing.T, r *rig) {
		config, err := os.OpenFile(filepath.Join(r.Home.Codex, "config.toml"), os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer config.Close()
		if _, err := config.WriteString("\n[shell_environment_policy]\nignore_default_excludes = false\n"); err != nil {
			t.Fatal(err)
		}
		r.Opt.Env = append(r.Opt.Env, `CODEX_CONFIG={"shell_environment_policy":{"set":{"MINE":"1"}},"hide_agent_reasoning":false}`)
		r.WithstandsGit(nil)
	})
}
