package fakemodel

import (
	"encoding/json"
	"slices"
	"strings"
)

// Agents ask on their own account too: for a title, a summary, a verdict about
// a command. Such a request repeats the conversation, directive included, so
// it is told by its own words or by the form that it wants the answer in.

// words in the instructions tell of a whole request, words in the last message
// of one that is made in the middle of a conversation.
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

// helper returns the answer to a request that an agent made on its own
// account, if this is one. Instructions are what the agent says before the
// conversation.
func helper(instructions, last string) *cue {
	in := func(text string, words []string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(text, w) })
	}
	switch {
	case in(instructions, titleInstructions):
		return &cue{"title", Step{Text: "A title"}}
	case in(instructions, summaryInstructions), in(last, summaryRequests):
		return &cue{"compact", Step{Text: "A summary of the conversation."}}
	}
	return nil
}

// schema is the part of a JSON Schema that decides about an instance of it.
type schema struct {
	Type       string            `json:"type"` // also in capitals
	Enum       []json.RawMessage `json:"enum"`
	Properties map[string]schema `json:"properties"`
}

// verdicts are the values of properties that decide how an agent goes on. What
// has one of them is wanted by the agent and not by its user.
var verdicts = map[string]any{
	"title":              "A title",
	"outcome":            "allow", // codex: may a command run?
	"risk_level":         "low",
	"user_authorization": "high",
	"complexity_score":   1, // gemini: which model?
	"model_choice":       "flash",
	"next_speaker":       "user",
}

// form returns the answer to a request that an agent made on its own account,
// if s has the form of one.
func form(s schema) *cue {
	for name := range s.Properties {
		if _, ok := verdicts[name]; ok {
			return &cue{"form", Step{Text: string(encode(s.instance()))}}
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
