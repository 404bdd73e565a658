package fakemodel

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"time"
)

// messagesRequest is the part of a Messages request that decides the answer.
type messagesRequest struct {
	Model    string `json:"model"`
	Stream   bool   `json:"stream"`
	Messages []struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"` // a string or blocks
	} `json:"messages"`
	OutputConfig json.RawMessage `json:"output_config"`
}

// answer is one Messages response, decided but not yet sent.
type answer struct {
	step  Step
	id    string
	model string
	usage map[string]int64
}

// object is a JSON object whose fields differ by type.
type object map[string]any

func (s *Server) messages(w http.ResponseWriter, r *http.Request, body []byte) {
	var req messagesRequest
	if err := json.Unmarshal(body, &req); err != nil {
		anthropicError(w, Failure{Status: http.StatusBadRequest, Message: "request is not a Messages request"})
		return
	}
	c, err := s.cue(req)
	if err != nil {
		anthropicError(w, Failure{Status: http.StatusBadRequest, Message: err.Error()})
		return
	}
	st := c.step
	if st.Hold != "" && s.Gate(st.Hold).wait(r.Context()) != nil {
		return
	}
	if pause(r.Context(), time.Duration(st.DelayMS)*time.Millisecond) != nil {
		return
	}
	setHeaders(w, st.Headers)
	if f := st.Fail; f != nil && (f.Times == 0 || s.count("fail "+c.key) <= f.Times) {
		anthropicError(w, *f)
		return
	}
	if st.Silent > 0 && s.count("silent "+c.key) <= st.Silent {
		st.Text, st.Blocks = "", nil
	}
	a := answer{
		step: st, model: cmp.Or(st.Model, req.Model),
		id:    fmt.Sprintf("msg_%s_%d", c.key, s.count("message "+c.key)),
		usage: usage(st, len(body)),
	}
	if !req.Stream {
		writeJSON(w, http.StatusOK, a.whole())
		return
	}
	faults := make([]Fault, 0, len(st.Faults))
	for i, f := range st.Faults {
		if f.Times == 0 || s.count(fmt.Sprintf("fault %s %d", c.key, i)) <= f.Times {
			faults = append(faults, f)
		}
	}
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.Header().Set("Cache-Control", "no-cache")
	e := &emitter{ctx: r.Context(), w: w, flush: http.NewResponseController(w).Flush, gate: s.Gate, pace: st.Pace, faults: faults}
	if errors.Is(a.stream(e), errBroken) {
		panic(http.ErrAbortHandler) // net/http's way to break the connection
	}
}

// cue chooses the step. The two requests that an agent makes on its own
// account, compaction and titles, are recognised first: they repeat the
// conversation, directive included.
func (s *Server) cue(req messagesRequest) (cue, error) {
	msgs := make([]message, len(req.Messages))
	for i, m := range req.Messages {
		msgs[i] = message{m.Role, anthropicTexts(m.Content)}
	}
	if n := len(msgs); n > 0 && msgs[n-1].role == "user" &&
		strings.Contains(strings.Join(msgs[n-1].texts, "\n"), "create a detailed summary of") {
		return cue{"compact", Step{Text: "<analysis>\nShort.\n</analysis>\n\n<summary>\nA summary of the conversation.\n</summary>"}}, nil
	}
	if bytes.Contains(req.OutputConfig, []byte(`"title"`)) {
		return cue{"title", Step{Text: `{"title":"A title"}`}}, nil
	}
	return choose(msgs, s.named)
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

// usage counts roughly, as the API counts exactly: what matters is that the
// numbers are stable and that a step can set them.
func usage(st Step, requestBytes int) map[string]int64 {
	out := 0
	for _, b := range st.blocks() {
		out += (len(b.text()) + len(b.Input) + len(b.RawInput) + 3) / 4
	}
	u := map[string]int64{
		"input_tokens": int64(requestBytes / 4), "cache_creation_input_tokens": 0,
		"cache_read_input_tokens": 0, "output_tokens": int64(out),
	}
	maps.Copy(u, st.Usage)
	return u
}

// message returns the envelope of the answer around content.
func (a answer) message(content any, stop any, u map[string]int64) object {
	return object{
		"id": a.id, "type": "message", "role": "assistant", "model": a.model,
		"content": content, "stop_reason": stop, "stop_sequence": nil, "usage": u,
	}
}

// whole is the answer without streaming.
func (a answer) whole() object {
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
func (a answer) stream(e *emitter) error {
	if err := pause(e.ctx, time.Duration(a.step.FirstDelayMS)*time.Millisecond); err != nil {
		return err
	}
	first := maps.Clone(a.usage)
	first["output_tokens"] = 1
	e.send("message_start", object{"message": a.message([]any{}, nil, first)})
	e.send("ping", object{})
	for i, b := range a.step.blocks() {
		start, deltas := a.parts(i, b)
		if err := e.spoil(); err != nil {
			return err
		}
		e.send("content_block_start", object{"index": i, "content_block": start})
		for _, d := range deltas {
			if err := e.delta(i, d); err != nil {
				return err
			}
		}
		e.send("content_block_stop", object{"index": i})
	}
	if err := e.spoil(); err != nil {
		return err
	}
	e.send("message_delta", object{
		"delta": object{"stop_reason": a.step.stopReason(), "stop_sequence": nil}, "usage": a.usage,
	})
	e.send("message_stop", object{})
	return nil
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
		input := b.RawInput
		if input == "" {
			input = string(b.Input)
		}
		deltas = append(deltas, object{"type": "input_json_delta", "partial_json": ""})
		add("input_json_delta", "partial_json", input, size)
		return object{"type": "tool_use", "id": a.toolID(i, b), "name": b.Name, "input": object{}}, deltas
	}
	add("text_delta", "text", b.text(), size)
	return object{"type": "text", "text": ""}, deltas
}

func (a answer) toolID(i int, b Block) string {
	if b.ID != "" {
		return b.ID
	}
	return fmt.Sprintf("toolu_%s_%d", strings.TrimPrefix(a.id, "msg_"), i)
}

func (b Block) signature() string {
	return cmp.Or(b.Signature, "c2lnbmF0dXJl")
}

func chunks(s string, size int) []string {
	if size <= 0 {
		size = 8
	}
	var out []string
	for r := []rune(s); len(r) > 0; {
		n := min(size, len(r))
		out = append(out, string(r[:n]))
		r = r[n:]
	}
	return out
}

var (
	errBroken = errors.New("fakemodel: the stream breaks here")
	errEnded  = errors.New("fakemodel: the stream ends here")
)

// emitter writes one stream of events.
type emitter struct {
	ctx    context.Context
	w      io.Writer
	flush  func() error
	gate   func(string) *Gate
	pace   int
	faults []Fault // still to come
	sent   int     // deltas
}

func (e *emitter) send(name string, o object) {
	o["type"] = name
	b, err := json.Marshal(o)
	if err != nil {
		panic(err) // all values are ours; validate has seen to Input
	}
	fmt.Fprintf(e.w, "event: %s\ndata: %s\n\n", name, b)
	e.flush()
}

func (e *emitter) delta(index int, d object) error {
	if err := e.spoil(); err != nil {
		return err
	}
	e.send("content_block_delta", object{"index": index, "delta": d})
	e.sent++
	if e.pace == 0 {
		return e.ctx.Err()
	}
	return pause(e.ctx, time.Second/time.Duration(e.pace))
}

// spoil runs the faults that are due. An error ends the stream.
func (e *emitter) spoil() error {
	for len(e.faults) > 0 && e.faults[0].After <= e.sent {
		f := e.faults[0]
		e.faults = e.faults[1:]
		switch f.Kind {
		case Stall:
			if f.Gate == "" {
				<-e.ctx.Done()
				return e.ctx.Err()
			}
			if err := e.gate(f.Gate).wait(e.ctx); err != nil {
				return err
			}
		case Malformed:
			io.WriteString(e.w, "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"ty\n\n")
			e.flush()
			return errEnded
		case ErrorEvent:
			e.send("error", object{"error": object{
				"type": cmp.Or(f.Type, "overloaded_error"), "message": cmp.Or(f.Message, "Overloaded"),
			}})
			return errEnded
		case Truncate:
			return errBroken
		case NoStop:
			return errEnded
		}
	}
	return nil
}

// anthropicError answers with the API's error body.
func anthropicError(w http.ResponseWriter, f Failure) {
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

func setHeaders(w http.ResponseWriter, h Headers) {
	for k, v := range h {
		w.Header().Set(k, v)
	}
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // all values are ours; validate has seen to Input
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(b)
}
