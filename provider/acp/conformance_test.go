package acp

import (
	"bytes"
	"flag"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/agentrig"
	"github.com/runnel-dev/runnel/internal/fakemodel"
	"github.com/runnel-dev/runnel/internal/realagents"
	"github.com/runnel-dev/runnel/provider/providertest"
)

// said is the agent's message at the end of most turns.
var said = fakemodel.Step{Text: "Done."}

func calls(blocks ...fakemodel.Block) fakemodel.Step { return fakemodel.Step{Blocks: blocks} }

// subject returns the part of the Subject that all agents share. subjects adds
// the part of each agent.
func subject(t *testing.T, name string, box runnel.Sandbox) providertest.Subject {
	w := realagents.ToolsetOf(name)
	models := make(map[string]*fakemodel.Server) // by the directory of their agents
	return providertest.Subject{
		Version: realagents.Find(t, name).Version,
		Sandbox: box,
		New: func(t *testing.T) (runnel.Provider, runnel.Options) {
			r := newRig(t, name)
			models[r.Opt.Dir] = r.Model
			r.Enclose(box)
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
		ModelReceived:    func(opt runnel.Options, what string) bool { return models[opt.Dir].Received(what) },
		Cannot:           map[providertest.Scenario]string{},
		Lacks:            map[providertest.Scenario]string{},
		MessageEnd:       "Done.",
		Processes:        true,
		TurnsByOrder:     true,
		OutputsWithCalls: true,
		Differences:      map[string]func(event.Item) bool{},
	}
}

// TestConformance runs the suite with each agent in a separate test process,
// because the suite kills and counts the descendants of its process. The
// processes run in parallel, because they mostly wait.
func TestConformance(t *testing.T) {
	// The agents with the longest tests come first.
	conformance(t, "", "gemini", "qwen", "opencode", "codex-acp", "copilot", "claude-agent-acp")
}

// TestConformanceInSandbox runs the suite with each agent that can run in a
// sandbox.
func TestConformanceInSandbox(t *testing.T) {
	agentrig.NeedLong(t)
	agentrig.NeedSandbox(t)
	conformance(t, runnel.SandboxProject, slices.Sorted(maps.Keys(enclosures))...)
}

func conformance(t *testing.T, box runnel.Sandbox, names ...string) {
	if os.Getenv(alone) == "" {
		t.Parallel()
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			if os.Getenv(alone) == "" {
				realagents.Find(t, name) // skips the test if the agent is not installed; in the other process a skip counts as a failure
				t.Parallel()
				onItsOwn(t)
				return
			}
			s := subject(t, name, box)
			subjects[name](&s)
			if name != "codex-acp" { // it is the fastest
				s.Repeats = []string{"Contract", "AttachmentWithBlankText", "StuffedPipes"}
			}
			if name != "codex-acp" && name != "claude-agent-acp" { // a turn of the others takes a second; their recordings have the same cases
				s.Repeats = append(s.Repeats, "PDF", "ApprovalDeniedAndStopped", "InterruptInApproval", "ResumeAfterClose")
			}
			providertest.Run(t, s)
		})
	}
}

// alone is the environment variable that is set in a process for one agent.
const alone = "RUNNEL_TEST_ALONE"

// onItsOwn runs a test and its subtests in another process. The process gets
// this process's -results flag, and its -run flag if that selects subtests.
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

// subjects changes the Subject for each agent, by provider name.
var subjects = map[string]func(*providertest.Subject){
	"codex-acp": func(s *providertest.Subject) {
		delete(s.Prompts, providertest.Plan)
		s.Cannot[providertest.Plan] = "Codex 0.169 offers this model no tool for this"
		s.Differences["codex-acp 2.6.0 tells calls in the order in which they began when live, and in which they ended when it loads"] = func(it event.Item) bool {
			return bytes.Contains([]byte(it.Content), []byte("[ -e both ]")) || it.Content == "one\n" || it.Content == "two\n"
		}
		s.Differences["when it replays, codex-acp 2.6.0 reports a subagent before the wait for it"] = func(it event.Item) bool { return it.Name == "wait" }
		s.Differences["codex-acp 2.6.0 says a failure in the model's place when live, and not when it loads"] = func(it event.Item) bool {
			return it.Status == event.ItemStopped && bytes.Contains([]byte(it.Content), []byte("scripted 400"))
		}
		s.Cannot[providertest.Denial] = "the agent's only denial also ends the turn (codex-acp 2.6.0, denied-stop)"
		inner := fakemodel.Scenario{Steps: []fakemodel.Step{calls(realagents.ToolsetOf("codex-acp").Shell("echo found")), {Text: "Found."}}}
		s.Prompts[providertest.Subagent] = scenario(
			calls(fakemodel.Call("spawn_agent", args{"task_name": "look", "message": inner.Prompt("look"), "fork_turns": "none"})),
			calls(fakemodel.Call("wait_agent", args{"timeout_ms": 60000})), said)
		s.Needs = map[providertest.Scenario]func(*runnel.Options){
			providertest.Question: func(opt *runnel.Options) { opt.PermissionMode = runnel.ModePlan }, // the model may ask only in this mode (codex-acp 2.6.0)
			providertest.Subagent: func(opt *runnel.Options) { opt.Model = "gpt-6.1-sol" },            // codex-acp offers other models no tool for subagents
		}
		s.Prompts[providertest.Question] = scenario(calls(fakemodel.Call("request_user_input", args{"questions": []args{{
			"id": "colour", "header": "Colour", "question": "Which colour?",
			"options": []args{{"label": "Red", "description": "warm"}, {"label": "Blue", "description": "cold"}},
		}}})), said)
		s.Lacks[providertest.Background] = "Runnel does not show what a subagent does after the turn, and denies its approvals"
	},
	"claude-agent-acp": func(s *providertest.Subject) {
		inner := fakemodel.Scenario{Steps: []fakemodel.Step{calls(realagents.ToolsetOf("claude-agent-acp").Shell("echo found")), {Text: "Found."}}}
		s.Prompts[providertest.Subagent] = scenario(calls(fakemodel.Call("Agent", args{"description": "Look", "prompt": inner.Prompt("look"), "subagent_type": "general-purpose", "run_in_background": false})), said)
		s.Differences["claude-agent-acp 0.100.0 does not tell what a subagent did when it loads"] = func(it event.Item) bool { return it.ParentCallID != "" }
		s.Prompts[providertest.Question] = scenario(calls(fakemodel.Call("AskUserQuestion", args{"questions": []args{{
			"question": "Which one?", "header": "Pick", "multiSelect": false,
			"options": []args{{"label": "Red", "description": "r"}, {"label": "Blue", "description": "b"}},
		}}})), said)
		s.Lacks[providertest.Background] = "version 1 of the protocol has no turn without a prompt: Runnel shows text after the turn as a notice, and denies approvals"
	},
	"qwen": func(s *providertest.Subject) {
		inner := fakemodel.Scenario{Steps: []fakemodel.Step{calls(realagents.ToolsetOf("qwen").Shell("echo found")), {Text: "Found."}}}
		read := func(path string) fakemodel.Block { return fakemodel.Call("read_file", args{"file_path": path}) }
		// Qwen Code may read a command's last output too late and then reports
		// no output. The sleep at the end of the command prevents this. No event
		// could release the command instead: Qwen Code 0.24.4 reports the output
		// only after the command has ended.
		s.Prompts[providertest.Tool] = scenario(calls(realagents.ToolsetOf("qwen").Shell("echo hi; sleep 0.5")), said)
		s.Prompts[providertest.Parallel] = scenario(calls(read(providertest.Dir+"/a.txt"), read(providertest.Dir+"/b.txt")), said) // the calls read files, because Qwen Code runs commands one after another
		s.Prompts[providertest.Edit] = scenario(calls(realagents.ToolsetOf("qwen").Write(providertest.Dir+"/made.txt", "made\n")), said)
		s.Prompts[providertest.Subagent] = scenario(calls(fakemodel.Call("agent", args{"description": "Look", "prompt": inner.Prompt("look"), "subagent_type": "general-purpose", "run_in_background": false})), said)
		s.Prompts[providertest.Question] = scenario(calls(fakemodel.Call("ask_user_question", args{"questions": []args{{
			"question": "Which one?", "header": "Pick", "multiSelect": false,
			"options": []args{{"label": "Red", "description": "r"}, {"label": "Blue", "description": "b"}},
		}}})), said)
		s.Differences["Qwen Code 0.24.4 does not tell what a subagent did when it loads"] = func(it event.Item) bool {
			return it.ParentCallID != "" || it.Type == event.TypeFunctionCallOutput && it.Name == "agent"
		}
		s.Notes = append(s.Notes,
			"The agent can lose what a command prints just before it ends: it does not wait for the rest of the output (Qwen Code 0.24.4). The call is then shown without output.",
			"The agent's task list, todo_write, is off unless `tools.todoWrite.enabled` is set in its settings (Qwen Code 0.24.4).",
			"The agent's history omits a prompt that has attachments but no text; the answer to such a prompt belongs to the previous turn (Qwen Code 0.24.4).",
			"On a busy machine, a command that ends at once can be reported as failed, because the agent's terminal hangs up on it. `tools.shell.enableInteractiveShell: false` in the agent's settings prevents this (Qwen Code 0.24.4).",
			"If a call fails before its approval and before it runs, only the agent's history has its arguments (Qwen Code 0.24.4).")
		s.Cannot[providertest.Denial] = "the agent's only denial also ends the turn (Qwen Code 0.24.4, denied-stop)"
		s.Lacks[providertest.Background] = "version 1 of the protocol has no turn without a prompt: Runnel shows text after the turn as a notice, and denies approvals"
	},
	"opencode": func(s *providertest.Subject) {
		read := func(path string) fakemodel.Block { return fakemodel.Call("read", args{"filePath": path}) }
		s.Prompts[providertest.Tool] = scenario(calls(read("a.txt")), said)
		s.Prompts[providertest.Parallel] = scenario(calls(read("a.txt"), read("b.txt")), said)
		s.Cannot[providertest.Subagent] = "the agent reports only the start and the result of a subagent, not its work (opencode 1.18.33)"
		s.Cannot[providertest.Question] = "the agent offers the model no tool for this (opencode 1.18.33)"
		s.Cannot[providertest.Background] = "the agent has no background tasks (opencode 1.18.33)"
		if s.Sandbox.IsOn() {
			s.Lacks[providertest.History] = "Runnel does not read the database in which an agent in a sandbox stores its conversations; the session's own log has them"
		}
	},
	"gemini": func(s *providertest.Subject) {
		s.Notes = append(s.Notes, "The agent does not report the output of commands, so their output is empty. The agent reports the output of other tools (Gemini CLI 0.61.0).")
		glob := func(pattern string) fakemodel.Block { return fakemodel.Call("glob", args{"pattern": pattern}) }
		s.Prompts[providertest.Tool] = scenario(calls(glob("*.txt")), said) // glob, because Gemini CLI does not report the output of commands
		delete(s.Prompts, providertest.Parallel)
		s.Cannot[providertest.Parallel] = "the agent runs one call at a time (Gemini CLI 0.61.0)"
		delete(s.Prompts, providertest.Plan)
		s.Cannot[providertest.Plan] = "the agent offers the model no tool for this (Gemini CLI 0.61.0)"
		s.Cannot[providertest.Subagent] = "the agent reports only that a subagent starts and ends, not its work (Gemini CLI 0.61.0)"
		s.Cannot[providertest.Question] = "the agent offers the model no tool for this (Gemini CLI 0.61.0)"
		s.Cannot[providertest.Background] = "a background task starts no turn when it ends (Gemini CLI 0.61.0)"
		s.Differences["Gemini CLI 0.61.0 stores the arguments and the output of calls, which it does not report live"] = func(it event.Item) bool {
			return it.Type == event.TypeFunctionCall || it.Type == event.TypeFunctionCallOutput
		}
	},
	"copilot": func(s *providertest.Subject) {
		glob := func(pattern string) fakemodel.Block { return fakemodel.Call("glob", args{"pattern": pattern}) }
		s.Prompts[providertest.Tool] = scenario(calls(glob("*.txt")), said) // glob, because the agent asks for permission before every command
		s.Prompts[providertest.Parallel] = scenario(calls(glob("a*"), glob("b*")), said)
		delete(s.Prompts, providertest.Plan)
		s.Cannot[providertest.Plan] = "the agent offers the model no tool for this (Copilot 1.0.102)"
		s.Cannot[providertest.Subagent] = "the agent does not report which call a subagent belongs to, nor which messages are the subagent's (Copilot 1.0.102)"
		s.Cannot[providertest.Question] = "the agent offers the model no tool for this (Copilot 1.0.102)"
		s.Differences["when Copilot 1.0.102 loads, a failure cannot be told from what the model said"] = func(it event.Item) bool {
			return strings.HasPrefix(it.Content, "Error: 400 scripted")
		}
		s.Differences["Copilot 1.0.102 does not tell of reasoning when it loads"] = func(it event.Item) bool { return it.Type == event.TypeReasoning }
		s.Cannot[providertest.Background] = "a background task starts no turn when it ends (Copilot 1.0.102)"
	},
}
