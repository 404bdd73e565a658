package acp

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/fakemodel"
	"github.com/runnel-dev/runnel/internal/realagents"
	"github.com/runnel-dev/runnel/provider/providertest"
)

// said is the message at the end of most turns.
var said = fakemodel.Step{Text: "Done."}

func calls(blocks ...fakemodel.Block) fakemodel.Step { return fakemodel.Step{Blocks: blocks} }

// subject is what the agents have in common. The agents' own tests change it.
func subject(t *testing.T, name string) providertest.Subject {
	w := realagents.WordsOf(name)
	models := make(map[string]*fakemodel.Server) // by the directory of their agents
	return providertest.Subject{
		New: func(t *testing.T) (runnel.Provider, runnel.Options) {
			r := newRig(t, name)
			models[r.Opt.Dir] = r.Model
			r.Write("a.txt", "alpha\n")
			r.Write("b.txt", "beta\n")
			return r.Provider, r.Opt
		},
		Prompts: map[providertest.Scenario]string{
			providertest.Text:      scenario(said),
			providertest.Reasoning: scenario(fakemodel.Step{Blocks: []fakemodel.Block{{Type: "thinking", Text: "Let me see."}, {Type: "text", Text: "Done."}}}),
			providertest.Tool:      scenario(calls(w.Shell("echo hi")), said),
			providertest.Parallel:  scenario(calls(w.Shell("until [ -e both ]; do sleep 0.05; done; echo one"), w.Shell("until [ -e both ]; do sleep 0.05; done; echo two")), said),
			providertest.Edit:      scenario(calls(w.Write("made.txt", "made\n")), said),
			providertest.Approval:  scenario(calls(w.Ask("touch asked")), said),
			providertest.LongText:  scenario(fakemodel.Step{Text: "on and on and on", Chunk: 4, Faults: []fakemodel.Fault{{Kind: fakemodel.Stall, After: 3}}}),
			providertest.LongTool:  scenario(calls(w.Shell("touch running; sleep 600")), said),
			providertest.Failure:   scenario(fakemodel.Step{Fail: &fakemodel.Failure{Status: 400}}),
			providertest.Plan:      scenario(calls(w.Plan("Look", "Leap")), said),
			providertest.Recover:   scenario(said),
			providertest.Image:     scenario(said),
		},
		SawImage: func(opt runnel.Options) bool {
			return slices.ContainsFunc(models[opt.Dir].Requests(), func(r fakemodel.Request) bool {
				return bytes.Contains(r.Body, []byte(`image/png`))
			})
		},
		Told:             func(opt runnel.Options, what string) bool { return models[opt.Dir].Told(what) },
		Cannot:           map[providertest.Scenario]string{},
		Lacks:            map[providertest.Scenario]string{},
		Said:             "Done.",
		Processes:        true,
		TurnsByOrder:     true,
		OutputsWithCalls: true,
		Differences:      map[string]func(event.Item) bool{},
	}
}

// TestConformance runs the suite with each agent in a process of its own, some
// at a time: most of it is waiting, and what is to be killed or to be gone is
// looked for among the descendants of the process.
func TestConformance(t *testing.T) {
	if os.Getenv(alone) == "" {
		t.Parallel()
	}
	for _, name := range []string{"gemini", "qwen", "opencode", "codex-acp", "copilot", "claude-agent-acp"} { // those that wait longest first
		t.Run(name, func(t *testing.T) {
			if os.Getenv(alone) == "" {
				realagents.Find(t, name) // skips here: the other process has to pass
				t.Parallel()
				onItsOwn(t)
				return
			}
			s := subject(t, name)
			s.Version = realagents.Find(t, name).Version
			subjects[name](&s)
			providertest.Run(t, s)
		})
	}
}

// alone is set where the process is for one agent.
const alone = "RUNNEL_TEST_ALONE"

// onItsOwn runs a test and what is in it in another process, with the flags of
// this one.
func onItsOwn(t *testing.T) {
	t.Helper()
	pattern := "^" + strings.ReplaceAll(t.Name(), "/", "$/^") + "$"
	if asked := flag.Lookup("test.run").Value.String(); strings.Count(asked, "/") > 1 {
		pattern = asked
	}
	args := []string{"-test.run=" + pattern, "-test.v", "-test.timeout=14m"}
	if results := flag.Lookup("results"); results.Value.String() == "true" {
		args = append(args, "-results")
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), alone+"=1")
	out, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("--- PASS: "+t.Name()+" ")) {
		t.Errorf("%v\n%s", err, out)
		return
	}
	for line := range bytes.Lines(out) {
		if bytes.Contains(line, []byte("--- ")) {
			t.Logf("%s", bytes.TrimRight(line, "\n"))
		}
	}
}

// subjects are the agents' own.
var subjects = map[string]func(*providertest.Subject){
	"codex-acp": func(s *providertest.Subject) {
		delete(s.Prompts, providertest.Plan)
		s.Cannot[providertest.Plan] = "Codex 0.169 offers this model no tool for it"
		s.Differences["codex-acp 2.6.0 tells calls in the order in which they began when live, and in which they ended when it loads"] = func(it event.Item) bool {
			return bytes.Contains([]byte(it.Content), []byte("[ -e both ]")) || it.Content == "one\n" || it.Content == "two\n"
		}
		s.Differences["codex-acp 2.6.0 tells of a subagent before it tells of the wait for it when it loads"] = func(it event.Item) bool { return it.Name == "wait" }
		s.Differences["codex-acp 2.6.0 says a failure in the model's place when live, and not when it loads"] = func(it event.Item) bool {
			return it.Status == event.ItemStopped && bytes.Contains([]byte(it.Content), []byte("scripted 400"))
		}
		s.Cannot[providertest.Denial] = "its only denial ends the turn (codex-acp 2.6.0, denied-stop)"
		inner := fakemodel.Scenario{Steps: []fakemodel.Step{calls(realagents.WordsOf("codex-acp").Shell("echo found")), {Text: "Found."}}}
		s.Prompts[providertest.Subagent] = scenario(
			calls(fakemodel.Call("spawn_agent", args{"task_name": "look", "message": inner.Prompt("look"), "fork_turns": "none"})),
			calls(fakemodel.Call("wait_agent", args{"timeout_ms": 60000})), said)
		s.Needs = map[providertest.Scenario]func(*runnel.Options){
			providertest.Question: func(opt *runnel.Options) { opt.PermissionMode = runnel.ModePlan }, // only then the model may ask (codex-acp 2.6.0)
			providertest.Subagent: func(opt *runnel.Options) { opt.Model = "gpt-6.1-sol" },            // others have no tool for it
		}
		s.Prompts[providertest.Question] = scenario(calls(fakemodel.Call("request_user_input", args{"questions": []args{{
			"id": "colour", "header": "Colour", "question": "Which colour?",
			"options": []args{{"label": "Red", "description": "warm"}, {"label": "Blue", "description": "cold"}},
		}}})), said)
		s.Lacks[providertest.Behind] = "what a subagent does behind the turn is not shown, and what it asks is denied"
	},
	"claude-agent-acp": func(s *providertest.Subject) {
		inner := fakemodel.Scenario{Steps: []fakemodel.Step{calls(realagents.WordsOf("claude-agent-acp").Shell("echo found")), {Text: "Found."}}}
		s.Prompts[providertest.Subagent] = scenario(calls(fakemodel.Call("Agent", args{"description": "Look", "prompt": inner.Prompt("look"), "subagent_type": "general-purpose", "run_in_background": false})), said)
		s.Differences["claude-agent-acp 0.100.0 does not tell what a subagent did when it loads"] = func(it event.Item) bool { return it.ParentCallID != "" }
		s.Prompts[providertest.Question] = scenario(calls(fakemodel.Call("AskUserQuestion", args{"questions": []args{{
			"question": "Which one?", "header": "Pick", "multiSelect": false,
			"options": []args{{"label": "Red", "description": "r"}, {"label": "Blue", "description": "b"}},
		}}})), said)
		s.Lacks[providertest.Behind] = "version 1 of the protocol has no turn that nobody asked for: what is said after the turn is a notice, and what is asked is denied"
	},
	"qwen": func(s *providertest.Subject) {
		inner := fakemodel.Scenario{Steps: []fakemodel.Step{calls(realagents.WordsOf("qwen").Shell("echo found")), {Text: "Found."}}}
		read := func(path string) fakemodel.Block { return fakemodel.Call("read_file", args{"file_path": path}) }
		s.Prompts[providertest.Parallel] = scenario(calls(read(providertest.Dir+"/a.txt"), read(providertest.Dir+"/b.txt")), said) // commands run one after another
		s.Prompts[providertest.Edit] = scenario(calls(realagents.WordsOf("qwen").Write(providertest.Dir+"/made.txt", "made\n")), said)
		s.Prompts[providertest.Subagent] = scenario(calls(fakemodel.Call("agent", args{"description": "Look", "prompt": inner.Prompt("look"), "subagent_type": "general-purpose", "run_in_background": false})), said)
		s.Prompts[providertest.Question] = scenario(calls(fakemodel.Call("ask_user_question", args{"questions": []args{{
			"question": "Which one?", "header": "Pick", "multiSelect": false,
			"options": []args{{"label": "Red", "description": "r"}, {"label": "Blue", "description": "b"}},
		}}})), said)
		s.Differences["Qwen Code 0.24.4 does not tell what a subagent did when it loads"] = func(it event.Item) bool {
			return it.ParentCallID != "" || it.Type == event.TypeFunctionCallOutput && it.Name == "agent"
		}
		s.Notes = append(s.Notes,
			"Its list of tasks, todo_write, is off unless `tools.todoWrite.enabled` is set in its settings (Qwen Code 0.24.4).",
			"Its history leaves out a prompt of attachments without a text: the answer to it is part of the turn before (Qwen Code 0.24.4).",
			"On a busy machine, the terminal that it runs commands in can hang up on one that ends at once, which is then reported as failed; `tools.shell.enableInteractiveShell: false` in its settings avoids that (Qwen Code 0.24.4).",
			"The arguments of a call that fails before it is asked about, or run, are known only when its history is read (Qwen Code 0.24.4).")
		s.Cannot[providertest.Denial] = "its only denial ends the turn (Qwen Code 0.24.4, denied-stop)"
		s.Lacks[providertest.Behind] = "version 1 of the protocol has no turn that nobody asked for: what is said after the turn is a notice, and what is asked is denied"
	},
	"opencode": func(s *providertest.Subject) {
		read := func(path string) fakemodel.Block { return fakemodel.Call("read", args{"filePath": path}) }
		s.Prompts[providertest.Tool] = scenario(calls(read("a.txt")), said)
		s.Prompts[providertest.Parallel] = scenario(calls(read("a.txt"), read("b.txt")), said)
		s.Cannot[providertest.Subagent] = "it tells of a subagent when it starts and how it ended, and not what it does (opencode 1.18.33)"
		s.Cannot[providertest.Question] = "it offers the model no tool for it (opencode 1.18.33)"
		s.Cannot[providertest.Behind] = "it runs nothing behind a turn (opencode 1.18.33)"
	},
	"gemini": func(s *providertest.Subject) {
		s.Notes = append(s.Notes, "What a command printed is not told: its output is empty. That of other tools is (Gemini CLI 0.61.0).")
		glob := func(pattern string) fakemodel.Block { return fakemodel.Call("glob", args{"pattern": pattern}) }
		s.Prompts[providertest.Tool] = scenario(calls(glob("*.txt")), said) // of a command it does not tell the output
		delete(s.Prompts, providertest.Parallel)
		s.Cannot[providertest.Parallel] = "it runs one call after the other (Gemini CLI 0.61.0)"
		delete(s.Prompts, providertest.Plan)
		s.Cannot[providertest.Plan] = "it offers the model no tool for it (Gemini CLI 0.61.0)"
		s.Cannot[providertest.Subagent] = "its policy denies subagents (Gemini CLI 0.61.0)"
		s.Cannot[providertest.Question] = "it offers the model no tool for it (Gemini CLI 0.61.0)"
		s.Cannot[providertest.Behind] = "what it left running starts no turn when it ends (Gemini CLI 0.61.0)"
	},
	"copilot": func(s *providertest.Subject) {
		glob := func(pattern string) fakemodel.Block { return fakemodel.Call("glob", args{"pattern": pattern}) }
		s.Prompts[providertest.Tool] = scenario(calls(glob("*.txt")), said) // it asks before every command
		s.Prompts[providertest.Parallel] = scenario(calls(glob("a*"), glob("b*")), said)
		delete(s.Prompts, providertest.Plan)
		s.Cannot[providertest.Plan] = "it offers the model no tool for it (Copilot 1.0.102)"
		s.Cannot[providertest.Subagent] = "it does not say which call a subagent works for, and whose words are whose (Copilot 1.0.102)"
		s.Cannot[providertest.Question] = "it offers the model no tool for it (Copilot 1.0.102)"
		s.Differences["when Copilot 1.0.102 loads, a failure cannot be told from what the model said"] = func(it event.Item) bool {
			return strings.HasPrefix(it.Content, "Error: 400 scripted")
		}
		s.Differences["Copilot 1.0.102 does not tell of reasoning when it loads"] = func(it event.Item) bool { return it.Type == event.TypeReasoning }
		s.Cannot[providertest.Behind] = "what it left running starts no turn when it ends (Copilot 1.0.102)"
	},
}
