package acp

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/translate"
)

// A geminiMessage is a message in a file of Gemini CLI. A later line with the
// same id replaces it.
type geminiMessage struct {
	ID       string          `json:"id"`
	At       time.Time       `json:"timestamp"`
	Type     string          `json:"type"`
	Content  json.RawMessage `json:"content"`
	Model    string          `json:"model"`
	Thoughts []struct {
		Subject     string `json:"subject"`
		Description string `json:"description"`
	} `json:"thoughts"`
	Tokens *struct {
		Input    int64 `json:"input"`
		Output   int64 `json:"output"`
		Cached   int64 `json:"cached"`
		Thoughts int64 `json:"thoughts"`
	} `json:"tokens"`
	Calls []geminiCall `json:"toolCalls"`
}

type geminiCall struct {
	ID          string          `json:"id"`
	Name        string          `json:"name"`
	Args        json.RawMessage `json:"args"`
	Result      json.RawMessage `json:"result"`
	Status      string          `json:"status"`
	Shown       json.RawMessage `json:"resultDisplay"`
	Description string          `json:"description"`
	DisplayName string          `json:"displayName"`
}

// A geminiPart is a part of the content of a message.
type geminiPart struct {
	Text   string `json:"text"`
	Inline *struct {
		MimeType string `json:"mimeType"`
		Data     string `json:"data"`
	} `json:"inlineData"`
	Response *geminiResponse `json:"functionResponse"`
	Thought  bool            `json:"thought"` // Qwen Code
	Call     *struct {       // Qwen Code
		ID   string          `json:"id"`
		Name string          `json:"name"`
		Args json.RawMessage `json:"args"`
	} `json:"functionCall"`
}

type geminiResponse struct {
	ID       string `json:"id"`
	Name     string `json:"name"`
	Response struct {
		Output string `json:"output"`
		Error  string `json:"error"`
	} `json:"response"`
}

func (r *geminiResponse) text() string { return cmp.Or(r.Response.Output, r.Response.Error) }

// geminiMessages returns the messages of a file. The agent forgets a prompt that
// failed or was interrupted: it then stores the list of its messages without
// that prompt (recording failure). The prompt stays in the conversation, so such
// a list only adds messages.
func geminiMessages(lines [][]byte) (all []geminiMessage) {
	at := make(map[string]int)
	put := func(m geminiMessage, replace bool) {
		i, known := at[m.ID]
		switch {
		case !known:
			at[m.ID] = len(all)
			all = append(all, m)
		case replace:
			all[i] = m
		}
	}
	for _, line := range lines {
		l := translate.DecodeLenient[struct {
			geminiMessage
			Rewind *string `json:"$rewindTo"`
			Set    struct {
				Messages []geminiMessage `json:"messages"`
			} `json:"$set"`
		}](line)
		switch {
		case l.Rewind != nil: // as the agent reads it (0.61.0, loadConversationRecord)
			for _, m := range all[at[*l.Rewind]:] {
				delete(at, m.ID)
			}
			all = all[:at[*l.Rewind]]
		case l.ID != "" && l.Type != "":
			put(l.geminiMessage, true)
		}
		for _, m := range l.Set.Messages {
			put(m, false)
		}
	}
	return all
}

// geminiUpdates returns the updates for a file of Gemini CLI, in the order in
// which the agent reports them live. A message may have calls that the model
// made later (recording tool), so the results that follow determine the place
// of a call.
func geminiUpdates(lines [][]byte) (out []storedUpdate) {
	messages := geminiMessages(lines)
	var waiting []geminiCall // without a result so far
	show := func(c geminiCall, at time.Time) {
		out = append(out, c.begin(at))
		if u, ended := c.end(at); ended {
			out = append(out, u)
		}
	}
	showAll := func(at time.Time) {
		for _, c := range waiting {
			show(c, at)
		}
		waiting = nil
	}
	for i, m := range messages {
		switch m.Type {
		case "user":
			for _, p := range translate.Each[geminiPart](m.Content) {
				if p.Response == nil {
					continue
				}
				c := geminiCall{ID: p.Response.ID, Name: p.Response.Name} // of a call that the user denied, the file has only this (recording approval-denied)
				if k := slices.IndexFunc(waiting, func(c geminiCall) bool { return c.ID == p.Response.ID }); k >= 0 {
					c = waiting[k]
					waiting = slices.Delete(waiting, k, k+1)
				}
				show(c, m.At)
			}
			if prompt := m.prompt(messages[i+1:]); len(prompt) > 0 {
				showAll(m.At)
				out = append(out, prompt...)
			}
		case "gemini":
			out = append(out, m.answer()...)
			waiting = append(waiting, m.Calls...)
		}
	}
	if n := len(messages); n > 0 {
		showAll(messages[n-1].At)
	}
	return out
}

// geminiFiles begins the text that the agent adds to a prompt with files.
const geminiFiles = "\n--- Content from referenced context ---"

// prompt returns the updates for a prompt. A message of a user may also have the
// results of calls, or what the agent tells the model about its environment.
func (m geminiMessage) prompt(after []geminiMessage) (out []storedUpdate) {
	model := ""
	if i := slices.IndexFunc(after, func(o geminiMessage) bool { return o.Model != "" }); i >= 0 {
		model = after[i].Model
	}
	add := func(content map[string]any) {
		out = append(out, storedUpdate{at: m.At, model: model, update: map[string]any{"sessionUpdate": "user_message_chunk", "messageId": m.ID, "content": content}})
	}
	parts := translate.Each[geminiPart](m.Content)
	if words := translate.DecodeLenient[string](m.Content); words != "" {
		parts = []geminiPart{{Text: words}}
	}
	uri, files := "", slices.ContainsFunc(parts, func(p geminiPart) bool { return p.Text == geminiFiles })
	for _, p := range parts {
		named, isName := strings.CutPrefix(p.Text, "\nContent from @")
		switch {
		case strings.HasPrefix(p.Text, "<session_context>"), files && p.Text == geminiFiles:
		case p.Inline != nil:
			add(map[string]any{"type": "image", "mimeType": p.Inline.MimeType, "data": p.Inline.Data})
		case files && isName:
			uri = strings.TrimSuffix(named, ":\n")
		case uri != "":
			add(map[string]any{"type": "resource", "resource": map[string]any{"uri": uri, "text": p.Text}})
			uri = ""
		case p.Text != "":
			add(map[string]any{"type": "text", "text": withoutFiles(p.Text, parts)})
		}
	}
	return out
}

// withoutFiles returns the text of a prompt without the names that the agent
// adds for the files (recording image).
func withoutFiles(text string, parts []geminiPart) string {
	for _, p := range slices.Backward(parts) {
		if uri, isName := strings.CutPrefix(p.Text, "\nContent from @"); isName {
			text = strings.TrimSuffix(text, " @"+strings.TrimSuffix(uri, ":\n"))
		}
	}
	return text
}

// answer returns the updates for a message of the model.
func (m geminiMessage) answer() (out []storedUpdate) {
	say := func(kind, text string) {
		if strings.TrimSpace(text) != "" {
			out = append(out, storedUpdate{at: m.At, update: map[string]any{"sessionUpdate": kind, "content": map[string]any{"type": "text", "text": text}}})
		}
	}
	for _, t := range m.Thoughts {
		say("agent_thought_chunk", "**"+t.Subject+"**\n"+t.Description)
	}
	words := translate.DecodeLenient[string](m.Content)
	for _, p := range translate.Each[geminiPart](m.Content) {
		words += p.Text
	}
	say("agent_message_chunk", words)
	end := storedUpdate{at: m.At, whole: true}
	if t := m.Tokens; t != nil {
		end.usage = &usage{Input: t.Input, Output: t.Output + t.Thoughts}
	}
	return append(out, end)
}

// begin returns the update for the start of a call.
func (c geminiCall) begin(at time.Time) storedUpdate {
	kind := cmp.Or(storedTools[c.Name], event.KindOther)
	update := map[string]any{
		"sessionUpdate": "tool_call", "toolCallId": c.ID, "status": "in_progress", "kind": kind,
		"title": cmp.Or(c.Description, c.DisplayName, c.Name), "locations": storedLocations(kind, c.Args),
	}
	if translate.IsObject(c.Args) {
		update["rawInput"] = c.Args
	}
	return storedUpdate{at: at, update: update}
}

// end returns the update for the result of a call. ended is false if the call
// has none.
func (c geminiCall) end(at time.Time) (u storedUpdate, ended bool) {
	status := "failed"
	switch c.Status {
	case "success":
		status = "completed"
	case "error", "cancelled":
	default:
		return u, false
	}
	return storedUpdate{at: at, update: map[string]any{
		"sessionUpdate": "tool_call_update", "toolCallId": c.ID, "status": status, "content": c.content(),
	}}, true
}

// content returns the content of a result: the change of a file, or text.
func (c geminiCall) content() []map[string]any {
	if d, ok := storedDiff(c.Shown); ok {
		return []map[string]any{d}
	}
	words := translate.DecodeLenient[string](c.Shown)
	for _, p := range translate.Each[geminiPart](c.Result) {
		if p.Response != nil && p.Response.text() != "" {
			words = shellText(p.Response.text()).plain()
		}
	}
	return []map[string]any{{"type": "content", "content": map[string]any{"type": "text", "text": words}}}
}

// storedDiff returns the change of a file that Gemini CLI and Qwen Code show as
// the result of a call.
func storedDiff(shown json.RawMessage) (content map[string]any, ok bool) {
	d := translate.DecodeLenient[struct {
		Name string  `json:"fileName"`
		Path string  `json:"filePath"`
		Old  *string `json:"originalContent"`
		New  *string `json:"newContent"`
		Made bool    `json:"isNewFile"` // Gemini CLI
	}](shown)
	path := cmp.Or(d.Path, d.Name)
	if path == "" || d.New == nil {
		return nil, false
	}
	content = map[string]any{"type": "diff", "path": path, "oldText": d.Old, "newText": *d.New}
	if d.Made {
		content["_meta"] = map[string]string{"kind": "add"}
	}
	return content, true
}
