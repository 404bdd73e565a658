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

// A Scenario is what the model does about one prompt.
type Scenario struct {
	Steps []Step `json:"steps"`
}

// A Step is one answer of the model. The zero value is an empty message.
type Step struct {
	Text   string  `json:"text,omitzero"` // short for one text block before Blocks
	Blocks []Block `json:"blocks,omitzero"`

	// StopReason is one of Anthropic's words, which every API has its own word
	// for, or any other, which is said as it is. In Responses all but the two
	// of the default make the answer incomplete.
	StopReason string           `json:"stopReason,omitzero"` // default: tool_use if there is a tool call, else end_turn
	Usage      map[string]int64 `json:"usage,omitzero"`      // overrides the counted tokens: names of Anthropic's, and reasoning_tokens
	Model      string           `json:"model,omitzero"`      // default: the model asked for
	Headers    Headers          `json:"headers,omitzero"`

	Chunk        int `json:"chunk,omitzero"`        // runes per delta; default 8
	Pace         int `json:"pace,omitzero"`         // deltas per second; default as fast as possible
	DelayMS      int `json:"delayMs,omitzero"`      // before the headers
	FirstDelayMS int `json:"firstDelayMs,omitzero"` // between the headers and the first event

	Silent int      `json:"silent,omitzero"` // how many times the answer is empty before it is this one
	Hold   string   `json:"hold,omitzero"`   // name of a gate to wait at before the headers
	Fail   *Failure `json:"fail,omitzero"`
	Faults []Fault  `json:"faults,omitzero"` // of the stream, in the order of After
}

// Headers are response headers by name.
type Headers map[string]string

// A Block is one part of a message. Not every API can say all of them; asked
// for what it cannot say, the server answers 400.
type Block struct {
	Type      string          `json:"type"` // text, thinking, redacted_thinking, tool_use, web_search
	Text      string          `json:"text,omitzero"`
	Repeat    int             `json:"repeat,omitzero"` // says Text this many times; default 1
	Parts     []string        `json:"parts,omitzero"`  // of thinking, instead of Text: the parts of a summary
	Phase     string          `json:"phase,omitzero"`  // of text: commentary, final_answer (Responses)
	NoID      bool            `json:"noId,omitzero"`   // leaves out the id of the item (Responses)
	Signature string          `json:"signature,omitzero"`
	Data      string          `json:"data,omitzero"` // of redacted_thinking
	ID        string          `json:"id,omitzero"`   // of tool_use; default made from the step
	Name      string          `json:"name,omitzero"`
	Namespace string          `json:"namespace,omitzero"` // of Name; default the one it is offered in (Responses)
	Input     json.RawMessage `json:"input,omitzero"`     // an object, or a string for a tool that takes text
	RawInput  string          `json:"rawInput,omitzero"`  // streamed instead of Input, valid JSON or not
}

// Call returns a block that calls a tool as the agent names it. Input is
// anything that encoding/json takes; a string is for a tool that takes text.
func Call(name string, input any) Block {
	b, err := json.Marshal(input)
	if err != nil {
		panic(err) // a mistake in a test
	}
	return Block{Type: "tool_use", Name: name, Input: b}
}

// A Failure answers with an HTTP error instead of a message.
type Failure struct {
	Status  int     `json:"status"`
	Type    string  `json:"type,omitzero"` // default: the API's own for the status
	Message string  `json:"message,omitzero"`
	Headers Headers `json:"headers,omitzero"`
	Times   int     `json:"times,omitzero"` // how many attempts fail before one succeeds; default all
}

// Kinds of [Fault].
const (
	Malformed  = "malformed"   // an event whose data is half a JSON value; the stream ends
	Truncate   = "truncate"    // the connection breaks
	Stall      = "stall"       // nothing more until the gate opens; without a gate, until the client goes
	ErrorEvent = "error_event" // an error event; the stream ends
	NoStop     = "no_stop"     // the stream ends in good order but early
	Failed     = "failed"      // the API reports that the answer failed (Responses), else as ErrorEvent
	Incomplete = "incomplete"  // the answer stops here, with Type for a stop reason
)

// A Fault spoils a stream after a number of deltas.
type Fault struct {
	Kind    string `json:"kind"`
	After   int    `json:"after,omitzero"` // deltas sent before it
	Gate    string `json:"gate,omitzero"`  // of a stall
	Type    string `json:"type,omitzero"`  // of an error event, default the API's word for overload; of Incomplete, default max_tokens
	Message string `json:"message,omitzero"`
	Times   int    `json:"times,omitzero"` // how many attempts it spoils; default all
}

// Prompt returns text with a directive that plays sc, for use as a user message.
func (sc Scenario) Prompt(text string) string {
	b, err := json.Marshal(sc)
	if err != nil {
		panic(err) // only a RawMessage that is not JSON gets here
	}
	return strings.TrimSpace(text + " " + opening + string(b) + closing)
}

// validate names the first thing in sc that no API could say.
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

// parts returns the parts of a summary.
func (b Block) parts() []string {
	if len(b.Parts) > 0 {
		return b.Parts
	}
	return []string{b.text()}
}

// arguments returns what a tool is called with, as it is streamed.
func (b Block) arguments() string {
	return cmp.Or(b.RawInput, string(b.Input), "{}")
}

// message is one entry of a conversation, in any API.
type message struct {
	role  string   // user, assistant or system
	texts []string // without tool results
}

func (m message) text() string { return strings.Join(m.texts, "\n") }

// cue is the step that a conversation asks for.
type cue struct {
	key  string // same scenario, same step: same key
	step Step
}

const (
	opening = "<<play "
	closing = ">>"
)

// choose finds the step for a conversation.
func choose(msgs []message, named map[string]Scenario) (cue, error) {
	for i, m := range slices.Backward(msgs) {
		if m.role != "user" {
			continue
		}
		for _, text := range slices.Backward(m.texts) {
			sc, source, err := directive(text, named)
			if err != nil {
				return cue{}, err
			}
			if source != "" {
				return sc.at(source, answers(msgs[i+1:])), nil
			}
		}
	}
	return cue{key: "none", step: Step{Text: "ok"}}, nil
}

func (sc Scenario) at(source string, n int) cue {
	c := cue{key: fmt.Sprintf("%s_%d", digest(source), n), step: Step{Text: "ok (no more steps)"}}
	if n < len(sc.Steps) {
		c.step = sc.Steps[n]
	}
	return c
}

func answers(msgs []message) (n int) {
	for _, m := range msgs {
		if m.role == "assistant" {
			n++
		}
	}
	return n
}

// directive returns the scenario that text asks for and the words that do;
// source is empty if there is none. Directives may nest (a prompt for a
// subagent inside the input of a tool call); the outermost one counts.
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
		return Scenario{}, "", fmt.Errorf("fakemodel: no scenario %q; there are %q", name, slices.Sorted(maps.Keys(named)))
	}
	return sc, name, nil
}

func digest(s string) string {
	h := sha256.Sum256([]byte(s))
	return hex.EncodeToString(h[:5])
}

// builtin are the scenarios every server knows.
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
