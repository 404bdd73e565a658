//go:build unix

package conformance

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
)

var _ = register(53, optionEvidence)

// An exchange is a recorded request to an agent and the agent's response.
type exchange struct{ request, result object }

// exchanges returns the requests in all recordings of an agent to which the
// agent responded without an error.
func exchanges(t *testing.T, agent string) (all []exchange) {
	t.Helper()
	pattern := "../../provider/acp/testdata/" + agent + "/*.txtar"
	if agent == "codex" {
		pattern = "../../provider/codex/testdata/*.txtar"
	}
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: no recordings, %v", pattern, err)
	}
	for _, file := range files {
		requests := make(map[string]object)
		lines := bufio.NewScanner(bytes.NewReader(read(t, file)))
		lines.Buffer(nil, 64<<20)
		for lines.Scan() {
			var line struct{ Dir, Line string }
			var message object
			if json.Unmarshal(lines.Bytes(), &line) != nil || json.Unmarshal([]byte(line.Line), &message) != nil {
				continue // prose, an event or another line that is not a message
			}
			id := fmt.Sprint(message["id"])
			result, ok := message["result"].(object)
			switch {
			case line.Dir == "in" && message["method"] != nil:
				requests[id] = message
			case line.Dir == "out" && ok && requests[id] != nil:
				all = append(all, exchange{requests[id], result})
			}
		}
		if err := lines.Err(); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
	return all
}

// lists returns a function that reports whether the agent lists values of the
// category when it opens a conversation.
func lists(category string) func(exchange) bool {
	return func(e exchange) bool {
		if !strings.HasPrefix(fmt.Sprint(e.request["method"]), "session/") {
			return false
		}
		older := map[string]string{"model": "models", "mode": "modes"}[category]
		options, _ := e.result["configOptions"].([]any)
		return e.result[older] != nil || slices.ContainsFunc(options, func(o any) bool {
			return category == "" || at(o, "category") == category
		})
	}
}

// accepts returns a function that reports whether the agent accepted a change
// of an option over ACP.
func accepts(id string) func(exchange) bool {
	return func(e exchange) bool {
		return e.request["method"] == "session/set_"+id || e.request["method"] == "session/set_config_option" && (id == "" || at(e.request, "params", "configId") == id)
	}
}

// updates returns a function that reports whether Codex accepted a change of a
// setting of a thread.
func updates(setting string) func(exchange) bool {
	return func(e exchange) bool {
		return e.request["method"] == "thread/settings/update" && at(e.request, "params", setting) != nil
	}
}

// starts returns a function that reports whether the agent opened a
// conversation with a value at path in the request's parameters.
func starts(path ...any) func(exchange) bool {
	return func(e exchange) bool {
		value := at(e.request["params"], path...)
		list, _ := value.([]any)
		return (e.request["method"] == "session/new" || e.request["method"] == "thread/start") && (list == nil && value != nil || len(list) > 0)
	}
}

// optionsRecorded lists the options that recordings of the agents prove.
var optionsRecorded = []struct {
	option, agents, what string
	seen                 func(exchange) bool
}{
	{"model", "gemini opencode qwen codex-acp claude-agent-acp", "recordings: the agent lists its models when it opens a conversation", lists("model")},
	{"model", "codex-acp", "recordings: the agent accepts another model", accepts("model")},
	{"model", "codex", "recordings: the agent starts a thread with the model, and changes it", starts("model")},
	{"model", "codex", "recordings: the agent accepts another model in a thread", updates("model")},
	{"permissionMode", "gemini opencode copilot qwen codex-acp claude-agent-acp", "recordings: the agent lists its modes when it opens a conversation", lists("mode")},
	{"permissionMode", "gemini opencode copilot qwen codex-acp claude-agent-acp", "recordings: the agent accepts another mode", accepts("mode")},
	{"permissionMode", "codex", "recordings: the agent accepts another approval policy in a thread", updates("approvalPolicy")},
	{"reasoningEffort", "opencode codex-acp claude-agent-acp", "recordings: the agent lists its efforts when it opens a conversation", lists("thought_level")},
	{"reasoningEffort", "codex", "recordings: the agent accepts another effort in a thread", updates("effort")},
	{"config", "opencode copilot qwen codex-acp claude-agent-acp", "recordings: the agent lists settings when it opens a conversation", lists("")},
	{"config", "opencode copilot qwen codex-acp claude-agent-acp", "recordings: the agent accepts another value of a setting", accepts("")},
	{"config", "codex", "recordings: the agent accepts another sandbox in a thread", updates("sandboxPolicy")},
	{"mcpServers", "codex-acp", "recordings: the agent opens a conversation with a server, whose tool it calls", starts("mcpServers")},
	{"mcpServers", "codex", "recordings: the agent starts a thread with a server, whose tool it calls", starts("config", "mcp_servers")},
}

// optionsOfRealAgents lists the options that tests with real agents prove.
var optionsOfRealAgents = []struct{ option, agents, what, test string }{
	{"model", "claude-code codex", "real agents: a turn with another model asks it, and the next turn does not", "test/e2e.TestOptionsOfATurnAreRestored"},
	{"model", "copilot", "real agents: a session with another model asks it", "provider/acp.TestModelAndMCPServersOfSessionAreUsed"},
	{"permissionMode", "claude-code codex", "real agents: a turn in the mode plan, and the next turn is not in it", "test/e2e.TestOptionsOfATurnAreRestored"},
	{"permissionMode", "opencode qwen", "real agents: a turn in the mode plan, and the next turn is not in it", "test/e2e.TestModeOfATurnIsRestored"},
	{"disallowedTools", "claude-code", "real agents: the tool does not run", "provider/claude.TestAgentLacksDisallowedTools"},
	{"disallowedTools", "claude-code claude-agent-acp opencode", "real agents: a tool that a profile disallows does not run", "test/e2e.TestProfileForbidsAndApprovesTools"},
	{"thinkingDisplay", "claude-code", "real agents: the request to the model has it, also when it changes", "provider/claude.TestThinkingDisplayAndToolsChangeInARunningSession"},
	{"thinkingDisplay", "claude-agent-acp", "real agents: the request to the model has it", "provider/acp.TestAdapterPassesOptionsOfAStartOn"},
	{"addDirs", "claude-code", "real agents: a file of the folder is read without asking", "provider/claude.TestMCPServersAndAddedDirectoriesCanBeUsed"},
	{"tools", "claude-code", "real agents: the model is offered these tools alone", "provider/claude.TestOptionsOfAStartReachTheModel"},
	{"tools", "claude-agent-acp", "real agents: the model is offered these tools alone", "provider/acp.TestAdapterPassesOptionsOfAStartOn"},
	{"maxTurns", "claude-code", "real agents: the turn ends after that many model calls", "provider/claude.TestOptionsOfAStartReachTheModel"},
	{"maxTurns", "claude-agent-acp", "real agents: the turn ends after that many model calls", "provider/acp.TestAdapterPassesOptionsOfAStartOn"},
	{"reasoningEffort", "claude-code", "real agents: the request to the model has it", "provider/claude.TestOptionsOfAStartReachTheModel"},
	{"maxThinkingTokens", "claude-code", "real agents: the request to the model has it, unless the thinking of the model is adaptive", "provider/claude.TestThinkingBudgetReachesTheModel"},
	{"addDirs", "claude-agent-acp", "real agents: a file of the folder is read without asking", "provider/acp.TestAdapterPassesOptionsOfAStartOn"},
	{"addDirs", "codex", "real agents: a file is written in the folder", "provider/codex.TestPermissionModes"},
	{"addDirs", "codex-acp", "real agents: a file is written in the folder, and none beside it", "provider/acp.TestCodexAdapterPassesOptionsOfAStartOn"},
	{"mcpServers", "claude-code", "real agents: a tool of the server runs", "provider/claude.TestMCPServersAndAddedDirectoriesCanBeUsed"},
	{"mcpServers", "opencode claude-agent-acp", "real agents: a tool of the server runs", "provider/acp.TestMCPServersCanBeUsed"},
	{"mcpServers", "gemini", "real agents: a tool of the server runs", "provider/acp.TestModelAndMCPServersOfSessionAreUsed"},
	{"mcpServers", "qwen", "real agents: the model finds a tool of the server, which runs", "provider/acp.TestQwenModelFindsToolsOfMCPServers"},
	{"mcpServers", "copilot", "real agents: a tool of a server over HTTP runs", "provider/acp.TestModelAndMCPServersOfSessionAreUsed"},
	{"mcpServers", "copilot", "real agents: a server that the agent would have to start is refused", "provider/acp.TestCopilotIsGivenNoMCPServersThatItWouldStart"},
	{"config", "gemini", "real agents: a session with another `model` asks it", "provider/acp.TestModelAndMCPServersOfSessionAreUsed"},
	{"systemPromptAppend", "claude-code", "real agents: the request to the model has the text", "provider/claude.TestOptionsOfAStartReachTheModel"},
	{"systemPromptAppend", "codex", "real agents: the request to the model has the text", "provider/codex.TestSystemPromptReachesTheModel"},
	{"systemPromptAppend", "codex-acp", "real agents: the request to the model has the text", "provider/acp.TestCodexAdapterPassesOptionsOfAStartOn"},
	{"systemPromptAppend", "claude-agent-acp", "real agents: the request to the model has the text", "provider/acp.TestAdapterPassesOptionsOfAStartOn"},
	{"budget", "claude-code codex", "real agents: a turn that passes it is cancelled, and the next prompt is refused until it is raised", "test/guardrails.TestTokenBudgetEndsTurnsOfRealAgents"},
	{"turnBudget", "claude-code", "real agents: a turn ends when its time is over", "test/guardrails.TestTimeBudgetEndsTurnOfRealAgent"},
	{"keys", "claude-code codex gemini qwen claude-agent-acp", "real agents: neither the agent nor its tools have the key, and the model receives it", "test/guardrails.TestBrokerKeepsKeyFromAgent"},
	{"sandbox", "claude-code codex gemini qwen opencode", "real agents: a hostile tool reaches nothing outside", "test/guardrails.TestHostileToolReachesNothing"},
	{"egress", "claude-code codex gemini qwen opencode", "real agents: only the listed port is reached", "test/guardrails.TestHostileToolReachesNothing"},
	{"auth", "claude-code codex gemini qwen claude-agent-acp", "real agents: the request to the model has the key", "test/e2e.TestAPIKeyIsUsedAndKept"},
}

// optionEvidence returns the table that names, for each option that an agent
// takes according to optionsOfAgents, the recording or test that proves it.
func optionEvidence() table {
	tab := table{
		name: "option evidence", title: "Options: how it is known which agent takes which", file: "options_recorded_test.go",
		intro: "How each option that an agent takes was established: by recordings of the real agent in `provider/*/testdata`, which the checks read, or by tests with the real agent and a scripted model. " +
			"A row that says *declared* has neither: the provider passes the option on as the agent documents it, and no run of the agent has shown its effect. " +
			"What the table above calls refused is declared, too: the agent's interface has no such option, as far as its provider knows it.",
		head: []string{"option", "agents", "how it is known"},
	}
	known := make(map[string]bool)
	note := func(option, agents string) (option_, list string) {
		for _, agent := range strings.Fields(agents) {
			known[option+" "+agent] = true
		}
		return "`" + option + "`", strings.ReplaceAll(agents, " ", ", ")
	}
	for _, r := range optionsRecorded {
		option, agents := note(r.option, r.agents)
		tab.add(option, agents, r.what, func(t *testing.T) {
			for _, agent := range strings.Fields(r.agents) {
				if !slices.ContainsFunc(exchanges(t, agent), r.seen) {
					t.Errorf("no recording of %s shows it", agent)
				}
			}
		})
	}
	for _, r := range optionsOfRealAgents {
		option, agents := note(r.option, r.agents)
		tab.link(option, agents, r.what, r.test)
	}
	for _, o := range takenOptions {
		var declared []string
		for i, letter := range o.letters {
			if agent := agentsWithOptions[i]; letter != '-' && agent != "script" && !known[o.option+" "+agent] {
				declared = append(declared, agent)
			}
		}
		if len(declared) == 0 {
			continue
		}
		tab.add("`"+o.option+"`", strings.Join(declared, ", "), "*declared*", func(t *testing.T) {
			var opt runnel.Options
			decodeInto(t, object{o.option: json.RawMessage(o.value)}, &opt)
			for _, agent := range declared {
				if takes(t, agent, o.option, opt) == '-' {
					t.Errorf("%s refuses it", agent)
				}
			}
		})
	}
	return tab
}
