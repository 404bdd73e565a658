package acp

import (
	"cmp"
	"encoding/json"
	"time"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/translate"
)

// A qwenRecord is a line of a file of Qwen Code.
type qwenRecord struct {
	ID         string    `json:"uuid"`
	Parent     string    `json:"parentUuid"`
	At         time.Time `json:"timestamp"`
	Type       string    `json:"type"`
	Provenance string    `json:"provenance"`
	Model      string    `json:"model"`
	Message    struct {
		Parts json.RawMessage `json:"parts"`
	} `json:"message"`
	Usage *struct {
		Input    int64 `json:"promptTokenCount"`
		Output   int64 `json:"candidatesTokenCount"`
		Thoughts int64 `json:"thoughtsTokenCount"`
		Cached   int64 `json:"cachedContentTokenCount"`
	} `json:"usageMetadata"`
	Result *struct {
		CallID string          `json:"callId"`
		Status string          `json:"status"`
		Shown  json.RawMessage `json:"resultDisplay"`
	} `json:"toolCallResult"`
}

// qwenRecords returns the records of the conversation's current branch: the last
// record and those before it. A rewind begins another branch.
func qwenRecords(lines [][]byte) []qwenRecord {
	all := make([]qwenRecord, 0, len(lines))
	at := make(map[string]int, len(lines))
	for _, line := range lines {
		r := translate.DecodeLenient[qwenRecord](line)
		if _, repeated := at[r.ID]; r.ID == "" || repeated {
			continue
		}
		at[r.ID] = len(all)
		all = append(all, r)
	}
	on := make([]bool, len(all))
	for i, ok := len(all)-1, len(all) > 0; ok && !on[i]; {
		on[i] = true
		i, ok = at[all[i].Parent]
	}
	branch := all[:0]
	for i, r := range all {
		if on[i] {
			branch = append(branch, r)
		}
	}
	return branch
}

// qwenUpdates returns the updates for a file of Qwen Code, which are those of
// the agent's own replay.
func qwenUpdates(lines [][]byte) (out []storedUpdate) {
	records := qwenRecords(lines)
	model := ""
	for i, r := range records {
		add := func(kind string, fields map[string]any) {
			fields["sessionUpdate"] = kind
			out = append(out, storedUpdate{at: r.At, model: model, update: fields})
		}
		switch {
		case r.Type == "user" && r.Provenance == "real_user":
			for _, next := range records[i+1:] {
				if next.Model != "" {
					model = next.Model
					break
				}
			}
			r.prompt(add)
		case r.Type == "assistant":
			r.answer(add)
			end := storedUpdate{at: r.At, whole: true}
			if u := r.Usage; u != nil {
				end.usage = &usage{Input: u.Input, Output: u.Output, CachedRead: u.Cached, Thought: u.Thoughts}
			}
			out = append(out, end)
		case r.Type == "tool_result":
			r.result(add)
		}
	}
	return out
}

// prompt adds the updates for a prompt.
func (r qwenRecord) prompt(add func(string, map[string]any)) {
	meta := map[string]any{"qwenTranscript": map[string]any{"sourceRecordIds": []string{r.ID}}}
	for _, p := range translate.Each[geminiPart](r.Message.Parts) {
		switch {
		case p.Text != "":
			add("user_message_chunk", map[string]any{"content": map[string]any{"type": "text", "text": p.Text}, "_meta": meta})
		case p.Inline != nil:
			add("user_message_chunk", map[string]any{"content": map[string]any{"type": "image", "mimeType": p.Inline.MimeType, "data": p.Inline.Data}, "_meta": meta})
		}
	}
}

// answer adds the updates for a message of the model.
func (r qwenRecord) answer(add func(string, map[string]any)) {
	parts := translate.Each[geminiPart](r.Message.Parts)
	for _, p := range parts {
		kind := "agent_message_chunk"
		if p.Thought {
			kind = "agent_thought_chunk"
		}
		if p.Text != "" {
			add(kind, map[string]any{"content": map[string]any{"type": "text", "text": p.Text}})
		}
	}
	for _, p := range parts {
		if p.Call == nil || p.Call.Name == qwenTodos {
			continue
		}
		kind := cmp.Or(storedTools[p.Call.Name], event.KindOther)
		update := map[string]any{
			"toolCallId": p.Call.ID, "status": "in_progress", "title": p.Call.Name, "kind": kind,
			"locations": storedLocations(kind, p.Call.Args), "_meta": map[string]any{"toolName": p.Call.Name},
		}
		if translate.IsObject(p.Call.Args) {
			update["rawInput"] = p.Call.Args
		}
		add("tool_call", update)
	}
}

// qwenTodos is the tool whose calls the agent reports as a plan (recording
// plan).
const qwenTodos = "todo_write"

// result adds the update for the result of a call.
func (r qwenRecord) result(add func(string, map[string]any)) {
	if r.Result == nil {
		return
	}
	todos := translate.DecodeLenient[struct {
		Type  string `json:"type"`
		Todos []struct {
			Content string `json:"content"`
			Status  string `json:"status"`
		} `json:"todos"`
	}](r.Result.Shown)
	if todos.Type == "todo_list" {
		entries := []map[string]string{}
		for _, e := range todos.Todos {
			entries = append(entries, map[string]string{"content": e.Content, "status": e.Status, "priority": "medium"})
		}
		add("plan", map[string]any{"entries": entries})
		return
	}
	status := "failed"
	if r.Result.Status == "success" {
		status = "completed"
	}
	update := map[string]any{"toolCallId": r.Result.CallID, "status": status}
	if d, ok := storedDiff(r.Result.Shown); ok {
		update["content"] = []map[string]any{d}
	} else {
		words := ""
		for _, p := range translate.Each[geminiPart](r.Message.Parts) {
			if p.Response != nil {
				words = p.Response.text()
			}
		}
		update["content"] = []map[string]any{{"type": "content", "content": map[string]any{"type": "text", "text": words}}}
	}
	if len(r.Result.Shown) > 0 {
		update["rawOutput"] = r.Result.Shown
	}
	add("tool_call_update", update)
}
