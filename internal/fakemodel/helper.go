package fakemodel

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// This file answers requests that an agent makes without a prompt: for a title,
// a summary or a decision about a command. Such a request can contain the
// conversation with its directive. So it is recognised by fixed phrases or by
// the JSON Schema that it requests for the answer.

// Phrases by which a request is recognised. titleInstructions and
// summaryInstructions are in the instructions; summaryRequests are in the last
// message of a conversation.
var (
	titleInstructions   = []string{"You are a title generator"} // opencode
	summaryInstructions = []string{
		"You are a context summarization agent",                   // opencode
		"summarizes internal chat history into a given structure", // qwen
		"component responsible for distilling chat history",       // gemini
	}
	summaryRequests = []string{
		"CONTEXT CHECKPOINT COMPACTION", // codex
		"create a detailed summary of",  // claude, copilot
	}
)

// helper returns the answer to a request for a title or a summary; nil for
// other requests. instructions are the system messages of the request, and last
// is its last message.
func helper(instructions, last string) *choice {
	in := func(text string, words []string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(text, w) })
	}
	switch {
	case in(instructions, titleInstructions):
		return &choice{"title", Step{Text: "A title"}}
	case in(instructions, summaryInstructions), in(last, summaryRequests):
		return &choice{"compact", Step{Text: "A summary of the conversation."}}
	}
	return nil
}

// schema has the fields of a JSON Schema that are needed to make an instance.
type schema struct {
	Type       string            `json:"type"` // in lower or upper case
	Enum       []json.RawMessage `json:"enum"`
	Properties map[string]schema `json:"properties"`
}

// verdicts are the answers for properties with which an agent decides how to
// continue. A schema with such a property comes from the agent, not from its
// user.
var verdicts = map[string]any{
	"title":              "A title",
	"outcome":            "allow", // codex: may a command run?
	"risk_level":         "low",
	"user_authorization": "high",
	"complexity_score":   1, // gemini: which model?
	"model_choice":       "flash",
	"next_speaker":       "user",
}

// form returns the answer to a request whose schema has a property of verdicts;
// nil for other requests.
func form(s schema) *choice {
	for name := range s.Properties {
		if _, ok := verdicts[name]; ok {
			return &choice{"form", Step{Text: string(encode(s.instance()))}}
		}
	}
	return nil
}

// instance returns a value that s allows.
func (s schema) instance() any {
	if len(s.Enum) > 0 {
		return s.Enum[0]
	}
	switch strings.ToLower(s.Type) {
	case "object":
		o := object{}
		for name, p := range s.Properties {
			o[name] = p.instance()
			if v, ok := verdicts[name]; ok {
				o[name] = v
			}
		}
		return o
	case "array":
		return []any{}
	case "integer", "number":
		return 1
	case "boolean":
		return false
	}
	return "fake"
}

// ownRequest is the answer to requests that an agent makes without a prompt.
type ownRequest struct {
	phrase string
	sc     Scenario
}

// Unprompted plays steps to a request that the agent makes without a prompt, and
// to the requests that continue it. phrase is in the bodies of these requests and
// of no others.
func (s *Server) Unprompted(phrase string, steps ...Step) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.own = append(s.own, ownRequest{phrase, Scenario{Steps: steps}})
}

// ownStep returns the step of [Server.Unprompted] that answers a request. Each answer
// of the model after the last text of the user has used one step.
func (s *Server) ownStep(q query, body []byte) (choice, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, own := range s.own {
		if bytes.Contains(body, []byte(own.phrase)) {
			after := 0
			for i, m := range q.msgs {
				if m.role == "user" && len(m.texts) > 0 {
					after = i + 1
				}
			}
			return own.sc.at(own.phrase, answers(q.msgs[after:])), true
		}
	}
	return choice{}, false
}
