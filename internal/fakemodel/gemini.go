package fakemodel

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// gemini is the Gemini API.
type gemini struct{}

type geminiRequest struct {
	Contents          []geminiContent `json:"contents"`
	SystemInstruction geminiContent   `json:"systemInstruction"`
	GenerationConfig  struct {
		ResponseJSONSchema schema `json:"responseJsonSchema"`
		ResponseSchema     schema `json:"responseSchema"`
	} `json:"generationConfig"`
}

type geminiContent struct {
	Role  string `json:"role"` // user or model
	Parts []struct {
		Text string `json:"text"`
	} `json:"parts"`
}

func (c geminiContent) texts() (out []string) {
	for _, p := range c.Parts {
		if p.Text != "" {
			out = append(out, p.Text)
		}
	}
	return out
}

// gemini serves /v1beta/models/MODEL:METHOD.
func (s *Server) gemini(w http.ResponseWriter, r *http.Request, body []byte) {
	switch _, method, _ := strings.Cut(r.URL.Path, ":"); method {
	case "streamGenerateContent", "generateContent":
		s.serve(gemini{}, w, r, body)
	case "countTokens":
		writeJSON(w, http.StatusOK, object{"totalTokens": len(body) / 4})
	default:
		gemini{}.refuse(w, Failure{Status: http.StatusNotFound, Message: "no such method"})
	}
}

// check also requires that the arguments of a call are JSON, because the API
// has them as an object and not as a string.
func (gemini) check(b Block) error {
	if b.Type == "tool_use" && !json.Valid([]byte(b.arguments())) {
		return fmt.Errorf("fakemodel: this API cannot represent the input of %s", b.Name)
	}
	return only(b, "text", "thinking", "tool_use")
}

func (gemini) read(r *http.Request, body []byte) (query, error) {
	var req geminiRequest
	if json.Unmarshal(body, &req) != nil {
		return query{}, errors.New("request is not a generateContent request")
	}
	model, method, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/v1beta/models/"), ":")
	q := query{model: model, stream: method == "streamGenerateContent"}
	for _, c := range req.Contents {
		role := c.Role
		if role == "model" {
			role = "assistant"
		}
		q.msgs = append(q.msgs, message{role, c.texts()})
	}
	q.msgs = joined(q.msgs)
	g := req.GenerationConfig
	q.helper = cmp.Or(form(g.ResponseJSONSchema), form(g.ResponseSchema))
	if q.helper == nil {
		q.helper = helper(strings.Join(req.SystemInstruction.texts(), "\n"), q.last())
	}
	return q, nil
}

// finishReason returns the API's name for a stop reason.
func (gemini) finishReason(stop string) string {
	words := map[string]string{"end_turn": "STOP", "tool_use": "STOP", "max_tokens": "MAX_TOKENS", "refusal": "SAFETY"}
	return cmp.Or(words[stop], stop)
}

// chunk returns a part of the answer. stop is the stop reason in the last part;
// else "".
func (d gemini) chunk(a answer, stop string, parts ...object) object {
	in, cached, out, thoughts := a.tokens()
	candidate := object{"index": 0, "content": object{"role": "model", "parts": append([]object{}, parts...)}}
	if stop != "" {
		candidate["finishReason"] = d.finishReason(stop)
	}
	return object{
		"candidates": []object{candidate}, "modelVersion": a.model, "responseId": a.id,
		"usageMetadata": object{
			"promptTokenCount": in, "cachedContentTokenCount": cached, "candidatesTokenCount": out - thoughts,
			"thoughtsTokenCount": thoughts, "totalTokenCount": in + out,
		},
	}
}

// call returns the part that calls a tool. It has an id only if the step sets
// one.
func (gemini) call(b Block) object {
	c := object{"name": b.Name, "args": json.RawMessage(b.arguments())}
	if b.ID != "" {
		c["id"] = b.ID
	}
	return object{"functionCall": c}
}

func (d gemini) whole(a answer) object {
	var parts []object
	for _, b := range a.step.blocks() {
		switch b.Type {
		case "thinking":
			parts = append(parts, object{"text": b.text(), "thought": true})
		case "tool_use":
			parts = append(parts, d.call(b))
		default:
			parts = append(parts, object{"text": b.text()})
		}
	}
	return d.chunk(a, a.step.stopReason(), parts...)
}

func (d gemini) stream(a answer, e *emitter) error {
	stop := a.step.stopReason()
	var early earlyStop
	if err := d.content(a, e); errors.As(err, &early) {
		stop = string(early)
	} else if err != nil {
		return err
	}
	e.data(d.chunk(a, stop, object{"text": ""}))
	return nil
}

// content streams the blocks of a step. As in the API, each part of a thinking
// summary is one delta, and each call is one delta.
func (d gemini) content(a answer, e *emitter) error {
	for _, b := range a.step.blocks() {
		if err := e.applyFaults(); err != nil {
			return err
		}
		var err error
		switch b.Type {
		case "thinking":
			err = d.thoughts(a, b, e)
		case "tool_use":
			err = e.delta(func() { e.data(d.chunk(a, "", d.call(b))) })
		default:
			err = e.deltas(b.text(), a.step.Chunk, func(piece string) { e.data(d.chunk(a, "", object{"text": piece})) })
		}
		if err != nil {
			return err
		}
	}
	return e.applyFaults()
}

func (d gemini) thoughts(a answer, b Block, e *emitter) error {
	for _, part := range b.parts() {
		if err := e.delta(func() { e.data(d.chunk(a, "", object{"text": part, "thought": true})) }); err != nil {
			return err
		}
	}
	return nil
}

func (gemini) malformed() string { return "data: {\"candidates\":[{\"cont\n\n" }

func (gemini) report(e *emitter, f Fault) {
	e.data(object{"error": object{
		"code": 503, "message": cmp.Or(f.Message, "Overloaded"), "status": cmp.Or(f.Type, "UNAVAILABLE"),
	}})
}

// refuse writes a failure as the API's error body.
func (gemini) refuse(w http.ResponseWriter, f Failure) {
	words := map[int]string{
		400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND",
		429: "RESOURCE_EXHAUSTED", 500: "INTERNAL", 503: "UNAVAILABLE",
	}
	word := cmp.Or(f.Type, words[f.Status], "UNKNOWN")
	setHeaders(w, f.Headers)
	writeJSON(w, f.Status, object{"error": object{
		"code": f.Status, "message": cmp.Or(f.Message, "scripted "+word), "status": word,
	}})
}
