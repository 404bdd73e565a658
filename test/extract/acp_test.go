package extract

import (
	"encoding/base64"
	"encoding/json"
	"regexp"
	"strings"
)

type acpUsage struct {
	In  int64 `json:"inputTokens"`
	Out int64 `json:"outputTokens"`
}

type acpMeta struct {
	Usage acpUsage `json:"usage"` // usage of one call of the model, as Qwen Code reports it
	Quota struct { // usage of the turn, as Gemini reports it
		Tokens struct {
			In  int64 `json:"input_tokens"`
			Out int64 `json:"output_tokens"`
		} `json:"token_count"`
	} `json:"quota"`
}

type acpUpdate struct {
	Kind       string          `json:"sessionUpdate"`
	MessageID  string          `json:"messageId"`
	ToolCallID string          `json:"toolCallId"`
	Status     string          `json:"status"`
	RawInput   json.RawMessage `json:"rawInput"`
	Content    json.RawMessage `json:"content"`
	TerminalID string          `json:"terminalId"`
	Data       string          `json:"data"`
	SessionID  string          `json:"sessionId"`
	RawOutput  json.RawMessage `json:"rawOutput"`
	Output     struct {
		Data string `json:"data"`
	} `json:"output"`
	State      string   `json:"state"` // state of a turn, in version 2
	StopReason string   `json:"stopReason"`
	Usage      acpUsage `json:"usage"`
	Meta       acpMeta  `json:"_meta"`
}

type acpLine struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		SessionID string    `json:"sessionId"`
		Update    acpUpdate `json:"update"`
		ToolCall  acpUpdate `json:"toolCall"` // tool call of an approval
	} `json:"params"`
	Result struct {
		StopReason string   `json:"stopReason"`
		Usage      acpUsage `json:"usage"`
		Meta       acpMeta  `json:"_meta"`
	} `json:"result"`
	Error *struct{} `json:"error"`
}

type acpCall struct {
	output, terminal string
	ended            string
}

type acpReader struct {
	*facts
	text, thought    strings.Builder
	message          string
	calls            map[string]*acpCall
	terminals        map[string]string
	prompted         bool // a prompt was sent; everything before the first prompt is history
	cancelled        bool
	failed           bool     // the agent reports the failure only in its text
	used             acpUsage // usage of the turn, from its calls of the model
	session          acpUsage // usage of all turns so far, for agents that report it
	reportsOfSession bool
}

// ofACP returns a reader of an agent that speaks the Agent Client Protocol.
func ofACP(agent string) func([]line) *facts {
	return func(lines []line) *facts {
		r := &acpReader{facts: newFacts(), calls: map[string]*acpCall{}, terminals: map[string]string{}, reportsOfSession: agent == "copilot"}
		for _, l := range lines {
			var c acpLine
			if json.Unmarshal([]byte(l.Line), &c) == nil {
				r.read(l.Dir, &c)
			}
		}
		r.flush()
		for id, call := range r.calls {
			if call.ended == "" {
				continue
			}
			text := call.output
			if call.terminal != "" {
				text = r.terminals[call.terminal]
			}
			r.outputs[id] = output{text, call.ended == "failed"}
		}
		return r.facts
	}
}

func (r *acpReader) read(dir string, c *acpLine) {
	switch {
	case dir == "in":
		r.prompted = r.prompted || c.Method == "session/prompt"
		r.cancelled = r.cancelled || c.Method == "session/cancel"
	case !r.prompted:
	case c.Method == "session/request_permission":
		// The call may be reported only by its permission request, or without
		// arguments. A call with arguments keeps them: some agents request
		// approval with different ones.
		switch call := c.Params.ToolCall; {
		case call.ToolCallID == "":
		case r.calls[call.ToolCallID] == nil:
			r.call(&call)
		case r.facts.calls[call.ToolCallID] == "{}" && len(call.RawInput) > 0:
			r.facts.calls[call.ToolCallID] = canonical(call.RawInput)
		}
	case strings.Contains(c.Params.SessionID, ":subagent:") && c.Params.Update.Kind == "state_update": // the state of a subagent, not of a turn
	case c.Method == "session/update":
		r.update(&c.Params.Update)
	case c.Method == "" && strings.HasPrefix(string(c.ID), `"prompt:`):
		switch {
		case c.Error != nil && r.cancelled:
			r.end("cancelled", acpUsage{})
		case c.Error != nil:
			r.end("error", acpUsage{})
		case c.Result.StopReason != "":
			usage := c.Result.Usage
			if q := c.Result.Meta.Quota.Tokens; usage == (acpUsage{}) {
				usage = acpUsage{q.In, q.Out}
			}
			r.end(c.Result.StopReason, usage)
		}
	}
}

func (r *acpReader) end(reason string, usage acpUsage) {
	r.flush()
	status := reason
	if r.failed {
		reason, status = "error", "error"
	}
	if reason != "cancelled" && reason != "error" {
		status = "completed"
	}
	if usage == (acpUsage{}) {
		usage = r.used
	}
	if r.reportsOfSession {
		usage, r.session = acpUsage{usage.In - r.session.In, usage.Out - r.session.Out}, usage
	}
	r.facts.end(status, usage.In, usage.Out)
	r.used, r.cancelled, r.failed = acpUsage{}, false, false
}

func (r *acpReader) flush() {
	r.facts.text(r.text.String())
	r.facts.thought(r.thought.String())
	r.text.Reset()
	r.thought.Reset()
}

func (r *acpReader) update(u *acpUpdate) {
	r.used = acpUsage{r.used.In + u.Meta.Usage.In, r.used.Out + u.Meta.Usage.Out}
	switch u.Kind {
	case "agent_message_chunk", "agent_thought_chunk":
		var content struct {
			Text string `json:"text"`
		}
		_ = json.Unmarshal(u.Content, &content)
		grows, other := &r.text, &r.thought
		if u.Kind == "agent_thought_chunk" {
			grows, other = other, grows
		}
		if u.MessageID != r.message || other.Len() > 0 {
			r.flush()
			r.message = u.MessageID
		}
		if r.reportsOfSession && own.MatchString(content.Text) {
			r.failed = r.failed || strings.HasPrefix(content.Text, "Error: ")
			return
		}
		grows.WriteString(strings.TrimPrefix(content.Text, modeUpdate))
	case "terminal_update":
		data, _ := base64.StdEncoding.DecodeString(u.Output.Data)
		r.terminals[u.TerminalID] += string(data)
	case "terminal_output_chunk":
		data, _ := base64.StdEncoding.DecodeString(u.Data)
		r.terminals[u.TerminalID] += string(data)
	case "subagent_update":
		r.facts.calls[u.SessionID], r.outputs[u.SessionID] = whatever, output{whatever, false}
	case "tool_call", "tool_call_update":
		r.flush()
		r.call(u)
	case "state_update":
		if u.State == "idle" {
			r.end(u.StopReason, u.Usage)
		}
	}
}

func (r *acpReader) call(u *acpUpdate) {
	if r.calls[u.ToolCallID] == nil {
		r.calls[u.ToolCallID] = &acpCall{}
		r.facts.calls[u.ToolCallID] = "{}" // until the agent reports arguments
	}
	call := r.calls[u.ToolCallID]
	if ends := u.Status == "completed" || u.Status == "failed"; len(u.RawInput) > 0 && (!ends || r.facts.calls[u.ToolCallID] == "{}") {
		r.facts.calls[u.ToolCallID] = canonical(mcpArguments(u.RawInput))
	}
	var contents []struct {
		Type    string `json:"type"`
		Content struct {
			Text string `json:"text"`
		} `json:"content"`
		TerminalID string `json:"terminalId"`
	}
	if json.Unmarshal(u.Content, &contents) == nil && len(u.Content) > 0 {
		var texts []string
		for _, content := range contents {
			switch content.Type {
			case "content":
				texts = append(texts, decorated(content.Content.Text))
			case "terminal":
				call.terminal = content.TerminalID
			}
		}
		call.output = strings.Join(texts, "\n")
	}
	if shown := rawText(u.RawOutput, call.output); shown != "" {
		call.output = shown
	}
	if u.Status == "completed" || u.Status == "failed" {
		call.ended = u.Status
	}
}

// modeUpdate is the text that Gemini puts before an answer after a mode change.
const modeUpdate = "[MODE_UPDATE] plan"

var (
	own   = regexp.MustCompile(`^(Info|Warning|Error): `) // text of Copilot itself, not of its model
	fence = regexp.MustCompile("(?s)^```[a-z]*\n(.*)\n```$")
	shell = regexp.MustCompile(`\n<shellId: \d+ completed with exit code -?\d+>$`)
)

// mcpArguments returns the arguments of a tool. codex-acp wraps them together
// with the names of the server and the tool.
func mcpArguments(input json.RawMessage) json.RawMessage {
	var wrapped struct {
		Server, Tool string
		Arguments    json.RawMessage
	}
	if json.Unmarshal(input, &wrapped) == nil && wrapped.Server != "" && wrapped.Tool != "" && len(wrapped.Arguments) > 0 {
		return wrapped.Arguments
	}
	return input
}

// rawText returns the text in a call's rawOutput that replaces the text of its
// content: a plain string or the output of a shell. If the content is empty, it
// can also be a message or the result of an MCP tool. rawText returns "" if the
// text of the content stays.
func rawText(raw json.RawMessage, content string) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var o struct {
		Type    string `json:"type"`
		Output  string `json:"output"`
		Message string `json:"message"`
		Result  struct {
			Content json.RawMessage `json:"content"`
		} `json:"result"`
	}
	if json.Unmarshal(raw, &o) != nil {
		return ""
	}
	switch {
	case o.Type == "shell_result":
		return o.Output
	case content != "":
		return ""
	case o.Message != "":
		return o.Message
	}
	return resultText(o.Result.Content)
}

var report = []*regexp.Regexp{ // Qwen Code's report about a command
	regexp.MustCompile(`(?s)^Command: .*?\nDirectory: [^\n]*\nOutput: (.*)\nError: [^\n]*\nExit Code: -?\d+\n.*$`),
	regexp.MustCompile(`(?s)^Command was cancelled by user before it could complete\. Below is the output before it was cancelled:\n(.*)$`),
}

// decorated returns an output without the text that an adapter adds around it.
func decorated(text string) string {
	if m := fence.FindStringSubmatch(text); m != nil {
		text = m[1]
	}
	for _, r := range report {
		if m := r.FindStringSubmatch(text); m != nil {
			text = strings.TrimPrefix(m[1], "(empty)")
		}
	}
	return shell.ReplaceAllString(text, "")
}
