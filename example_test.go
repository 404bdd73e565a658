package runnel_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/provider/script"
	"github.com/runnel-dev/runnel/universal"
	"github.com/runnel-dev/runnel/upsert"
)

func Example() {
	ctx := context.Background()
	agent := script.New() // or any other provider
	run, err := runnel.Start(ctx, agent, runnel.Options{}, runnel.Text("text"))
	if err != nil {
		log.Fatal(err)
	}
	defer run.Close()

	for ev, err := range run.Events(ctx) { // live; may be called again, by anyone
		if err != nil {
			log.Fatal(err)
		}
		switch b := ev.Body.(type) {
		case event.ItemDelta:
			fmt.Print(b.DeltaContent)
		case event.ResponseDone:
			fmt.Println()
		}
	}
	res, err := run.Wait(ctx) // after the terminal event, always the same answer
	fmt.Println(res.Status, err)
	// Output:
	// Hello from the scripted agent.
	// completed <nil>
}

// Without an Approver, a run denies every approval that the agent requests.
func ExampleApprover() {
	ctx := context.Background()
	agent := script.New()
	prompt := runnel.Text(`{"steps": [{"tool": {"name": "Bash", "arguments": {"command": "make"}, "output": "built", "ask": {}}}]}`)
	answers := func(_ context.Context, a event.Approval) runnel.Decision {
		fmt.Printf("asked: %s %s\n", a.ToolName, a.Arguments)
		return runnel.Decision{Choice: "allow"} // the id of one of a.Choices
	}
	for _, approve := range []runnel.Approver{nil, answers} {
		run, err := runnel.Start(ctx, agent, runnel.Options{Approve: approve}, prompt)
		if err != nil {
			log.Fatal(err)
		}
		for ev := range run.Events(ctx) {
			switch b := ev.Body.(type) {
			case event.ApprovalResolved:
				fmt.Println(b.Choice, "by", b.By)
			case event.ItemDone:
				if out, ok := b.FinalItem.(event.FunctionCallOutput); ok {
					fmt.Println("error:", out.IsError)
				}
			}
		}
	}
	// Output:
	// deny by policy
	// error: true
	// asked: Bash {"command": "make"}
	// allow by policy
	// error: false
}

// The universal envelope contains only finished items. Tool calls contain the
// name and the kind of the tool. They contain arguments and output only if an
// extension requests them.
func ExampleRun_Universal() {
	ctx := context.Background()
	prompt := runnel.Text(`{"steps": [{"reasoning": "The answer is easy."},
		{"tool": {"name": "Read", "kind": "read", "arguments": {"path": "go.mod"}, "output": "module x"}},
		{"text": "It is module x."}]}`)
	run, err := runnel.Start(ctx, script.New(), runnel.Options{}, prompt)
	if err != nil {
		log.Fatal(err)
	}
	for u, err := range run.Universal(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		switch u.Kind {
		case universal.TextOutput:
			fmt.Println(u.Channel+":", u.Text)
		case universal.ToolCall, universal.ToolResult:
			var facet universal.ToolFacet
			if err := json.Unmarshal(u.Data, &facet); err != nil {
				log.Fatal(err)
			}
			fmt.Println(u.Kind, *facet.Tool.ToolName, facet.Tool.Phase, facet.Tool.Bytes.Result)
		}
	}
	done, err := run.Completion(ctx)
	fmt.Println(done.AgentKind, done.Status, done.FinalText, err)
	// Output:
	// reasoning: The answer is easy.
	// ToolCall Read start 0
	// ToolResult Read complete 8
	// assistant: It is module x.
	// script completed It is module x. <nil>
}

// An upsert replaces everything that a reader knew about an item.
func ExampleRun_Upserts() {
	ctx := context.Background()
	run, err := runnel.Start(ctx, script.New(), runnel.Options{}, runnel.Text("text"))
	if err != nil {
		log.Fatal(err)
	}
	screen := make(map[string]string) // item → its text
	for out, err := range run.Upserts(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		switch o := out.(type) {
		case upsert.Upsert:
			if o.Type == upsert.KindMessage {
				screen[o.ItemID] = o.Message.Content
			}
			if o.Status == upsert.StatusComplete {
				fmt.Println(screen[o.ItemID])
			}
		case upsert.TurnEvent:
			fmt.Println(o.Type)
		}
	}
	// Output:
	// text
	// turn_started
	// Hello from the scripted agent.
	// turn_complete
}

// Handlers receive the same frames as the iterator, on a goroutine of their
// own.
func ExampleRun_Handle() {
	ctx := context.Background()
	run, err := runnel.Start(ctx, script.New(), runnel.Options{}, runnel.Text("text"))
	if err != nil {
		log.Fatal(err)
	}
	run.Handle(runnel.Handlers{
		OnUpsert: func(u upsert.Upsert) {
			if u.Status == upsert.StatusComplete {
				fmt.Println(u.Message.Origin+":", u.Message.Content)
			}
		},
		OnTurn: func(t upsert.TurnEvent) { fmt.Println(t.Type) },
	})
	_, err = run.Wait(ctx) // also for the handlers
	fmt.Println(err)
	// Output:
	// user: text
	// turn_started
	// agent: Hello from the scripted agent.
	// turn_complete
	// <nil>
}

// Destroy ends the open items of a reader with errors. The run continues.
func ExampleReader_Destroy() {
	ctx := context.Background()
	run, err := runnel.Start(ctx, script.New(), runnel.Options{}, runnel.Text(`{"steps": [{"tool": {"name": "Bash", "takesMs": 3600000}}]}`))
	if err != nil {
		log.Fatal(err)
	}
	defer run.Close()
	seen := make(chan struct{})
	reader := run.Handle(runnel.Handlers{OnUpsert: func(u upsert.Upsert) {
		switch {
		case u.Type != upsert.KindToolCall:
		case u.Status == upsert.StatusCreate:
			close(seen)
		case u.Status == upsert.StatusError:
			fmt.Println(u.ToolCall.ToolName, u.ErrorMessage)
		}
	}})
	<-seen
	reader.Destroy("the window was closed")
	<-reader.Done()
	destroyed, _ := errors.AsType[runnel.Destroyed](reader.Err())
	fmt.Println(destroyed.Reason)
	// Output:
	// Bash the window was closed
	// the window was closed
}

// A later run continues the last conversation of a directory, or a copy of it.
func ExampleOptions_resume() {
	ctx := context.Background()
	agent := new(script.Resumable)
	run := func(opt runnel.Options) runnel.Result {
		r, err := runnel.Start(ctx, agent, opt, runnel.Text("text"))
		if err != nil {
			log.Fatal(err)
		}
		res, err := r.Wait(ctx)
		if err != nil {
			log.Fatal(err)
		}
		return res
	}
	first := run(runnel.Options{})
	again := run(runnel.Options{Resume: runnel.ResumeLast}) // or first.AgentSessionID
	branch := run(runnel.Options{Resume: runnel.ResumeLast, Fork: true})
	fmt.Println("the same conversation:", again.AgentSessionID == first.AgentSessionID)
	fmt.Println("another one:", branch.AgentSessionID != first.AgentSessionID)

	_, err := runnel.Start(ctx, agent, runnel.Options{Dir: "/", Resume: runnel.ResumeLast}, runnel.Text("text"))
	fmt.Println(runnel.CodeOf(err))
	// Output:
	// the same conversation: true
	// another one: true
	// SESSION_NOT_FOUND
}

// Programs that use the universal API set options by extension keys. A run does
// not start if a key is unsupported or a value is invalid.
func ExampleExtensions() {
	ctx := context.Background()
	fmt.Println(runnel.ExtensionKeys(script.New()))
	for _, x := range []runnel.Extensions{
		{"agent_api.config.model.v1": json.RawMessage(`"large"`)},
		{"agent_api.config.model.v1": json.RawMessage(`""`)},
		{"agent_api.config.model.v1": json.RawMessage(`""`), "agent_api.exec.add_dirs.v1": json.RawMessage(`{"dirs": ["/tmp"]}`)},
	} {
		run, err := runnel.Start(ctx, script.New(), runnel.Options{Extensions: x}, runnel.Text("text"))
		if err != nil {
			fmt.Println(runnel.CodeOf(err))
			continue
		}
		for ev := range run.Events(ctx) {
			if b, ok := ev.Body.(event.ResponseStart); ok {
				fmt.Println(b.ModelID)
			}
		}
	}
	// Output:
	// [agent_api.config.model.v1 agent_api.exec.non_interactive agent_api.session.resume.v1 agent_api.tools.results.v1 backend.script.config.pace backend.script.config.thoughts]
	// large
	// INVALID_REQUEST
	// UNSUPPORTED_CAPABILITY
}

// A registry maps agent kinds to providers, with defaults for the options that
// a request leaves out. Package provider/all has a registry of all providers.
func ExampleRegistry() {
	ctx := context.Background()
	var agents runnel.Registry
	defaults := runnel.Defaults{Model: "small", Timeout: time.Minute, Env: []string{"CI=true"}}
	if err := agents.Register(script.New(), defaults); err != nil {
		log.Fatal(err)
	}
	fmt.Println(agents.Register(script.New(), defaults))
	for _, opt := range []runnel.Options{{}, {Model: "large"}} {
		run, err := agents.Start(ctx, "script", opt, runnel.Text("text"))
		if err != nil {
			log.Fatal(err)
		}
		for ev := range run.Events(ctx) {
			if b, ok := ev.Body.(event.ResponseStart); ok {
				fmt.Println(b.ModelID)
			}
		}
	}
	_, err := agents.Start(ctx, "nobody", runnel.Options{}, runnel.Text("text"))
	fmt.Println(err)
	// Output:
	// INVALID_REQUEST: agent kind "script": is registered already; choose another
	// small
	// large
	// UNSUPPORTED_CLI_TYPE: unknown agent kind "nobody"; want script
}

// A session is a conversation of several turns. Approvals wait for Decide.
func ExampleOpen() {
	ctx := context.Background()
	session, err := runnel.Open(ctx, script.New(), runnel.Options{}, runnel.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()

	turn, err := session.Send(ctx, runnel.Text(`{"steps": [{"tool": {"name": "Bash", "ask": {}}}, {"text": "Built."}]}`))
	if err != nil {
		log.Fatal(err)
	}
	for ev := range turn.Events(ctx) {
		if b, ok := ev.Body.(event.ApprovalRequested); ok {
			a := b.Approval
			if err := session.Decide(ctx, a.ID, runnel.Decision{Choice: "allow", ArgumentsDigest: a.ArgumentsDigest}); err != nil {
				log.Fatal(err)
			}
			err := session.Decide(ctx, a.ID, runnel.Decision{Choice: "deny"}) // the first decision wins
			fmt.Println(runnel.CodeOf(err))
		}
	}
	res, err := turn.Wait(ctx)
	fmt.Println(res.FinalText, err)

	if turn, err = session.Send(ctx, runnel.Text(`{"steps": [{"hang": true}]}`)); err != nil {
		log.Fatal(err)
	}
	if err := session.Cancel(ctx); err != nil {
		log.Fatal(err)
	}
	res, err = turn.Wait(ctx)
	fmt.Println(res.Status, err)
	// Output:
	// APPROVAL_GONE
	// Built. <nil>
	// cancelled <nil>
}

// A reader of a session first gets each earlier item once, and then live items
// until the session ends.
func ExampleSession_Upserts() {
	ctx := context.Background()
	session, err := runnel.Open(ctx, script.New(), runnel.Options{}, runnel.Config{})
	if err != nil {
		log.Fatal(err)
	}
	turn, err := session.Send(ctx, runnel.Text("text"))
	if err != nil {
		log.Fatal(err)
	}
	if _, err := turn.Wait(ctx); err != nil {
		log.Fatal(err)
	}
	if err := session.Close(); err != nil {
		log.Fatal(err)
	}
	after := int64(0)
	for range 2 { // the second time there is nothing new
		for out, err := range session.Upserts(ctx, after) {
			if err != nil {
				log.Fatal(err)
			}
			switch o := out.(type) {
			case upsert.Upsert:
				fmt.Println(o.Status, o.Message.Content)
			case upsert.TurnEvent:
				fmt.Println(o.Type)
				after = o.Seq
			}
		}
	}
	// Output:
	// complete text
	// turn_started
	// complete Hello from the scripted agent.
	// turn_complete
}
