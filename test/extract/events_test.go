package extract

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

type usage struct {
	In  int64 `json:"inputTokens"`
	Out int64 `json:"outputTokens"`
}

type printed struct {
	Type    string `json:"type"`
	TurnID  string `json:"turnId"`
	Payload struct {
		ItemID       string `json:"itemId"`
		ItemType     string `json:"itemType"`
		CallID       string `json:"callId"`
		DeltaContent string `json:"deltaContent"`
		Status       string `json:"status"`
		FinalItem    struct {
			Type      string          `json:"type"`
			Content   string          `json:"content"`
			Origin    string          `json:"origin"`
			CallID    string          `json:"callId"`
			Arguments json.RawMessage `json:"arguments"`
			Output    string          `json:"output"`
			IsError   bool            `json:"isError"`
		} `json:"finalItem"`
		Usage usage `json:"usage"`
	} `json:"payload"`
}

type item struct {
	kind, call string
	shown      strings.Builder // text of its deltas
	text       string          // final text
	done       bool
}

type eventReader struct {
	*facts
	items map[string]*item
	order []string
	used  usage // usage of the turn, as far as it is known
	// turns with a message of the agent itself; turns of subagents and background
	// tasks have none
	own map[string]bool
}

// ofEvents reads the output of `runnel translate`.
func ofEvents(lines []byte) (*facts, error) {
	r := &eventReader{facts: newFacts(), items: map[string]*item{}, own: map[string]bool{}}
	for line := range bytes.Lines(lines) {
		var ev printed
		if err := json.Unmarshal(line, &ev); err != nil {
			return nil, fmt.Errorf("%w in %.200q", err, line)
		}
		if err := r.read(&ev); err != nil {
			return nil, err
		}
	}
	for _, id := range r.order {
		it := r.items[id]
		if !it.done { // interrupted: use the text of its deltas
			it.text = it.shown.String()
		}
		switch it.kind {
		case "message":
			r.facts.text(it.text)
		case "reasoning":
			r.facts.thought(it.text)
		}
	}
	return r.facts, nil
}

func (r *eventReader) read(ev *printed) error {
	p := &ev.Payload
	it := r.items[p.ItemID]
	if it == nil {
		it = &item{}
	}
	switch ev.Type {
	case "item_start":
		r.items[p.ItemID] = &item{kind: p.ItemType, call: p.CallID}
		r.order = append(r.order, p.ItemID)
		r.own[ev.TurnID] = r.own[ev.TurnID] || !strings.Contains(p.ItemID, "/") && p.ItemType == "message"
	case "item_delta":
		it.shown.WriteString(p.DeltaContent)
	case "item_done":
		if it.kind == "" {
			return fmt.Errorf("the item %s ends without a start", p.ItemID)
		}
		it.done = true
		r.done(it, p.FinalItem.Content, p.FinalItem.Origin)
		switch p.FinalItem.Type {
		case "function_call":
			r.calls[p.FinalItem.CallID] = canonical(p.FinalItem.Arguments)
		case "function_call_output":
			r.outputs[p.FinalItem.CallID] = output{p.FinalItem.Output, p.FinalItem.IsError}
		}
	case "item_cancelled", "item_error":
		if it.kind == "function_call_output" {
			r.cut[it.call] = it.shown.String()
		}
	case "usage_updated":
		r.used = known(p.Usage, r.used)
	case "response_done", "response_error":
		if p.Status == "" {
			p.Status = "error"
		}
		if r.own[ev.TurnID] {
			used := known(p.Usage, r.used)
			r.end(p.Status, used.In, used.Out)
		}
		r.used = usage{}
	}
	return nil
}

func (r *eventReader) done(it *item, content, origin string) {
	if it.kind == "reasoning" || origin == "agent" {
		it.text = content
	}
}

func known(u, otherwise usage) usage {
	if u == (usage{}) {
		return otherwise
	}
	return u
}
