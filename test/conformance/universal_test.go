//go:build unix

package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/provider/all"
	scripted "github.com/runnel-dev/runnel/provider/script"
	"github.com/runnel-dev/runnel/universal"
)

var (
	_ = register(80, agentKinds)
	_ = register(81, extensionKeys)
	_ = register(82, extensionValues)
	_ = register(83, envelope)
)

// renamed is a provider with another name.
type renamed struct {
	*scripted.Provider
	name string
}

func (r renamed) Name() string { return r.name }

func agentKinds() table {
	tab := table{
		name: "agent kinds", title: "Universal API: agent kinds", file: "universal_test.go",
		intro: "What happens when a program registers a provider whose agent has this kind.",
		head:  []string{"kind", "outcome"},
	}
	add := func(kind, outcome string, r func(t *testing.T) *runnel.Registry, why string) {
		tab.rows = append(tab.rows, row{cells: []string{"`" + kind + "`", outcome}, check: func(t *testing.T) {
			err := r(t).Register(renamed{scripted.New(), kind}, runnel.Defaults{})
			if why == "" && err == nil {
				return
			}
			if runnel.CodeOf(err) != runnel.InvalidRequest || !strings.Contains(err.Error(), why) {
				t.Errorf("got %v", err)
			}
		}})
	}
	empty := func(*testing.T) *runnel.Registry { return new(runnel.Registry) }
	whole := func(t *testing.T) *runnel.Registry {
		r, err := all.Registry()
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	for _, kind := range []string{"a", "my_agent", "agent2", "a_", "a__b"} {
		add(kind, "registered", empty, "")
	}
	for _, kind := range []string{" ", "2fast", "_x", "Agent", "a.b", "a b", "ä", "a/b"} {
		add(kind, "refused: want small letters, digits and underscores, a letter first", empty, "want small letters, digits and underscores, a letter first")
	}
	for _, kind := range []string{"codex", "claude_code", "gemini_cli", "opencode", "copilot"} {
		add(kind, "refused in the registry of all providers: is registered already", whole, "is registered already")
	}
	return with(tab, row{cells: []string{"any, registered twice", "refused the second time"}, test: "..TestRegistryHasEachKindOnce"})
}

// able is an agent that supports every extension key. It records the options of
// each start.
type able struct {
	*scripted.Resumable
	started *[]runnel.Options
}

func newAble() able { return able{new(scripted.Resumable), new([]runnel.Options)} }

func (a able) Takes() runnel.Takes {
	t := a.Resumable.Takes()
	t.AddDirs = true
	return t
}

func (a able) Extra() []runnel.Capability {
	return append(a.Resumable.Extra(), runnel.CapAddDirs, runnel.CapExternalSandbox)
}

func (a able) Open(ctx context.Context, opt runnel.Options) (runnel.Conn, error) {
	*a.started = append(*a.started, opt)
	return a.Resumable.Open(ctx, opt)
}

// extended runs a prompt with extension keys to its end, and returns the
// options with which the agent started.
func extended(t *testing.T, keys object, prompt string, edit func(*runnel.Options)) (runnel.Options, error) {
	t.Helper()
	a := newAble()
	opt := runnel.Options{Extensions: make(runnel.Extensions)}
	for key, value := range keys {
		opt.Extensions[key] = encoded(t, value)
	}
	if edit != nil {
		edit(&opt)
	}
	run, err := runnel.Start(t.Context(), a, opt, runnel.Text(prompt))
	if err != nil {
		if len(*a.started) > 0 {
			t.Error("an agent was started")
		}
		return runnel.Options{}, err
	}
	t.Cleanup(func() { _ = run.Close() })
	if _, err := run.Completion(t.Context()); err != nil {
		return runnel.Options{}, err
	}
	return (*a.started)[0], nil
}

// promptThatEnds is a prompt for the scripted agent whose turn ends at once.
const promptThatEnds = `{"steps":[{"text":"done"}]}`

func extensionKeys() table {
	tab := table{
		name: "extension keys", title: "Universal API: extension keys", file: "universal_test.go",
		intro: "Keys of a run. Nothing is started for a key or a value that is refused.",
		head:  []string{"keys", "outcome"},
	}
	refuse := func(keys object, prompt, outcome string, code runnel.Code) {
		shown := string(mustJSON(keys))
		if prompt != promptThatEnds {
			shown += " with a blank prompt"
		}
		tab.rows = append(tab.rows, row{cells: []string{"`" + shown + "`", outcome}, check: func(t *testing.T) {
			if _, err := extended(t, keys, prompt, nil); runnel.CodeOf(err) != code {
				t.Errorf("got %v", err)
			}
		}})
	}
	const unsupported = "UNSUPPORTED_CAPABILITY"
	for _, key := range []string{"nonesuch", "agent_api.nonesuch.v1", "Agent_api.config.model.v1", "agent_api.config.model.v2", "backend.codex.config.x", "backend.script.config.nonesuch", "a b", "agent_api.run"} {
		refuse(object{key: true}, promptThatEnds, unsupported+": a key that the agent does not have", runnel.UnsupportedCapability)
	}
	refuse(object{"nonesuch": true, "agent_api.config.model.v1": 1}, promptThatEnds, unsupported+": an unsupported key wins over an invalid value", runnel.UnsupportedCapability)
	refuse(object{"agent_api.exec.external_sandbox.v1": true}, promptThatEnds, unsupported+", unless the program allows bypassing", runnel.UnsupportedCapability)
	refuse(object{"nonesuch": true}, " ", "INVALID_REQUEST: a blank prompt is refused first", runnel.InvalidRequest)
	refuse(object{"agent_api.session.resume.v1": object{"selector": "last"}, "agent_api.session.fork.v1": object{"selector": "last"}}, promptThatEnds, "INVALID_REQUEST: one excludes the other", runnel.InvalidRequest)
	for _, key := range []string{
		"agent_api.config.model.v1", "agent_api.exec.add_dirs.v1", "agent_api.exec.non_interactive", "agent_api.exec.external_sandbox.v1", "agent_api.session.resume.v1",
		"agent_api.session.fork.v1", "agent_api.tools.results.v1", "backend.script.config.pace", "backend.script.config.thoughts",
	} {
		tab.rows = append(tab.rows, row{cells: []string{"`" + key + "`", "a key of an agent that has the capability"}, check: func(t *testing.T) {
			if !slices.Contains(runnel.ExtensionKeys(newAble()), runnel.Capability(key)) {
				t.Errorf("the keys are %v", runnel.ExtensionKeys(newAble()))
			}
		}})
	}
	return tab
}

func mustJSON(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // unreachable: rows have plain JSON values
	}
	return data
}

func extensionValues() table {
	tab := table{
		name: "extension values", title: "Universal API: values", file: "universal_test.go",
		intro: "Values of the keys, at their bounds and beyond. A message without quotes is compared to the letter.",
		head:  []string{"key", "value", "outcome"},
	}
	const key = "agent_api."
	take := func(name, shown string, value any, outcome string, got func(runnel.Options) any, want any, edit func(*runnel.Options)) {
		tab.rows = append(tab.rows, row{cells: []string{"`" + key + name + "`", shown, outcome}, check: func(t *testing.T) {
			opt, err := extended(t, object{key + name: value}, promptThatEnds, edit)
			if err != nil {
				t.Fatal(err)
			}
			equal(t, "option", got(opt), want)
		}})
	}
	refuse := func(name, shown string, value any, message string) {
		tab.rows = append(tab.rows, row{cells: []string{"`" + key + name + "`", shown, message}, check: func(t *testing.T) {
			_, err := extended(t, object{key + name: value}, promptThatEnds, nil)
			if err == nil || strings.HasPrefix(message, "invalid ") && runnel.Safe(err).Message != message || !strings.Contains(runnel.Safe(err).Message, message) {
				t.Errorf("got %v", err)
			}
		}})
	}
	model := func(o runnel.Options) any { return o.Model }
	take("config.model.v1", "a name with white space around it", "  m\t", "trimmed", model, "m", nil)
	take("config.model.v1", "128 bytes", strings.Repeat("m", 128), "taken", model, strings.Repeat("m", 128), nil)
	const badModel = "invalid agent_api.config.model.v1"
	refuse("config.model.v1", "129 bytes", strings.Repeat("m", 129), badModel)
	refuse("config.model.v1", "white space", " ", badModel)
	refuse("config.model.v1", "a number", 1, badModel)
	refuse("config.model.v1", "null", nil, badModel)
	dirs := func(o runnel.Options) any { return o.AddDirs }
	const badDirs = "invalid agent_api.exec.add_dirs.v1"
	take("exec.add_dirs.v1", "one folder twice", object{"dirs": []string{"/usr", "/usr/"}}, "deduplicated", dirs, []string{"/usr"}, nil)
	take("exec.add_dirs.v1", "16 folders", object{"dirs": slices.Repeat([]string{"/usr"}, 16)}, "taken", dirs, []string{"/usr"}, nil)
	take("exec.add_dirs.v1", "a relative folder", object{"dirs": []string{"bin"}}, "relative to the folder of the run", dirs, []string{"/usr/bin"}, func(o *runnel.Options) { o.Dir = "/usr" })
	refuse("exec.add_dirs.v1", "17 folders", object{"dirs": slices.Repeat([]string{"/usr"}, 17)}, badDirs+".dirs")
	refuse("exec.add_dirs.v1", "no folder", object{"dirs": []string{}}, badDirs+".dirs")
	refuse("exec.add_dirs.v1", "`dirs` is a string", object{"dirs": "/usr"}, badDirs+".dirs")
	refuse("exec.add_dirs.v1", "a list", []string{"/usr"}, badDirs)
	refuse("exec.add_dirs.v1", "another key beside `dirs`", object{"dirs": []string{"/usr"}, "more": 1}, badDirs)
	refuse("exec.add_dirs.v1", "the second is a number", object{"dirs": []any{"/usr", 1}}, badDirs+".dirs[1]")
	refuse("exec.add_dirs.v1", "the second does not exist", object{"dirs": []any{"/usr", "/no/such/folder"}}, badDirs+".dirs[1]")
	refuse("exec.add_dirs.v1", "the second is blank", object{"dirs": []any{"/usr", " "}}, badDirs+".dirs[1]")
	refuse("exec.add_dirs.v1", "`~`, which is not expanded", object{"dirs": []any{"~"}}, badDirs+".dirs[0]")
	refuse("exec.add_dirs.v1", "1,025 bytes", object{"dirs": []any{"/" + strings.Repeat("x", 1024)}}, badDirs+".dirs[0]")
	long := "/" + strings.Repeat("./", 510) + "usr" // 1,024 bytes
	take("exec.add_dirs.v1", "1,024 bytes", object{"dirs": []any{long}}, "taken", dirs, []string{"/usr"}, nil)
	for _, name := range []string{"session.resume.v1", "session.fork.v1"} {
		refuse(name, "a string", "last", `want {"selector": "last"} or {"selector": "id", "id": "ID"}`)
		refuse(name, "another selector", object{"selector": "newest"}, `unknown selector "newest"; want "last" or "id"`)
		refuse(name, "`last` with an id", object{"selector": "last", "id": "x"}, `the selector "last" takes no id`)
		refuse(name, "`id` without an id", object{"selector": "id"}, `the selector "id" needs an id`)
		refuse(name, "`id` with 1,025 bytes", object{"selector": "id", "id": strings.Repeat("x", 1025)}, "the id has 1025 bytes; at most 1024 are allowed")
		refuse(name, "another key", object{"selector": "last", "dir": "/"}, `want {"selector": "last"} or {"selector": "id", "id": "ID"}`)
		pin := func(shown string, value object, message string) {
			tab.rows = append(tab.rows, row{cells: []string{"`" + key + name + "`", shown, message}, check: func(t *testing.T) {
				_, err := extended(t, object{key + name: value}, promptThatEnds, nil)
				if err == nil || runnel.Safe(err).Message != message {
					t.Errorf("got %v", err)
				}
			}})
		}
		pin("`last`, and there is no conversation", object{"selector": "last"}, universal.NoSessionFound)
		pin("`id` of no conversation", object{"selector": "id", "id": "nobody"}, universal.SessionNotFound)
	}
	refuse("exec.non_interactive", "a string", "true", "want true or false")
	refuse("exec.non_interactive", "false, without anyone to answer", false, "false needs Options.Approve, which answers questions")
	take("exec.non_interactive", "true, which is the default", true, "questions are denied", func(o runnel.Options) any { return o.Approve == nil }, true, nil)
	take("exec.external_sandbox.v1", "false, which is the default", false, "nothing changes", func(o runnel.Options) any { return o.PermissionMode }, "", func(o *runnel.Options) { o.AllowBypass = true })
	take("exec.external_sandbox.v1", "true", true, "permissions are bypassed", func(o runnel.Options) any { return o.PermissionMode }, "bypass", func(o *runnel.Options) { o.AllowBypass = true })
	refuse("tools.results.v1", "a number", 1, "want true or false")
	slices.SortStableFunc(tab.rows, func(a, b row) int { return slices.Compare(a.cells[:1], b.cells[:1]) })
	return with(tab,
		row{cells: []string{"`agent_api.exec.external_sandbox.v1`", "true", "one Status before any text: " + universal.ExternalSandboxWarning}, test: "..TestExternalSandboxWarnsOnceBeforeAnyText"},
		row{cells: []string{"any", "invalid", "nothing is started"}, test: "..TestInvalidExtensionsStartNothing"},
	)
}

func envelope() table {
	tab := table{
		name: "envelope", title: "Universal API: events", file: "universal_test.go",
		intro: "What the universal events have of what an agent did, and the rows of the library that are kept as they are.",
		head:  []string{"what", "outcome"},
	}
	done := func(f event.FinalItem) event.Body { return event.ItemDone{ItemID: "t:1:0", FinalItem: f} }
	message := func(origin event.Origin, text string) event.Body {
		return done(event.Message{Content: text, Origin: origin})
	}
	add := func(what, outcome string, body event.Body, check func(t *testing.T, got []universal.Event)) {
		tab.rows = append(tab.rows, row{cells: []string{what, outcome}, check: func(t *testing.T) {
			s := universal.Stream{AgentKind: "script"}
			check(t, s.Push(event.Event{Session: "s", Seq: 1, Turn: "t", Body: body}))
		}})
	}
	kind := func(want ...string) func(*testing.T, []universal.Event) {
		return func(t *testing.T, got []universal.Event) {
			var kinds []string
			for _, u := range got {
				kinds = append(kinds, strings.TrimSpace(string(u.Kind)+" "+u.Channel))
			}
			equal(t, "events", kinds, want)
		}
	}
	add("the agent's answer", "TextOutput", message(event.OriginAgent, "text"), kind("TextOutput assistant"))
	add("the user's prompt", "Status, and no TextOutput", message(event.OriginUser, "text"), kind("Status user"))
	add("reasoning", "TextOutput on the channel `reasoning`", done(event.Reasoning{Content: "hm"}), kind("TextOutput reasoning"))
	add("a call of a tool", "ToolCall", done(event.FunctionCall{Name: "Bash", CallID: "c", Kind: event.KindExecute}), kind("ToolCall tool"))
	add("the output of a tool", "ToolResult", done(event.FunctionCallOutput{CallID: "c"}), kind("ToolResult tool"))
	add("the end of a turn", "Status", event.ResponseDone{Status: event.StatusCompleted}, kind("Status response_done"))
	add("the failure of a turn", "Error", event.ResponseError{Error: event.Fault{Code: "AGENT_ERROR", Message: "gone"}}, kind("Error response_error"))
	add("a message of an unknown origin", "Unknown, and never dropped", message("somebody", "text"), kind("Unknown message"))
	texts := func(want ...int) func(*testing.T, []universal.Event) {
		return func(t *testing.T, got []universal.Event) {
			var sizes []int
			for _, u := range got {
				sizes = append(sizes, len(u.Text))
			}
			equal(t, "bytes", sizes, want)
		}
	}
	add("a text of 65,536 bytes", "one event", message(event.OriginAgent, strings.Repeat("x", 65_536)), texts(65_536))
	add("a text of 65,537 bytes", "two events, in order", message(event.OriginAgent, strings.Repeat("x", 65_537)), texts(65_536, 1))
	failure := func(n int) event.Body {
		return event.ResponseError{Error: event.Fault{Code: "AGENT_ERROR", Message: strings.Repeat("é", n/2)}}
	}
	add("a message of 4,096 bytes", "whole", failure(4096), func(t *testing.T, got []universal.Event) { equal(t, "bytes", len(got[0].Message), 4096) })
	add("a message of 4,098 bytes", "cut between characters to at most 4,096 bytes, and ends with `…(truncated)`", failure(4098), func(t *testing.T, got []universal.Event) {
		if m := got[0].Message; len(m) > 4096 || !strings.HasSuffix(m, "é…(truncated)") {
			t.Errorf("%d bytes that end with %q", len(m), m[len(m)-20:])
		}
	})
	add("data of more than 65,536 bytes", "`{\"dropped\":{\"reason\":\"oversize\"}}`", done(event.Plan{Entries: []event.PlanEntry{{Content: strings.Repeat("x", 70_000)}}}), func(t *testing.T, got []universal.Event) {
		equal(t, "data", string(got[0].Data), `{"dropped":{"reason":"oversize"}}`)
	})
	for _, n := range []int{1024, 1025} {
		what, outcome := fmt.Sprintf("an id of the conversation of %d bytes", n), "is in the facet `agent_api.session.handle.v1`"
		if n > 1024 {
			outcome = "is in no facet, because an id is never cut"
		}
		add(what, outcome, event.SessionUpdated{AgentSessionID: strings.Repeat("x", n)}, func(t *testing.T, got []universal.Event) {
			has := len(got) > 0 && strings.Contains(string(got[0].Data), `"schema":"agent_api.session.handle.v1"`)
			equal(t, "facet", has, n == 1024)
		})
	}
	add("the facet of a call", "every field of `agent_api.tools.structured.v1`, and no arguments", done(event.FunctionCall{Name: "Bash", CallID: "c", Kind: event.KindExecute, Arguments: json.RawMessage(`{"command":"secret"}`)}), func(t *testing.T, got []universal.Event) {
		var facet struct{ Tool map[string]any }
		if err := json.Unmarshal(got[0].Data, &facet); err != nil {
			t.Fatal(err)
		}
		for _, field := range []string{"backend_item_id", "thread_id", "turn_id", "kind", "phase", "status", "exit_code", "bytes", "tool_name", "tool_use_id"} {
			if _, ok := facet.Tool[field]; !ok {
				t.Errorf("%s is missing", field)
			}
		}
		if strings.Contains(string(mustJSON(got)), "secret") {
			t.Errorf("%s", got[0].Data)
		}
	})
	return with(tab,
		row{cells: []string{"arguments and outputs with `agent_api.tools.results.v1`", "in the facet of that name, bounded"}, test: "universal.TestResultsHaveArgumentsAndOutputsWhereAskedFor"},
		row{cells: []string{"the phases and sizes of calls", "start, complete or fail, with the bytes of output and changes"}, test: "universal.TestToolFacetHasNoArgumentsAndNoOutput"},
		row{cells: []string{"the id of the conversation", "on exactly one early Status"}, test: "universal.TestHandleIsOnOneStatus"},
		row{cells: []string{"messages that programs compare", "`approval required`, `no session found` and `session not found`, and no more words"}, test: "universal.TestPinnedMessagesHaveNoMoreWords"},
		row{cells: []string{"the library: `Handle` beside the iterators", "calls `OnUpsert` and `OnTurn` in order, before `Wait` returns"}, check: handlersSeeTheRun},
		row{cells: []string{"the library: `Destroy` of a reader", "closes its open items with the reason"}, check: destroyClosesItems},
		row{cells: []string{"the library: `Wait`", "gives the same answer for ever"}, check: sameAnswer},
		row{cells: []string{"the library: the defaults of a provider", "count where a request has no value; the request's variables win"}, check: defaultsHold},
	)
}
