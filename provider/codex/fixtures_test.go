package codex

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/agentrig"
	"github.com/runnel-dev/runnel/internal/fakemodel"
)

// fixture describes a conversation to record.
type fixture struct {
	name  string
	prose string
	play  func(r *rig)
}

func fixtures() []fixture {
	return slices.Concat(workFixtures(), askFixtures(), stopFixtures(), modelFixtures(), agentFixtures())
}

func workFixtures() []fixture {
	return []fixture{
		{name: "text", prose: "Reasoning, text in two phases, and a second turn.", play: func(r *rig) {
			r.Play(fakemodel.Step{Chunk: 12, Blocks: []fakemodel.Block{
				{Type: "thinking", Parts: []string{"**First**\n\nI look.", "**Then**\n\nI think."}},
				{Type: "text", Text: "I begin.", Phase: "commentary"}, {Type: "text", Text: "Grüße, 世界 🙂.", Phase: "final_answer"},
			}, Usage: map[string]int64{"input_tokens": 900, "output_tokens": 30, "cache_read_input_tokens": 100, "reasoning_tokens": 9}})
			r.FinishTurn("")
			r.Play(says("Second turn."))
			r.FinishTurn("")
		}},
		{name: "no-id", prose: "The model's items have no ids of their own.", play: func(r *rig) {
			r.Play(fakemodel.Step{Blocks: []fakemodel.Block{{Type: "text", Text: "Nameless.", NoID: true}}})
			r.FinishTurn("")
		}},
		{name: "command", prose: "A command that prints in pieces, one that fails, one that prints nothing, a tool that does not exist, and arguments that are not JSON.", play: func(r *rig) {
			r.Play(calls(shell("for i in 1 2 3; do echo line $i; sleep 0.3; done")), calls(shell("echo out; echo err >&2; exit 3")), calls(shell("true")),
				calls(fakemodel.Call("no_such_tool", args{"a": 1})), calls(fakemodel.Block{Type: "tool_use", Name: "exec_command", RawInput: `{"cmd": `}), says("Done."))
			r.FinishTurn("")
		}},
		{name: "parallel", prose: "Two commands run at the same time; the first ends last.", play: func(r *rig) {
			r.Play(calls(shell("sleep 0.6; echo slow"), shell("sleep 0.2; echo fast")), says("Both."))
			r.FinishTurn("")
		}},
		{name: "long-output", prose: "A command prints more than the agent keeps.", play: func(r *rig) {
			r.Play(calls(fakemodel.Call("exec_command", args{"cmd": "seq 1 12000", "yield_time_ms": 20000, "max_output_tokens": 50})), says("Counted."))
			r.FinishTurn("")
		}},
		{name: "patch", prose: "Files are created, changed, moved and deleted.", play: func(r *rig) {
			r.Play(
				calls(patch("*** Begin Patch\n*** Add File: a.txt\n+one\n+two\n+three\n*** Add File: gone.txt\n+gone\n*** End Patch\n")),
				calls(patch("*** Begin Patch\n*** Update File: a.txt\n@@\n one\n-two\n+TWO\n three\n*** Add File: b.txt\n+new\n*** End Patch\n")),
				calls(patch("*** Begin Patch\n*** Update File: b.txt\n*** Move to: c.txt\n@@\n-new\n+moved\n*** End Patch\n")),
				calls(patch("*** Begin Patch\n*** Delete File: gone.txt\n*** End Patch\n")),
				calls(patch("*** Begin Patch\n*** Update File: missing.txt\n@@\n-x\n+y\n*** End Patch\n")), says("Done."))
			r.FinishTurn(allowOnce)
		}},
		{name: "web-search", prose: "The model searches the web by itself.", play: func(r *rig) {
			r.Play(calls(fakemodel.Block{Type: "web_search", Text: "weather"}, fakemodel.Block{Type: "text", Text: "It rains."}))
			r.FinishTurn("")
		}},
		{name: "image", prose: "A prompt with an image and a document, and the model looks at a file.", play: func(r *rig) {
			r.Write("red.png", string(agentrig.RedPixel(r.T)))
			r.Input(runnel.Input{Text: fakemodel.Scenario{Steps: []fakemodel.Step{calls(fakemodel.Call("view_image", args{"path": r.File("red.png")})), says("Red.")}}.Prompt("What is it?"),
				Attachments: []runnel.Attachment{{Name: "red.png", MediaType: "image/png", Data: agentrig.RedPixel(r.T)}, {Name: "a<b>.md", MediaType: "text/markdown", Text: "# Hello\n"}}})
			r.FinishTurn("")
		}},
		{name: "mcp", prose: "A tool of an MCP server is allowed, denied, and allowed for the session; another one asks the user.", play: func(r *rig) {
			r.MCP()
			r.Opt.Model = "gpt-6.1-sol" // for other models, its tools must be searched for
			add := func() fakemodel.Step { return calls(code(`text(await tools.mcp__t__add({a: 1}))`)) }
			for _, choice := range []string{allowOnce, deny, allowSession, ""} {
				r.Play(add(), says("Added."))
				r.FinishTurn(choice)
			}
			r.Play(calls(code(`text(await tools.mcp__t__form({}))`)), says("Named."))
			r.Until(func(ev event.Event) bool {
				if b, ok := ev.Body.(event.ApprovalRequested); ok {
					d := runnel.Decision{Choice: allowOnce}
					if b.Approval.Kind == event.ApprovalForm {
						d.UpdatedArguments = json.RawMessage(`{"name":"Ada"}`)
					}
					r.Decide(b.Approval, d)
				}
				return event.Ends(ev.Body)
			})
		}},
		{name: "code-mode", prose: "The newer models write a script that calls the tools.", play: func(r *rig) {
			r.Opt.Model = "gpt-6.1-sol"
			r.Play(
				calls(code(`text(await tools.exec_command({cmd: "echo from-a-script"}))`)),
				calls(code(`text(await tools.apply_patch("*** Begin Patch\n*** Add File: s.txt\n+made\n*** End Patch\n"))`)),
				calls(code(`text(await Promise.all([tools.exec_command({cmd: "sleep 0.2; echo a"}), tools.exec_command({cmd: "echo b"})]))`)), says("Done."))
			r.FinishTurn("")
		}},
	}
}

func askFixtures() []fixture {
	untrusted := func(r *rig) { r.Opt.Config = runnel.Values{optionApproval: "untrusted"} }
	add := func(name string) fakemodel.Step {
		return calls(patch("*** Begin Patch\n*** Add File: " + name + "\n+x\n*** End Patch\n"))
	}
	return []fixture{
		{name: "ask-command", prose: "Commands need approval: allowed once, allowed for the session and then repeated without approval, denied, always allowed.", play: func(r *rig) {
			for i, choice := range []string{allowOnce, allowSession, "", deny, allowAlways} {
				cmd := []string{"echo one", "echo two", "echo two", "echo three", "echo four"}[i]
				r.Play(calls(escalated(cmd)), says("Asked."))
				r.FinishTurn(choice)
			}
		}},
		{name: "ask-command-stop", prose: "A command is denied, which also ends the turn.", play: func(r *rig) {
			r.Play(calls(escalated("echo never")), says("Never."))
			r.FinishTurn(denyStop)
			r.Play(says("On."))
			r.FinishTurn("")
		}},
		{name: "ask-patch", prose: "Edits need approval: allowed once, denied, allowed for the session, denied and stopped.", play: func(r *rig) {
			untrusted(r)
			for i, choice := range []string{allowOnce, deny, allowSession, denyStop} {
				r.Play(add("f"+itoa(i)+".txt"), says("Asked."))
				r.FinishTurn(choice)
			}
		}},
		{name: "question", prose: "In plan mode, the agent asks the user questions: one is answered by a choice, two by text, one is not answered, and one is stopped.", play: func(r *rig) {
			r.Opt.PermissionMode = runnel.ModePlan
			q := func(id string) args {
				return args{"id": id, "header": "Pick", "question": "Which " + id + "?", "options": []args{{"label": "Red", "description": "r"}, {"label": "Blue", "description": "b"}}}
			}
			ask := func(qs ...args) fakemodel.Step {
				return calls(fakemodel.Call("request_user_input", args{"questions": qs}))
			}
			r.Play(ask(q("one")), says("Blue."))
			r.FinishTurn(option + "2")
			r.Play(ask(q("two"), q("three")), says("Both."))
			r.Decide(r.Asked(), runnel.Decision{Choice: allowOnce, UpdatedArguments: json.RawMessage(`{"answers":{"Which two?":"Green","three":["Blue"]}}`)})
			r.FinishTurn("")
			r.Play(ask(q("four")), says("None."))
			r.FinishTurn(deny)
			r.Play(ask(q("five")), says("Never."))
			r.FinishTurn(denyStop)
		}},
		{name: "ask-permissions", prose: "The agent asks for more permissions: granted for the turn, for the session, not granted, and stopped.", play: func(r *rig) {
			r.append("request_permissions_tool = true\nexec_permission_approvals = true\n") // the last table of the configuration is [features]
			for _, choice := range []string{allowOnce, deny, denyStop, allowSession} {
				r.Play(calls(fakemodel.Call("request_permissions", args{"reason": "To fetch.", "permissions": args{"network": args{"enabled": true}}})), says("Asked."))
				r.FinishTurn(choice)
			}
		}},
		{name: "plan-mode", prose: "The agent proposes a plan in plan mode, and continues after the mode changes.", play: func(r *rig) {
			r.Opt.PermissionMode = runnel.ModePlan
			r.Play(fakemodel.Step{Chunk: 10, Text: "Looking.\n<proposed_plan>\n# The plan\n\n1. Do it.\n</proposed_plan>\n"})
			r.FinishTurn("")
			if err := r.Conn.(*conn).SetPermissionMode(r.T.Context(), runnel.ModeAcceptEdits); err != nil {
				r.T.Fatal(err)
			}
			r.Play(says("Doing it."))
			r.FinishTurn("")
		}},
		{name: "plan", prose: "The agent keeps a list of steps.", play: func(r *rig) {
			r.append("[tools.update_plan]\nenabled = true\n")
			plan := func(first, second string) fakemodel.Step {
				return calls(fakemodel.Call("update_plan", args{"explanation": "So.", "plan": []args{{"step": "Look", "status": first}, {"step": "Leap", "status": second}}}))
			}
			r.Play(plan("in_progress", "pending"), plan("completed", "in_progress"), says("Done."))
			r.FinishTurn("")
		}},
		{name: "settings", prose: "Model, effort, approval policy and sandbox change between turns.", play: func(r *rig) {
			r.Play(says("First."))
			r.FinishTurn("")
			for id, value := range map[string]string{optionModel: "gpt-6.1-sol", optionEffort: "high", optionApproval: never, optionSandbox: readOnly} {
				if err := r.Conn.(*conn).SetConfig(r.T.Context(), id, value); err != nil {
					r.T.Fatal(err)
				}
			}
			r.Play(says("Second."))
			r.FinishTurn("")
		}},
	}
}

func stopFixtures() []fixture {
	long := func(after int) fakemodel.Step {
		return fakemodel.Step{Text: "one two three four five", Chunk: 8, Faults: []fakemodel.Fault{{Kind: fakemodel.Stall, After: after, Gate: "never"}}}
	}
	return []fixture{
		{name: "interrupt-text", prose: "Interrupted while text streams.", play: func(r *rig) {
			r.Play(long(2))
			r.Until(func(ev event.Event) bool { _, ok := ev.Body.(event.ItemDelta); return ok })
			r.Interrupt()
			r.FinishTurn("")
			r.Play(says("On."))
			r.FinishTurn("")
		}},
		{name: "interrupt-tool", prose: "Interrupted while a command runs: the agent would leave it running.", play: func(r *rig) {
			r.Play(calls(shell("echo begun; touch started; sleep 600")), says("Never."))
			r.Until(func(ev event.Event) bool {
				b, ok := ev.Body.(event.ItemDone)
				return ok && b.FinalItem.ItemType() == event.TypeFunctionCall
			})
			await(r.T, r.File("started"))
			r.Interrupt()
			r.FinishTurn("")
			r.Play(says("On."))
			r.FinishTurn("")
		}},
		{name: "interrupt-approval", prose: "Interrupted while an approval is open.", play: func(r *rig) {
			r.Play(calls(escalated("echo never")), says("Never."))
			r.Asked()
			r.Interrupt()
			r.FinishTurn("")
			r.Play(says("On."))
			r.FinishTurn("")
		}},
		{name: "interrupt-early", prose: "Interrupted before the agent reported the start of the turn: the interrupt is repeated after the start.", play: func(r *rig) {
			r.Play(fakemodel.Step{Text: "Never.", Hold: "never"})
			r.Interrupt()
			r.FinishTurn("")
			r.Play(says("On."))
			r.FinishTurn("")
		}},
		{name: "background", prose: "A command continues in the background during the next turn, and its end is a background turn.", play: func(r *rig) {
			r.Play(calls(fakemodel.Call("exec_command", args{"cmd": "echo begun; until [ -e go ]; do sleep 0.05; done; echo finished", "yield_time_ms": 250})), says("It runs."))
			r.FinishTurn("")
			r.Play(says("Meanwhile."))
			r.FinishTurn("")
			r.Write("go", "")
			asked := r.Turn
			r.Until(func(ev event.Event) bool { return event.Ends(ev.Body) && ev.Turn != asked })
		}},
		{name: "resume", prose: "The agent is stopped, and a new process resumes the conversation.", play: func(r *rig) {
			r.Play(says("Before."))
			r.FinishTurn("")
			r.again(false)
			r.Play(says("After."))
			r.FinishTurn("")
		}},
		{name: "resume-after-kill", prose: "The agent is killed in the middle of a command, and a new process resumes the conversation.", play: func(r *rig) {
			r.Play(calls(shell("touch started; sleep 600")), says("Never."))
			await(r.T, r.File("started"))
			r.Kill()
			r.again(false)
			r.Play(says("Back."))
			r.FinishTurn("")
		}},
		{name: "fork", prose: "A fork of the conversation continues.", play: func(r *rig) {
			r.Play(says("Before."))
			r.FinishTurn("")
			r.again(true)
			r.Play(says("Apart."))
			r.FinishTurn("")
		}},
	}
}

func modelFixtures() []fixture {
	spoiled := func(kind string, times int) fakemodel.Step {
		return fakemodel.Step{Text: "abcdefghijklmnopqrst", Chunk: 4, Faults: []fakemodel.Fault{{Kind: kind, After: 2, Times: times}}}
	}
	var out []fixture
	fail := func(name, prose string, st fakemodel.Step) {
		out = append(out, fixture{name: name, prose: prose, play: func(r *rig) {
			r.Play(st)
			r.FinishTurn("")
			r.Play(says("On."))
			r.FinishTurn("")
		}})
	}
	fail("retry", "A stream breaks off. The retry is complete and becomes another item.", spoiled(fakemodel.Truncate, 1))
	fail("cut-stream", "Every stream breaks off.", spoiled(fakemodel.Truncate, 0))
	fail("malformed", "Every stream contains invalid JSON.", spoiled(fakemodel.Malformed, 0))
	fail("no-stop", "Every stream ends early.", spoiled(fakemodel.NoStop, 0))
	fail("failed", "The API reports that the answer failed.", spoiled(fakemodel.Failed, 0))
	fail("incomplete", "The answer reaches its maximum length.", spoiled(fakemodel.Incomplete, 0))
	for _, status := range []int{400, 401, 403, 404, 429, 500, 503} {
		fail("api-"+itoa(status), "The API always returns "+itoa(status)+".", fakemodel.Step{Fail: &fakemodel.Failure{Status: status, Message: "detail-of-the-api"}})
	}
	fail("api-500-once", "The API returns 500 four times and then succeeds.", fakemodel.Step{Text: "At last.", Fail: &fakemodel.Failure{Status: 500, Times: 4}})
	return append(out,
		fixture{name: "no-key", prose: "The API key of the model provider is not set.", play: func(r *rig) {
			r.Opt.Env = slices.DeleteFunc(slices.Clone(r.Opt.Env), func(e string) bool { return strings.Contains(e, "FAKE_API_KEY=") })
			r.Play(says("Never."))
			r.FinishTurn("")
		}},
		fixture{name: "rate-limit", prose: "An account comes near its limit, and stays there.", play: func(r *rig) {
			near := says("Near.")
			near.Headers = fakemodel.Headers{
				"x-codex-primary-used-percent": "83", "x-codex-primary-window-minutes": "300", "x-codex-primary-reset-at": "1795300000",
				"x-codex-secondary-used-percent": "12", "x-codex-secondary-window-minutes": "10080", "x-codex-secondary-reset-at": "1795900000",
			}
			r.Play(near)
			r.FinishTurn("")
			r.Play(near)
			r.FinishTurn("")
		}},
		fixture{name: "compact", prose: "The conversation is summarised because it grew too long.", play: func(r *rig) {
			r.configure("model_auto_compact_token_limit = 5000\n")
			r.Play(fakemodel.Step{Text: "Long.", Usage: map[string]int64{"input_tokens": 9000, "output_tokens": 10}})
			r.FinishTurn("")
			r.Play(says("Short again."))
			r.FinishTurn("")
		}},
	)
}

func agentFixtures() []fixture {
	spawn := func(name string, steps ...fakemodel.Step) fakemodel.Step {
		inner := fakemodel.Scenario{Steps: steps}
		return calls(fakemodel.Call("spawn_agent", args{"task_name": name, "message": inner.Prompt(name), "fork_turns": "none"}))
	}
	wait := calls(fakemodel.Call("wait_agent", args{"timeout_ms": 60000}))
	return []fixture{
		{name: "subagent", prose: "A subagent runs a command, requests approval for another, and answers, within the turn.", play: func(r *rig) {
			r.Opt.Model = "gpt-6.1-sol"
			r.Play(spawn("look", calls(code(`text(await tools.exec_command({cmd: "echo found"}))`)),
				calls(code(`text(await tools.exec_command({cmd: "echo asked", sandbox_permissions: "require_escalated", justification: "May I?"}))`)), says("Found.")), wait, says("Done."))
			r.FinishTurn(allowOnce)
		}},
		{name: "subagent-behind", prose: "A subagent continues after its turn and requests an approval. Its work is a background turn.", play: func(r *rig) {
			r.Opt.Model = "gpt-6.1-sol"
			r.Play(spawn("later", calls(code(`text(await tools.exec_command({cmd: "until [ -e go ]; do sleep 0.05; done; echo found", yield_time_ms: 20000}))`)),
				calls(code(`text(await tools.exec_command({cmd: "echo asked", sandbox_permissions: "require_escalated", justification: "May I?"}))`)), says("Found.")), says("It runs."))
			r.FinishTurn(allowOnce)
			asked := r.Turn
			r.Write("go", "")
			r.Until(func(ev event.Event) bool {
				if b, ok := ev.Body.(event.ApprovalRequested); ok {
					r.Decide(b.Approval, runnel.Decision{Choice: allowOnce})
				}
				done, ok := ev.Body.(event.ItemDone)
				m, is := event.Message{}, false
				if ok {
					m, is = done.FinalItem.(event.Message)
				}
				r.seen = r.seen || is && m.Content == "Found."
				return r.seen && event.Ends(ev.Body) && ev.Turn != asked
			})
		}},
	}
}

// configure inserts text at the beginning of the agent's configuration, before
// its tables.
func (r *rig) configure(text string) {
	r.T.Helper()
	path := filepath.Join(r.Home.Codex, "config.toml")
	old, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, append([]byte(text), old...), 0o600)
	}
	if err != nil {
		r.T.Fatal(err)
	}
}

// append appends a table to the agent's configuration.
func (r *rig) append(text string) {
	r.T.Helper()
	f, err := os.OpenFile(filepath.Join(r.Home.Codex, "config.toml"), os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteString("\n" + text)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		r.T.Fatal(err)
	}
}

// again stops the agent and opens the conversation, or a fork of it, in a new
// process.
func (r *rig) again(fork bool) {
	r.T.Helper()
	r.Opt.Resume = r.Conn.(*conn).tr.thread
	r.Close()
	if r.Cut != nil {
		r.Cut()
	}
	if !fork {
		r.Open()
		return
	}
	c, err := New().Fork(r.T.Context(), r.Opt)
	if err != nil {
		r.T.Fatal(detail(err))
	}
	r.Takes(c)
}
