package fakemodel

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
)

// messagesRequest has the fields of a Messages request that affect the answer.
type messagesRequest struct {
	Model    string `json:"model"`
	Stream   bool   `json:"stream"`
	Messages []struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"` // a string or blocks
	} `json:"messages"`
	OutputConfig json.RawMessage `json:"output_config"`
}

// anthropic is the Messages API.
type anthropic struct{}

func (anthropic) check(b Block) error {
	return only(b, "text", "thinking", "redacted_thinking", "tool_use")
}

// read also recognises the two requests that an agent makes without a prompt:
// for a summary and for a title. These repeat the conversation with its
// directive.
func (anthropic) read(_ *http.Request, body []byte) (query, error) {
	var req messagesRequest
	if json.Unmarshal(body, &req) != nil {
		return query{}, errors.New("request is not a Messages request")
	}
	q := query{model: req.Model, stream: req.Stream, msgs: make([]message, len(req.Messages))}
	for i, m := range req.Messages {
		q.msgs[i] = message{m.Role, anthropicTexts(m.Content)}
	}
	if strings.Contains(q.last(), "create a detailed summary of") {
		q.helper = &choice{"compact", Step{Text: "<analysis>\nShort.\n</analysis>\n\n<summary>\nA summary of the conversation.\n</summary>"}}
	} else if bytes.Contains(req.OutputConfig, []byte(`"title"`)) {
		q.helper = &choice{"title", Step{Text: `{"title":"A title"}`}}
	}
	return q, nil
}

func anthropicTexts(content json.RawMessage) []string {
	var whole string
	if json.Unmarshal(content, &whole) == nil {
		return []string{whole}
	}
	var blocks []struct{ Type, Text string }
	if json.Unmarshal(content, &blocks) != nil {
		return nil
	}
	var texts []string
	for _, b := range blocks {
		if b.Type == "text" {
			texts = append(texts, b.Text)
		}
	}
	return texts
}

// message returns the envelope of the answer around content.
func (a answer) message(content any, stop any, u map[string]int64) object {
	return object{
		"id": "msg_" + a.id, "type": "message", "role": "assistant", "model": a.model,
		"content": content, "stop_reason": stop, "stop_sequence": nil, "usage": u,
	}
}

// whole returns the answer to a request without streaming.
func (anthropic) whole(a answer) object {
	content := []object{}
	for i, b := range a.step.blocks() {
		switch b.Type {
		case "thinking":
			content = append(content, object{"type": "thinking", "thinking": b.text(), "signature": b.signature()})
		case "redacted_thinking":
			content = append(content, object{"type": "redacted_thinking", "data": b.Data})
		case "tool_use":
			content = append(content, object{"type": "tool_use", "id": a.toolID(i, b), "name": b.Name, "input": b.Input})
		default:
			content = append(content, object{"type": "text", "text": b.text()})
		}
	}
	return a.message(content, a.step.stopReason(), a.usage)
}

// stream sends the answer as server-sent events.
func (d anthropic) stream(a answer, e *emitter) error {
	first := maps.Clone(a.usage)
	first["output_tokens"] = 1
	e.send("message_start", object{"message": a.message([]any{}, nil, first)})
	e.send("ping", object{})
	stop := a.step.stopReason()
	var early earlyStop
	if err := d.content(a, e); errors.As(err, &early) {
		stop = string(early)
	} else if err != nil {
		return err
	}
	e.send("message_delta", object{
		"delta": object{"stop_reason": stop, "stop_sequence": nil}, "usage": a.usage,
	})
	e.send("message_stop", object{})
	return nil
}

func (anthropic) content(a answer, e *emitter) error {
	for i, b := range a.step.blocks() {
		if err := e.applyFaults(); err != nil {
			return err
		}
		start, deltas := a.parts(i, b)
		e.send("content_block_start", object{"index": i, "content_block": start})
		for _, d := range deltas {
			err := e.delta(func() { e.send("content_block_delta", object{"index": i, "delta": d}) })
			if errors.As(err, new(earlyStop)) {
				e.send("content_block_stop", object{"index": i})
			}
			if err != nil {
				return err
			}
		}
		e.send("content_block_stop", object{"index": i})
	}
	return e.applyFaults()
}

func (anthropic) malformed() string {
	return "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"ty\n\n"
}

func (anthropic) report(e *emitter, f Fault) {
	e.send("error", object{"error": object{
		"type": cmp.Or(f.Type, "overloaded_error"), "message": cmp.Or(f.Message, "Overloaded"),
	}})
}

// parts splits a block into the object that starts it and its deltas.
func (a answer) parts(i int, b Block) (start object, deltas []object) {
	add := func(kind, field, text string, size int) {
		for _, c := range chunks(text, size) {
			deltas = append(deltas, object{"type": kind, field: c})
		}
	}
	size := a.step.Chunk
	switch b.Type {
	case "thinking":
		add("thinking_delta", "thinking", b.text(), size)
		deltas = append(deltas, object{"type": "signature_delta", "signature": b.signature()})
		return object{"type": "thinking", "thinking": "", "signature": ""}, deltas
	case "redacted_thinking":
		return object{"type": "redacted_thinking", "data": b.Data}, nil
	case "tool_use":
		deltas = append(deltas, object{"type": "input_json_delta", "partial_json": ""})
		add("input_json_delta", "partial_json", cmp.Or(b.RawInput, string(b.Input)), size)
		return object{"type": "tool_use", "id": a.toolID(i, b), "name": b.Name, "input": object{}}, deltas
	}
	add("text_delta", "text", b.text(), size)
	return object{"type": "text", "text": ""}, deltas
}

func (a answer) toolID(i int, b Block) string {
	if b.ID != "" {
		return b.ID
	}
	return fmt.Sprintf("toolu_%s_%d", a.id, i)
}

func (b Block) signature() string {
	return cmp.Or(b.Signature, "c2lnbmF0dXJl")
}

// refuse writes a failure as the API's error body.
func (anthropic) refuse(w http.ResponseWriter, f Failure) {
	kinds := map[int]string{
		400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 404: "not_found_error",
		413: "request_too_large", 429: "rate_limit_error", 500: "api_error", 529: "overloaded_error",
	}
	setHeaders(w, f.Headers)
	kind := cmp.Or(f.Type, kinds[f.Status], "api_error")
	writeJSON(w, f.Status, object{
		"type": "error", "request_id": w.Header().Get("Request-Id"),
		"error": object{"type": kind, "message": cmp.Or(f.Message, "scripted "+kind)},
	})
}

func countTokens(w http.ResponseWriter, body []byte) {
	writeJSON(w, http.StatusOK, object{"input_tokens": len(body) / 4})
}
