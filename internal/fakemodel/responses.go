package fakemodel

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// responses is the OpenAI Responses API.
type responses struct{}

// responsesRequest has the fields of a request that affect the answer.
type responsesRequest struct {
	Model        string          `json:"model"`
	Stream       bool            `json:"stream"`
	Instructions string          `json:"instructions"`
	Input        json.RawMessage `json:"input"` // a string or items
	Tools        []responsesTool `json:"tools"`
	Text         struct {
		Format struct {
			Schema schema `json:"schema"`
		} `json:"format"`
	} `json:"text"`
}

// responsesItem is one item of the input. One answer of the model is several
// items.
type responsesItem struct {
	Type    string          `json:"type"` // "" for a message
	Role    string          `json:"role"`
	ID      string          `json:"id"`
	CallID  string          `json:"call_id"`
	Content json.RawMessage `json:"content"` // a string or parts
	Tools   []responsesTool `json:"tools"`   // the tools of an item of type additional_tools
}

// responsesTool is a tool or a namespace of tools.
type responsesTool struct {
	Type  string          `json:"type"`
	Name  string          `json:"name"`
	Tools []responsesTool `json:"tools"`
}

// tools are the tools that an agent offers, by name.
type tools map[string]offered

type offered struct{ kind, namespace string }

func (ts tools) add(namespace string, offers []responsesTool) {
	for _, t := range offers {
		if t.Type == "namespace" {
			ts.add(t.Name, t.Tools)
			continue
		}
		ts[cmp.Or(t.Name, t.Type)] = offered{t.Type, namespace}
	}
}

func (responses) check(b Block) error {
	return only(b, "text", "thinking", "redacted_thinking", "tool_use", "web_search")
}

func (responses) read(_ *http.Request, body []byte) (query, error) {
	var req responsesRequest
	if json.Unmarshal(body, &req) != nil {
		return query{}, errors.New("request is not a Responses request")
	}
	q := query{model: req.Model, stream: req.Stream, usage: true, tools: tools{}}
	q.tools.add("", req.Tools)
	var text string
	var items []responsesItem
	if json.Unmarshal(req.Input, &text) == nil {
		q.msgs = []message{{"user", []string{text}}}
	} else if json.Unmarshal(req.Input, &items) != nil {
		return query{}, errors.New("input is neither a string nor items")
	}
	q.addItems(items)
	if q.helper = form(req.Text.Format.Schema); q.helper == nil {
		q.helper = helper(req.Instructions, q.last())
	}
	return q, nil
}

// addItems adds the messages of items. Consecutive items of the model form one
// message. Items that are separated by tool outputs also form one message if
// their ids show that they belong to one answer.
func (q *query) addItems(items []responsesItem) {
	speaking, answered := false, ""
	for _, it := range items {
		switch kind := cmp.Or(it.Type, "message"); {
		case kind == "additional_tools":
			q.tools.add("", it.Tools)
		case kind == "message" && it.Role != "assistant":
			q.msgs = append(q.msgs, message{it.Role, contentTexts(it.Content)})
			speaking = false
		case kind == "agent_message": // a request or a reply between agents
			q.msgs = append(q.msgs, message{"user", contentTexts(it.Content)})
			speaking = false
		case strings.HasSuffix(kind, "_output"):
			speaking = false
		default:
			id := answerID(cmp.Or(it.CallID, it.ID))
			if !speaking && (id == "" || id != answered) {
				q.msgs = append(q.msgs, message{role: "assistant"})
			}
			speaking, answered = true, cmp.Or(id, answered)
		}
	}
}

// answerID returns the part of an item's id that all items of the answer share;
// "" if this server did not make the id.
func answerID(id string) string {
	part := strings.Split(id, "_") // kind, digest, step, answer, item
	if len(part) != 5 {
		return ""
	}
	return strings.Join(part[1:4], "_")
}

// contentTexts returns the texts of content, which is a string or a list of
// parts.
func contentTexts(content json.RawMessage) []string {
	var whole string
	if json.Unmarshal(content, &whole) == nil {
		return []string{whole}
	}
	var parts []struct {
		Text      string
		Encrypted string `json:"encrypted_content"` // encrypted by the real API; here it is plain text
	}
	if json.Unmarshal(content, &parts) != nil {
		return nil
	}
	var texts []string
	for _, p := range parts {
		if text := cmp.Or(p.Text, p.Encrypted); text != "" {
			texts = append(texts, text)
		}
	}
	return texts
}

// call returns the item that calls a tool in the way in which the agent offers
// it: as a function, as a custom tool that takes text, or in JavaScript for the
// agent's tool "exec".
func (ts tools) call(b Block) object {
	t, direct := ts[b.Name]
	exec, ok := ts["exec"]
	if !direct && ok && exec.kind == "custom" {
		js := fmt.Sprintf("text(await tools.%s(%s));", b.Name, b.arguments())
		return named(object{"type": "custom_tool_call", "name": "exec", "input": js}, exec.namespace)
	}
	ns := cmp.Or(b.Namespace, t.namespace)
	var text string
	plain := b.RawInput == "" && json.Unmarshal(b.Input, &text) == nil
	switch {
	case t.kind == "custom" && plain:
		return named(object{"type": "custom_tool_call", "name": b.Name, "input": text}, ns)
	case t.kind == "custom":
		return named(object{"type": "custom_tool_call", "name": b.Name, "input": b.arguments()}, ns)
	case plain:
		return named(object{"type": "function_call", "name": b.Name, "arguments": string(encode(object{"input": text}))}, ns)
	}
	return named(object{"type": "function_call", "name": b.Name, "arguments": b.arguments()}, ns)
}

func named(item object, namespace string) object {
	if namespace != "" {
		item["namespace"] = namespace
	}
	return item
}

// item returns the complete item for a block.
func (a answer) item(i int, b Block) object {
	id := func(kind string) string { return fmt.Sprintf("%s_%s_%d", kind, a.id, i) }
	var it object
	switch b.Type {
	case "thinking", "redacted_thinking":
		summary := []object{}
		for _, part := range b.parts() {
			if b.Type == "thinking" {
				summary = append(summary, object{"type": "summary_text", "text": part})
			}
		}
		it = object{"type": "reasoning", "id": id("rs"), "summary": summary, "encrypted_content": cmp.Or(b.Data, b.signature())}
	case "tool_use":
		it = a.tools.call(b)
		it["id"], it["call_id"], it["status"] = id("fc"), cmp.Or(b.ID, id("call")), "completed"
	case "web_search":
		it = object{
			"type": "web_search_call", "id": id("ws"), "status": "completed",
			"action": object{"type": "search", "query": b.text()},
		}
	default:
		it = object{
			"type": "message", "id": id("msg"), "role": "assistant", "status": "completed",
			"content": []object{{"type": "output_text", "text": b.text(), "annotations": []any{}}},
		}
		if b.Phase != "" {
			it["phase"] = b.Phase
		}
	}
	if b.NoID {
		delete(it, "id")
	}
	return it
}

// response returns the answer with its items.
func (a answer) response(status string, output any) object {
	return object{
		"id": "resp_" + a.id, "object": "response", "created_at": 1, "status": status, "model": a.model,
		"output": output, "error": nil, "incomplete_details": nil,
	}
}

// tokens returns the usage as the OpenAI APIs count it: in includes cached, and
// out includes reasoning.
func (a answer) tokens() (in, cached, out, reasoning int64) {
	u := a.usage
	reasoning, ok := u["reasoning_tokens"]
	for _, b := range a.step.blocks() {
		if b.Type == "thinking" && !ok {
			reasoning += int64(len(b.text())+3) / 4
		}
	}
	cached = u["cache_read_input_tokens"]
	return u["input_tokens"] + cached, cached, u["output_tokens"], reasoning
}

func (a answer) responsesUsage() object {
	in, cached, out, reasoning := a.tokens()
	return object{
		"input_tokens": in, "input_tokens_details": object{"cached_tokens": cached},
		"output_tokens": out, "output_tokens_details": object{"reasoning_tokens": reasoning},
		"total_tokens": in + out,
	}
}

// finish returns the response with its usage. It reports whether the status is
// "completed".
func (a answer) finish(stop string, output []object) (object, bool) {
	reasons := map[string]string{"max_tokens": "max_output_tokens", "refusal": "content_filter"}
	status := "completed"
	if stop != "end_turn" && stop != "tool_use" {
		status = "incomplete"
	}
	r := a.response(status, output)
	r["usage"] = a.responsesUsage()
	if status == "incomplete" {
		r["incomplete_details"] = object{"reason": cmp.Or(reasons[stop], stop)}
	}
	return r, status == "completed"
}

func (responses) whole(a answer) object {
	output := []object{}
	for i, b := range a.step.blocks() {
		output = append(output, a.item(i, b))
	}
	r, _ := a.finish(a.step.stopReason(), output)
	return r
}

// refuse writes a failure as the API's error body.
func (responses) refuse(w http.ResponseWriter, f Failure) { refuseOpenAI(w, f) }

// refuseOpenAI writes a failure as the error body of both OpenAI APIs. Their
// clients use the code; the type only separates errors of the request from
// errors of the server.
func refuseOpenAI(w http.ResponseWriter, f Failure) {
	codes := map[int]string{
		401: "invalid_api_key", 404: "model_not_found", 413: "request_too_large", 429: "rate_limit_exceeded",
		500: "server_error", 503: "server_overloaded",
	}
	kind := "invalid_request_error"
	if f.Status >= 500 || f.Status == http.StatusTooManyRequests {
		kind = "server_error"
	}
	var code any
	if c := cmp.Or(f.Type, codes[f.Status]); c != "" {
		code = c
	}
	setHeaders(w, f.Headers)
	w.Header().Set("X-Request-Id", w.Header().Get("Request-Id"))
	writeJSON(w, f.Status, object{"error": object{
		"message": cmp.Or(f.Message, fmt.Sprintf("scripted %d", f.Status)), "type": kind, "param": nil, "code": code,
	}})
}
