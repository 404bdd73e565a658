package fakemodel

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// chat is the OpenAI Chat Completions API.
type chat struct{}

type chatRequest struct {
	Model         string `json:"model"`
	Stream        bool   `json:"stream"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	Messages []struct {
		Role    string          `json:"role"` // system, developer, user, assistant or tool
		Content json.RawMessage `json:"content"`
	} `json:"messages"`
	ResponseFormat struct {
		JSONSchema struct {
			Schema schema `json:"schema"`
		} `json:"json_schema"`
	} `json:"response_format"`
}

func (chat) check(b Block) error { return only(b, "text", "thinking", "tool_use") }

func (chat) read(_ *http.Request, body []byte) (query, error) {
	var req chatRequest
	if json.Unmarshal(body, &req) != nil {
		return query{}, errors.New("request is not a Chat Completions request")
	}
	q := query{model: req.Model, stream: req.Stream, usage: req.StreamOptions.IncludeUsage}
	var instructions []string
	for _, m := range req.Messages {
		texts := contentTexts(m.Content)
		if m.Role == "system" || m.Role == "developer" {
			instructions = append(instructions, texts...)
		}
		q.msgs = append(q.msgs, message{m.Role, texts})
	}
	q.msgs = joined(q.msgs)
	if q.helper = form(req.ResponseFormat.JSONSchema.Schema); q.helper == nil {
		q.helper = helper(strings.Join(instructions, "\n"), q.last())
	}
	return q, nil
}

// joined merges consecutive messages of the assistant into one. An agent can
// send one answer back as several messages.
func joined(msgs []message) (out []message) {
	for _, m := range msgs {
		if n := len(out); n > 0 && m.role == "assistant" && out[n-1].role == "assistant" {
			continue
		}
		out = append(out, m)
	}
	return out
}

// finishReason returns the API's name for a stop reason.
func (chat) finishReason(stop string) string {
	words := map[string]string{"end_turn": "stop", "tool_use": "tool_calls", "max_tokens": "length", "refusal": "content_filter"}
	return cmp.Or(words[stop], stop)
}

func (a answer) chatUsage() object {
	in, cached, out, reasoning := a.tokens()
	return object{
		"prompt_tokens": in, "prompt_tokens_details": object{"cached_tokens": cached},
		"completion_tokens": out, "completion_tokens_details": object{"reasoning_tokens": reasoning},
		"total_tokens": in + out,
	}
}

// chunk returns the envelope of the answer or of a part of it.
func (a answer) chunk(kind string, choices ...object) object {
	return object{
		"id": "chatcmpl-" + a.id, "object": kind, "created": 1, "model": a.model,
		"choices": append([]object{}, choices...),
	}
}

func (a answer) callID(i int, b Block) string {
	return cmp.Or(b.ID, fmt.Sprintf("call_%s_%d", a.id, i))
}

func (d chat) whole(a answer) object {
	m := object{"role": "assistant", "content": ""}
	var calls []object
	for i, b := range a.step.blocks() {
		switch b.Type {
		case "thinking":
			m["reasoning_content"] = b.text()
		case "tool_use":
			calls = append(calls, object{
				"id": a.callID(i, b), "type": "function", "function": object{"name": b.Name, "arguments": b.arguments()},
			})
		default:
			m["content"] = m["content"].(string) + b.text()
		}
	}
	if calls != nil {
		m["tool_calls"] = calls
	}
	o := a.chunk("chat.completion", object{"index": 0, "message": m, "finish_reason": d.finishReason(a.step.stopReason())})
	o["usage"] = a.chatUsage()
	return o
}

func (d chat) stream(a answer, e *emitter) error {
	piece := func(delta object, reason any) {
		e.data(a.chunk("chat.completion.chunk", object{"index": 0, "delta": delta, "finish_reason": reason}))
	}
	piece(object{"role": "assistant", "content": ""}, nil)
	stop := a.step.stopReason()
	var early earlyStop
	if err := d.content(a, e, func(delta object) { piece(delta, nil) }); errors.As(err, &early) {
		stop = string(early)
	} else if err != nil {
		return err
	}
	piece(object{}, d.finishReason(stop))
	if a.query.usage {
		o := a.chunk("chat.completion.chunk")
		o["usage"] = a.chatUsage()
		e.data(o)
	}
	e.write("data: [DONE]\n\n")
	return nil
}

func (chat) content(a answer, e *emitter, piece func(delta object)) error {
	calls := 0
	for i, b := range a.step.blocks() {
		if err := e.applyFaults(); err != nil {
			return err
		}
		send, text := func(s string) { piece(object{"content": s}) }, b.text()
		switch b.Type {
		case "thinking":
			send = func(s string) { piece(object{"reasoning_content": s}) }
		case "tool_use":
			n := calls
			calls++
			piece(object{"tool_calls": []object{{
				"index": n, "id": a.callID(i, b), "type": "function", "function": object{"name": b.Name, "arguments": ""},
			}}})
			send, text = func(s string) {
				piece(object{"tool_calls": []object{{"index": n, "function": object{"arguments": s}}}})
			}, b.arguments()
		}
		if err := e.deltas(text, a.step.Chunk, send); err != nil {
			return err
		}
	}
	return e.applyFaults()
}

func (chat) malformed() string { return "data: {\"id\":\"chatcmpl\",\"choices\":[{\"del\n\n" }

func (chat) report(e *emitter, f Fault) {
	code := cmp.Or(f.Type, "server_overloaded")
	e.data(object{"error": object{"message": cmp.Or(f.Message, "Overloaded"), "type": "server_error", "param": nil, "code": code}})
}

func (chat) refuse(w http.ResponseWriter, f Failure) { refuseOpenAI(w, f) }
