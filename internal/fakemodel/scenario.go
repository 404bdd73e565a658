package fakemodel

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A Scenario is the sequence of the model's answers to one prompt.
type Scenario struct {
	Steps []Step `json:"steps"`
}

// A Step is one answer of the model. The zero value is an empty message.
type Step struct {
	Text   string  `json:"text,omitzero"` // the text of a block before Blocks
	Blocks []Block `json:"blocks,omitzero"`

	// StopReason is one of Anthropic's stop reasons, which each API translates
	// to its own name. Any other value is sent unchanged. In Responses, an
	// answer with a value other than tool_use and end_turn is incomplete.
	StopReason string           `json:"stopReason,omitzero"` // default: tool_use if there is a tool call, else end_turn
	Usage      map[string]int64 `json:"usage,omitzero"`      // overrides the estimated numbers of tokens, by Anthropic's names or reasoning_tokens
	Model      string           `json:"model,omitzero"`      // default: the model of the request
	Headers    Headers          `json:"headers,omitzero"`

	Chunk        int `json:"chunk,omitzero"`        // runes per delta; default 8
	Pace         int `json:"pace,omitzero"`         // deltas per second; default as fast as possible
	DelayMS      int `json:"delayMs,omitzero"`      // pause before the headers, in milliseconds
	FirstDelayMS int `json:"firstDelayMs,omitzero"` // pause between the headers and the first event, in milliseconds

	EmptyAnswers int      `json:"silent,omitzero"` // number of empty answers before this one
	Hold         string   `json:"hold,omitzero"`   // name of the gate at which the answer waits before the headers
	Fail         *Failure `json:"fail,omitzero"`
	Faults       []Fault  `json:"faults,omitzero"` // faults of the stream, in the order of After
}

// Headers are response headers by name.
type Headers map[string]string

// A Block is one part of a message. If the API of a request cannot represent
// the block, the server answers with status 400.
type Block struct {
	Type      string          `json:"type"` // text, thinking, redacted_thinking, tool_use, web_search
	Text      string          `json:"text,omitzero"`
	Repeat    int             `json:"repeat,omitzero"` // number of repetitions of Text; default 1
	Parts     []string        `json:"parts,omitzero"`  // of thinking: the parts of a summary, instead of Text
	Phase     string          `json:"phase,omitzero"`  // of text: commentary, final_answer (Responses)
	NoID      bool            `json:"noId,omitzero"`   // omits the id of the item (Responses)
	Signature string          `json:"signature,omitzero"`
	Data      string          `json:"data,omitzero"` // of redacted_thinking
	ID        string          `json:"id,omitzero"`   // of tool_use; default made from the step
	Name      string          `json:"name,omitzero"`
	Namespace string          `json:"namespace,omitzero"` // of Name; default: the namespace in which the agent offers the tool (Responses)
	Input     json.RawMessage `json:"input,omitzero"`     // an object, or a string for a tool that takes text
	RawInput  string          `json:"rawInput,omitzero"`  // streamed instead of Input; need not be valid JSON
}

// Call returns a block that calls a tool. name is the agent's name of the tool.
// input is any value that encoding/json can marshal; use a string for a tool
// that takes text. Call panics if input does not marshal.
func Call(name string, input any) Block {
	b, err := json.Marshal(input)
	if err != nil {
		panic(err) // a mistake in a test
	}
	return Block{Type: "tool_use", Name: name, Input: b}
}

// A Failure makes the server answer with an HTTP error instead of a message.
type Failure struct {
	Status  int     `json:"status"`
	Type    string  `json:"type,omitzero"` // default: the API's type for the status
	Message string  `json:"message,omitzero"`
	Headers Headers `json:"headers,omitzero"`
	Times   int     `json:"times,omitzero"` // number of attempts that fail before one succeeds; default: all
}

// Kinds of [Fault].
const (
	Malformed  = "malformed"   // an event with incomplete JSON; then the stream ends
	Truncate   = "truncate"    // the connection breaks
	Stall      = "stall"       // no more events until the gate opens; without a gate, until the client disconnects
	ErrorEvent = "error_event" // an error event; then the stream ends
	NoStop     = "no_stop"     // the stream ends before the answer is complete, without an error
	Failed     = "failed"      // an event that the answer failed (Responses); like ErrorEvent in other APIs
	Incomplete = "incomplete"  // the answer stops, with Type as the stop reason
)

// A Fault breaks a stream after a number of deltas.
type Fault struct {
	Kind    string `json:"kind"`
	After   int    `json:"after,omitzero"` // number of deltas before the fault
	Gate    string `json:"gate,omitzero"`  // the gate of a Stall
	Type    string `json:"type,omitzero"`  // error type of ErrorEvent and Failed, default: the API's type for overload; stop reason of Incomplete, default: max_tokens
	Message string `json:"message,omitzero"`
	Times   int    `json:"times,omitzero"` // number of attempts with the fault; default: all
}

// Prompt returns a user message: text and a directive that plays sc. It panics
// if an Input of sc is not JSON.
func (sc Scenario) Prompt(text string) string {
	b, err := json.Marshal(sc)
	if err != nil {
		panic(err) // a RawMessage of sc is not JSON
	}
	return strings.TrimSpace(text + " " + opening + string(b) + closing)
}

// validate returns an error for the first value in sc that no API can
// represent.
func (sc Scenario) validate() error {
	for i, st := range sc.Steps {
		for _, b := range st.Blocks {
			switch b.Type {
			case "text", "thinking", "redacted_thinking", "web_search":
			case "tool_use":
				if len(b.Input) > 0 && !json.Valid(b.Input) {
					return fmt.Errorf("step %d: input of %s is not JSON", i, b.Name)
				}
			default:
				return fmt.Errorf("step %d: unknown block type %q", i, b.Type)
			}
		}
		for _, f := range st.Faults {
			switch f.Kind {
			case Malformed, Truncate, Stall, ErrorEvent, NoStop, Failed, Incomplete:
			default:
				return fmt.Errorf("step %d: unknown fault %q", i, f.Kind)
			}
		}
	}
	return nil
}

// blocks returns all blocks of the step.
func (st Step) blocks() []Block {
	if st.Text == "" {
		return st.Blocks
	}
	return append([]Block{{Type: "text", Text: st.Text}}, st.Blocks...)
}

func (st Step) stopReason() string {
	switch {
	case st.StopReason != "":
		return st.StopReason
	case slices.ContainsFunc(st.Blocks, func(b Block) bool { return b.Type == "tool_use" }):
		return "tool_use"
	}
	return "end_turn"
}

func (b Block) text() string {
	return strings.Repeat(b.Text, max(b.Repeat, 1)) + strings.Join(b.Parts, "\n")
}

// parts returns the parts of a thinking summary.
func (b Block) parts() []string {
	if len(b.Parts) > 0 {
		return b.Parts
	}
	return []string{b.text()}
}

// arguments returns the arguments of a tool call as they are streamed.
func (b Block) arguments() string {
	return cmp.Or(b.RawInput, string(b.Input), "{}")
}

// message is one entry of a conversation, in any API.
type message struct {
	role  string   // user, assistant or system
	texts []string // without tool results
}

func (m message) text() string { return strings.Join(m.texts, "\n") }

// choice is the step that answers a request.
type choice struct {
	key  string // identifies the scenario and the step
	step Step
}

const (
	opening = "<<play "
	closing = ">>"
)

// choose returns the step that the directive in a conversation chooses.
func choose(msgs []message, named map[string]Scenario) (choice, error) {
	for i, m := range slices.Backward(msgs) {
		if m.role != "user" {
			continue
		}
		for _, text := range slices.Backward(m.texts) {
			sc, source, err := directive(text, named)
			if err != nil {
				return choice{}, err
			}
			if source != "" {
				return sc.at(source, answers(msgs[i+1:])), nil
			}
		}
	}
	return choice{key: "none", step: Step{Text: "ok"}}, nil
}

func (sc Scenario) at(source string, n int) choice {
	c := choice{key: fmt.Sprintf("%s_%d", digest(source), n), step: Step{Text: "ok (no more steps)"}}
	if n < len(sc.Steps) {
		c.step = sc.Steps[n]
	}
	return c
}

// answers returns the number of the assistant's messages.
func answers(msgs []message) (n int) {
	for _, m := range msgs {
		if m.role == "assistant" {
			n++
		}
	}
	return n
}

// directive returns the scenario that the directive in text plays, and the
// directive's content as source; source is "" if text has no directive.
// Directives can be nested, for example a prompt for a subagent in the input of
// a tool call. The outermost directive counts.
func directive(text string, named map[string]Scenario) (sc Scenario, source string, err error) {
	_, rest, ok := strings.Cut(text, opening)
	if !ok {
		return Scenario{}, "", nil
	}
	if strings.HasPrefix(rest, "{") {
		dec := json.NewDecoder(strings.NewReader(rest))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&sc); err != nil {
			return Scenario{}, "", fmt.Errorf("fakemodel: directive: %w", err)
		}
		if err := sc.validate(); err != nil {
			return Scenario{}, "", fmt.Errorf("fakemodel: directive: %w", err)
		}
		return sc, rest[:dec.InputOffset()], nil
	}
	name, _, ok := strings.Cut(rest, closing)
	if !ok {
		return Scenario{}, "", nil
	}
	if sc, ok = named[name]; !ok {
		return Scenario{}, "", fmt.Errorf("fakemodel: unknown scenario %q; want one of %q", name, slices.Sorted(maps.Keys(named)))
	}
	return sc, name, nil
}

func digest(s string) string {
	h := sha256.Sum256([]byte(s))
	return hex.EncodeToString(h[:5])
}

// builtin returns the scenarios that every server has.
func builtin() map[string]Scenario {
	return map[string]Scenario{
		"hello": {Steps: []Step{{Text: "Hello from the fake model."}}},
		"think": {Steps: []Step{{Blocks: []Block{
			{Type: "thinking", Text: "Let me think about this carefully."},
			{Type: "text", Text: "Thought about it."},
		}}}},
		"bash": {Steps: []Step{
			{Text: "Running a command.", Blocks: []Block{
				{Type: "tool_use", Name: "Bash", Input: json.RawMessage(`{"command":"echo hi","description":"Say hi"}`)},
			}},
			{Text: "Done."},
		}},
		"long": {Steps: []Step{{Pace: 20, Blocks: []Block{
			{Type: "text", Text: "The quick brown fox jumps over the lazy dog. ", Repeat: 60},
		}}}},
	}
}
