package claude

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/fakemodel"
)

// planFixtures are recordings with task lists, plans, skills and questions.
func planFixtures() []fixture {
	play := func(r *rig, steps ...fakemodel.Step) { r.Play(costing(steps...)...) }
	todo := func(content, status string) args {
		return args{"content": content, "status": status, "activeForm": content + "ing"}
	}
	return []fixture{
		{name: "todos", prose: "The agent keeps a task list with TodoWrite. Newer versions have this tool only if an environment variable enables it.", play: func(r *rig) {
			r.Opt.Env = append(r.Opt.Env, "CLAUDE_CODE_ENABLE_TASKS=0", "CLAUDE_CODE_ENABLE_TODO_TOOLS=1")
			play(r, calls(use("TodoWrite", args{"todos": []args{todo("Look", "in_progress"), todo("Leap", "pending")}})),
				calls(use("TodoWrite", args{"todos": []args{todo("Look", "completed"), todo("Leap", "in_progress")}})), says("Done."))
			r.Finish(allowOnce)
		}},
		{name: "tasks", prose: "The agent keeps a list of tasks over two turns. A subagent creates one of the tasks.", play: func(r *rig) {
			r.Opt.Env = append(r.Opt.Env, "CLAUDE_CODE_ENABLE_TODO_TOOLS=1")
			play(r, calls(use("TaskCreate", args{"subject": "Look", "description": "Look first"}), use("TaskCreate", args{"subject": "Leap", "description": "Then leap"})),
				calls(use("TaskUpdate", args{"taskId": "1", "status": "in_progress"})), says("Two things to do."))
			r.Finish(allowOnce)
			play(r, calls(use("TaskUpdate", args{"taskId": "1", "status": "completed"})),
				calls(agent("More", false, calls(use("TaskCreate", args{"subject": "Land", "description": "At last"})), says("Added."))),
				calls(use("TaskUpdate", args{"taskId": "2", "status": "deleted"})),
				calls(use("TaskUpdate", args{"taskId": "9", "status": "completed"})),
				calls(use("TaskList", args{})), says("One thing to do."))
			r.Finish(allowOnce)
		}},
		{name: "plan-mode", prose: "The agent asks to leave plan mode. The user first denies it and then allows it.", play: func(r *rig) {
			r.Opt.PermissionMode = runnel.ModePlan
			play(r, calls(use("ExitPlanMode", args{"plan": "1. Do it."})), calls(use("ExitPlanMode", args{"plan": "1. Do it well."})), says("Doing it."))
			n := 0
			r.Until(func(ev event.Event) bool {
				if b, ok := ev.Body.(event.ApprovalRequested); ok {
					r.Decide(b.Approval, []runnel.Decision{{Choice: deny, Reason: "better"}, {Choice: allowSession}}[n])
					n++
				}
				return event.Ends(ev.Body)
			})
		}},
		{name: "plan-file", prose: "The agent writes its plan into a file and asks to leave plan mode.", play: func(r *rig) {
			r.Opt.PermissionMode = runnel.ModePlan
			play(r, says("Planning."))
			r.Finish("")
			play(r, calls(use("Write", args{"file_path": r.planFile(), "content": "# The plan\n1. Do it.\n"})), calls(use("ExitPlanMode", args{})), says("Doing it."))
			r.Finish(allowOnce)
		}},
		{name: "skill", prose: "The agent uses a skill of the user.", play: func(r *rig) {
			dir := filepath.Join(r.Home.Config, "skills", "greet")
			if err := os.MkdirAll(dir, 0o700); err != nil {
				r.T.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "SKILL.md"), []byte("---\nname: greet\ndescription: Greets.\n---\nSay hello.\n"), 0o600); err != nil {
				r.T.Fatal(err)
			}
			play(r, calls(use("Skill", args{"skill": "greet"})), says("Hello."))
			r.Finish(allowOnce)
		}},
		{name: "questions", prose: "The agent asks two questions; one of them takes several answers.", play: func(r *rig) {
			opts := func(labels ...string) (out []args) {
				for _, l := range labels {
					out = append(out, args{"label": l, "description": l})
				}
				return out
			}
			play(r, calls(use("AskUserQuestion", args{"questions": []args{
				{"question": "Which one?", "header": "Pick", "multiSelect": false, "options": opts("Red", "Blue")},
				{"question": "What with?", "header": "With", "multiSelect": true, "options": opts("Salt", "Pepper", "Oil")},
			}})), says("Thank you."))
			r.Finish(allowOnce)
		}},
	}
}

// planFile returns the path of the plan's file, which the agent sends to the
// model.
func (r *rig) planFile() string {
	r.T.Helper()
	for _, req := range slices.Backward(r.Model.Requests()) {
		if path := planPath.Find(req.Body); path != nil {
			return string(path)
		}
	}
	r.T.Fatal("no request to the model names a file for the plan")
	return ""
}

var planPath = regexp.MustCompile(`/[^ "\\]*/plans/[^ "\\]*\.md`)

// login makes the agent use a login instead of an API key.
func (r *rig) login() {
	r.Opt.Env = append(r.Opt.Env, "ANTHROPIC_API_KEY=", "CLAUDE_CODE_OAUTH_TOKEN=sk-ant-oat01-none")
}

// modelFixtures are recordings about the behaviour of models and of their API.
func modelFixtures() []fixture {
	play := func(r *rig, steps ...fakemodel.Step) { r.Play(costing(steps...)...) }
	spoiled := func(kind string, after int) fakemodel.Step {
		return fakemodel.Step{Text: "abcdefghijklmnopqrst", Chunk: 8, Faults: []fakemodel.Fault{{Kind: kind, After: after, Times: 1}}}
	}
	return []fixture{
		{name: "cut-stream", prose: "The connection breaks within a block.", play: func(r *rig) {
			play(r, spoiled(fakemodel.Truncate, 2))
			r.Finish("")
		}},
		{name: "short-stream", prose: "The stream ends without an error before the block is complete.", play: func(r *rig) {
			play(r, spoiled(fakemodel.NoStop, 2))
			r.Finish("")
		}},
		{name: "cut-tool", prose: "The connection breaks after a complete tool call, while the call runs.", play: func(r *rig) {
			play(r, fakemodel.Step{Chunk: 200, Blocks: []fakemodel.Block{bash("echo once", "Once"), {Type: "text", Text: "and on"}},
				Faults: []fakemodel.Fault{{Kind: fakemodel.Truncate, After: 2, Times: 1}}}, says("Done."))
			r.Finish(allowOnce)
		}},
		{name: "refusal", prose: "The model refuses to answer.", play: func(r *rig) {
			play(r, fakemodel.Step{Text: "I will not.", StopReason: "refusal"})
			r.Finish("")
		}},
		{name: "max-tokens", prose: "The model's answer reaches the maximum length, and the agent lets the model continue.", play: func(r *rig) {
			play(r, fakemodel.Step{Text: "The first half,", StopReason: "max_tokens"}, says("and the second."))
			r.Finish("")
		}},
		{name: "empty", prose: "The model's first answer is empty.", play: func(r *rig) {
			play(r, fakemodel.Step{Text: "Now it speaks.", EmptyAnswers: 1})
			r.Finish("")
		}},
		{name: "overloaded", prose: "The API is overloaded three times.", play: func(r *rig) {
			r.Opt.Env = append(r.Opt.Env, "CLAUDE_CODE_MAX_RETRIES=4")
			play(r, fakemodel.Step{Text: "At last.", Fail: &fakemodel.Failure{Status: 529, Times: 3}})
			r.Finish("")
		}},
		{name: "rate-limit", prose: "A login is close to its rate limit and then reaches it.", play: func(r *rig) {
			r.login()
			limit := func(status, used string) fakemodel.Headers {
				return fakemodel.Headers{
					"anthropic-ratelimit-unified-status": status, "anthropic-ratelimit-unified-reset": "1795300000",
					"anthropic-ratelimit-unified-representative-claim": "five_hour", "anthropic-ratelimit-unified-5h-utilization": used,
					"anthropic-ratelimit-unified-5h-reset": "1795300000", "anthropic-ratelimit-unified-5h-status": status,
					"anthropic-ratelimit-unified-5h-surpassed-threshold": "0.8",
				}
			}
			play(r, fakemodel.Step{Text: "Still good.", Headers: limit("allowed_warning", "0.83")})
			r.Finish("")
			play(r, fakemodel.Step{Text: "Never.", Fail: &fakemodel.Failure{Status: 429, Headers: limit("rejected", "1")}})
			r.Finish("")
		}},
		{name: "login-refused", prose: "A login is no longer valid. The agent may renew it once, then the turn ends.", play: func(r *rig) {
			r.login()
			r.Opt.Env = append(r.Opt.Env, "CLAUDE_CODE_MAX_RETRIES=10")
			r.Play(fakemodel.Step{Fail: &fakemodel.Failure{Status: 401}})
			r.Finish("")
			play(r, says("It is good again."))
			r.Finish("")
		}},
		{name: "compact-auto", prose: "The conversation is too long for the model, and the agent summarizes it without a command.", play: func(r *rig) {
			for _, s := range []string{"One.", "Two.", "Three."} {
				play(r, says(s))
				r.Finish("")
			}
			play(r, fakemodel.Step{Text: "Four.", Fail: &fakemodel.Failure{Status: 400, Times: 1, Message: "prompt is too long: 250000 tokens > 200000 maximum"}})
			r.Finish("")
			play(r, says("Five."))
			r.Finish("")
		}},
		{name: "too-long", prose: "The first prompt is too long for the model, so the agent has nothing to summarize.", play: func(r *rig) {
			play(r, fakemodel.Step{Text: "Never.", Fail: &fakemodel.Failure{Status: 400, Message: "prompt is too long: 250000 tokens > 200000 maximum"}})
			r.Finish("")
		}},
		{name: "clear", prose: "The user clears the conversation. The next prompt belongs to a new conversation.", play: func(r *rig) {
			play(r, says("Before."))
			r.Finish("")
			r.Send("/clear")
			r.Finish("")
			play(r, says("After."))
			r.Finish("")
		}},
		{name: "commands", prose: "A command that the agent runs itself, and an unknown command.", play: func(r *rig) {
			r.Send("/context")
			r.Finish("")
			r.Send("/nonesuch now")
			r.Finish("")
			play(r, says("On with it."))
			r.Finish("")
		}},
		{name: "custom-command", prose: "A custom command of the user, which becomes a prompt for the model.", play: func(r *rig) {
			dir := filepath.Join(r.Home.Config, "commands")
			if err := os.MkdirAll(dir, 0o700); err != nil {
				r.T.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "greet.md"), []byte("---\ndescription: Greets.\n---\nSay hello to $ARGUMENTS.\n"), 0o600); err != nil {
				r.T.Fatal(err)
			}
			r.Send("/greet the <world> & all")
			r.Finish("")
			play(r, says("On with it."))
			r.Finish("")
		}},
		{name: "key-refused", prose: "The API rejects the key, and the agent does not retry.", play: func(r *rig) {
			r.Opt.Env = append(r.Opt.Env, "CLAUDE_CODE_MAX_RETRIES=0")
			r.Play(fakemodel.Step{Fail: &fakemodel.Failure{Status: 401}})
			r.Finish("")
		}},
		{name: "long-output", prose: "A command prints more than the agent sends to the model.", play: func(r *rig) {
			play(r, calls(bash("seq 1 20000", "Count")), says("Counted."))
			r.Finish(allowOnce)
		}},
		{name: "background-in-turn", prose: "A command in the background ends while the turn runs.", play: func(r *rig) {
			play(r, calls(use("Bash", args{"command": "touch begun; echo quick", "description": "Quick", "run_in_background": true})),
				calls(bash(strings.ReplaceAll(waits("go", "waited"), "begun", ""), "Wait")), says("Both are over."), says("Again."))
			r.Until(func(ev event.Event) bool {
				if b, ok := ev.Body.(event.ApprovalRequested); ok {
					r.Decide(b.Approval, runnel.Decision{Choice: allowOnce})
				}
				b, ok := ev.Body.(event.ItemDone)
				f, is := b.FinalItem.(event.FunctionCall)
				return ok && is && f.Title != "" && strings.Contains(string(f.Arguments), "-e go")
			})
			await(r.T, r.File("begun"))
			r.Write("go", "")
			r.Finish(allowOnce)
		}},
	}
}
