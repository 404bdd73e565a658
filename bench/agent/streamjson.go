package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/runnel-dev/runnel/bench/load"
)

// streamJSON implements Claude Code's protocol of JSON lines. A turn runs in
// its own goroutine, so that handle can interrupt it.
type streamJSON struct {
	out   *output
	turns int
	stop  context.CancelFunc // cancels the last turn
}

func (a *streamJSON) handle(line json.RawMessage) error {
	var in struct {
		Type      string
		RequestID string `json:"request_id"`
		Request   struct{ Subtype string }
		Message   struct{ Content json.RawMessage }
	}
	if err := json.Unmarshal(line, &in); err != nil {
		return err
	}
	switch in.Type {
	case "control_request":
		if in.Request.Subtype == "interrupt" && a.stop != nil {
			a.stop()
		}
		return a.out.write(object{"type": "control_response", "response": object{
			"subtype": "success", "request_id": in.RequestID, "response": object{"commands": []object{}, "models": []object{}},
		}})
	case "user":
		plan, _ := load.Parse(string(in.Message.Content)) // without a plan the answer has no deltas
		a.turns++
		ctx, stop := context.WithCancel(context.Background())
		a.stop = stop
		go a.turn(ctx, "msg_"+strconv.Itoa(a.turns), plan)
	}
	return nil
}

const sessionID = "00000000-0000-4000-8000-000000000000"

// turn writes the answer of one turn. It ignores write errors, which mean that
// the client has ended.
func (a *streamJSON) turn(ctx context.Context, id string, plan load.Plan) {
	if plan.Tool {
		_ = startTool() // the benchmark counts the processes left
	}
	write := func(fields object) {
		fields["session_id"] = sessionID
		_ = a.out.write(fields)
	}
	stream := func(event object) error {
		return a.out.write(object{
			"type": "stream_event", "event": event, "parent_tool_use_id": nil, "session_id": sessionID, "uuid": sessionID, "api_message_id": id,
		})
	}
	for i := range plan.Items {
		write(object{"type": "assistant", "parent_tool_use_id": nil, "message": object{
			"id": id + "_" + strconv.Itoa(i), "type": "message", "role": "assistant", "model": "bench", "stop_reason": nil,
			"content": []object{{"type": "text", "text": fmt.Sprintf("Item %d: a paragraph with `code` and **bold** text.", i)}},
			"usage":   object{"input_tokens": 1, "output_tokens": 1},
		}})
	}
	message := object{"id": id, "type": "message", "role": "assistant", "model": "bench", "content": []object{}, "stop_reason": nil, "usage": object{"input_tokens": 1, "output_tokens": 1}}
	write(object{"type": "system", "subtype": "init", "model": "bench", "tools": []string{}, "permissionMode": "default", "claude_code_version": "2.1.329"})
	_ = stream(object{"type": "message_start", "message": message})
	_ = stream(object{"type": "content_block_start", "index": 0, "content_block": object{"type": "text", "text": ""}})
	var said strings.Builder
	n, err := plan.Write(ctx, func(text string) error {
		said.WriteString(text)
		return stream(object{"type": "content_block_delta", "index": 0, "delta": object{"type": "text_delta", "text": text}})
	})
	message["content"] = []object{{"type": "text", "text": said.String()}}
	write(object{"type": "assistant", "message": message, "parent_tool_use_id": nil})
	_ = stream(object{"type": "content_block_stop", "index": 0})
	usage := object{"input_tokens": 1, "output_tokens": n}
	_ = stream(object{"type": "message_delta", "delta": object{"stop_reason": "end_turn"}, "usage": usage})
	_ = stream(object{"type": "message_stop"})
	if err != nil {
		write(object{"type": "result", "subtype": "error_during_execution", "is_error": true, "terminal_reason": "aborted_streaming", "errors": []string{}})
		return
	}
	write(object{"type": "result", "subtype": "success", "is_error": false, "terminal_reason": "completed", "stop_reason": "end_turn", "result": said.String(), "usage": usage})
}
