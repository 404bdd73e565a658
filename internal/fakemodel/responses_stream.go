package fakemodel

import (
	"cmp"
	"errors"
	"maps"
)

// responsesStream writes the events of one response.
type responsesStream struct {
	*emitter
	a answer
}

// event writes an event with its sequence number.
func (s responsesStream) event(name string, o object) {
	o["sequence_number"] = s.events
	s.send("response."+name, o)
}

func (responses) stream(a answer, e *emitter) error {
	s := responsesStream{e, a}
	s.event("created", object{"response": a.response("in_progress", []any{})})
	s.event("in_progress", object{"response": a.response("in_progress", []any{})})
	stop := a.step.stopReason()
	output := []object{}
	var early earlyStop
	for i, b := range a.step.blocks() {
		it, err := s.item(i, b)
		if errors.As(err, &early) {
			break
		}
		if err != nil {
			return err
		}
		output = append(output, it)
	}
	if early == "" {
		if err := e.applyFaults(); err != nil && !errors.As(err, &early) {
			return err
		}
	}
	r, complete := a.finish(cmp.Or(string(early), stop), output)
	if complete {
		s.event("completed", object{"response": r})
	} else {
		s.event("incomplete", object{"response": r})
	}
	return nil
}

// item streams one item and returns the complete item.
func (s responsesStream) item(i int, b Block) (object, error) {
	if err := s.applyFaults(); err != nil {
		return nil, err
	}
	it := s.a.item(i, b)
	begun := maps.Clone(it)
	write := func() error { return nil }
	switch it["type"] {
	case "message":
		begun["status"], begun["content"] = "in_progress", []any{}
		write = func() error { return s.message(i, it) }
	case "reasoning":
		begun["summary"] = []any{}
		write = func() error { return s.summary(i, it) }
	case "web_search_call":
		begun["status"] = "in_progress"
		write = func() error { return s.search(i, it) }
	case "function_call":
		begun["status"], begun["arguments"] = "in_progress", ""
		write = func() error { return s.input(i, it, "function_call_arguments", "arguments") }
	case "custom_tool_call":
		begun["status"], begun["input"] = "in_progress", ""
		write = func() error { return s.input(i, it, "custom_tool_call_input", "input") }
	}
	s.event("output_item.added", object{"output_index": i, "item": begun})
	if err := write(); err != nil {
		return nil, err
	}
	s.event("output_item.done", object{"output_index": i, "item": it})
	return it, nil
}

func (s responsesStream) message(i int, it object) error {
	part := it["content"].([]object)[0]
	at := func(o object) object {
		o["item_id"], o["output_index"], o["content_index"] = it["id"], i, 0
		return o
	}
	s.event("content_part.added", at(object{"part": object{"type": "output_text", "text": "", "annotations": []any{}}}))
	err := s.deltas(part["text"].(string), s.a.step.Chunk, func(piece string) {
		s.event("output_text.delta", at(object{"delta": piece}))
	})
	if err != nil {
		return err
	}
	s.event("output_text.done", at(object{"text": part["text"]}))
	s.event("content_part.done", at(object{"part": part}))
	return nil
}

func (s responsesStream) summary(i int, it object) error {
	for n, part := range it["summary"].([]object) {
		at := func(o object) object {
			o["item_id"], o["output_index"], o["summary_index"] = it["id"], i, n
			return o
		}
		s.event("reasoning_summary_part.added", at(object{"part": object{"type": "summary_text", "text": ""}}))
		err := s.deltas(part["text"].(string), s.a.step.Chunk, func(piece string) {
			s.event("reasoning_summary_text.delta", at(object{"delta": piece}))
		})
		if err != nil {
			return err
		}
		s.event("reasoning_summary_text.done", at(object{"text": part["text"]}))
		s.event("reasoning_summary_part.done", at(object{"part": part}))
	}
	return nil
}

func (s responsesStream) search(i int, it object) error {
	for _, state := range []string{"in_progress", "searching", "completed"} {
		s.event("web_search_call."+state, object{"item_id": it["id"], "output_index": i})
	}
	return nil
}

// input streams the arguments of a tool call. it is the item of the call, and
// field the name of its member that has the arguments.
func (s responsesStream) input(i int, it object, event, field string) error {
	text := it[field].(string)
	err := s.deltas(text, s.a.step.Chunk, func(piece string) {
		s.event(event+".delta", object{"item_id": it["id"], "output_index": i, "delta": piece})
	})
	if err != nil {
		return err
	}
	s.event(event+".done", object{"item_id": it["id"], "output_index": i, field: text})
	return nil
}

func (responses) malformed() string {
	return "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"unterm\n\n"
}

func (responses) report(e *emitter, f Fault) {
	code := cmp.Or(f.Type, "server_overloaded")
	message := cmp.Or(f.Message, "Overloaded")
	if f.Kind == Failed {
		e.send("response.failed", object{"sequence_number": e.events, "response": object{
			"id": "resp_failed", "object": "response", "status": "failed", "output": []any{},
			"error": object{"code": code, "message": message},
		}})
		return
	}
	e.send("error", object{"sequence_number": e.events, "code": code, "message": message, "param": nil})
}
