package main

import (
	"context"
	"encoding/json"

	"github.com/runnel-dev/runnel/bench/load"
)

// acp implements version 1 of the Agent Client Protocol. One prompt runs at a
// time.
type acp struct {
	out  *output
	stop context.CancelFunc // cancels the last prompt
}

func (a *acp) handle(line json.RawMessage) error {
	var in struct {
		ID     json.RawMessage
		Method string
		Params json.RawMessage
	}
	if err := json.Unmarshal(line, &in); err != nil {
		return err
	}
	answer := func(result object) error {
		return a.out.write(object{"jsonrpc": "2.0", "id": in.ID, "result": result})
	}
	switch in.Method {
	case "initialize":
		return answer(object{"protocolVersion": 1, "agentCapabilities": object{}, "authMethods": []object{}})
	case "session/new":
		return answer(object{"sessionId": sessionID})
	case "session/prompt":
		plan, _ := load.Parse(string(in.Params)) // without a plan the answer has no deltas
		ctx, stop := context.WithCancel(context.Background())
		a.stop = stop
		go func() {
			reason := "end_turn"
			if a.prompt(ctx, plan) != nil {
				reason = "cancelled"
			}
			_ = answer(object{"stopReason": reason}) // fails only if the client has ended
		}()
	case "session/cancel":
		if a.stop != nil {
			a.stop()
		}
	default:
		if in.ID != nil {
			return a.out.write(object{"jsonrpc": "2.0", "id": in.ID, "error": object{"code": -32601, "message": "method not found"}})
		}
	}
	return nil
}

func (a *acp) prompt(ctx context.Context, plan load.Plan) error {
	if plan.Tool {
		_ = startTool() // the benchmark counts the processes left
	}
	_, err := plan.Write(ctx, func(text string) error {
		return a.out.write(object{"jsonrpc": "2.0", "method": "session/update", "params": object{
			"sessionId": sessionID, "update": object{"sessionUpdate": "agent_message_chunk", "content": object{"type": "text", "text": text}},
		}})
	})
	return err
}
