package extract

import (
	"encoding/json"
	"strings"
)

type claudeBlock struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	Thinking  string          `json:"thinking"`
	ID        string          `json:"id"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	Content   json.RawMessage `json:"content"`
	IsError   bool            `json:"is_error"`
}

type claudeUsage struct {
	In  int64 `json:"input_tokens"`
	Out int64 `json:"output_tokens"`
}

// unwrap removes the tags around an error, which are meant for the model.
var unwrap = strings.NewReplacer("<tool_use_error>", "", "</tool_use_error>", "")

type claudeLine struct {
	Type    string `json:"type"`
	Subtype string `json:"subtype"`
	Replay  bool   `json:"isReplay"`
	Message struct {
		ID      string          `json:"id"`
		Model   string          `json:"model"`
		Content json.RawMessage `json:"content"`
		Usage   claudeUsage     `json:"usage"`
	} `json:"message"`
	Event struct {
		Type    string `json:"type"`
		Index   int    `json:"index"`
		Message struct {
			ID    string      `json:"id"`
			Usage claudeUsage `json:"usage"`
		} `json:"message"`
		Usage claudeUsage `json:"usage"`
		Block claudeBlock `json:"content_block"`
		Delta struct {
			Text     string `json:"text"`
			Thinking string `json:"thinking"`
		} `json:"delta"`
	} `json:"event"`
	IsError   bool        `json:"is_error"`
	Result    string      `json:"result"`
	Reason    string      `json:"terminal_reason"`
	Usage     claudeUsage `json:"usage"`
	RequestID string      `json:"request_id"`
	Request   struct {
		Subtype string `json:"subtype"`
	} `json:"request"`
	Response struct {
		Response struct {
			Interrupt bool `json:"interrupt"`
		} `json:"response"`
	} `json:"response"`
}

// ofClaude reads the lines of Claude Code. It takes whole messages where the
// agent printed them, and the streamed deltas of blocks that were interrupted.
func ofClaude(lines []line) *facts {
	f := newFacts()
	type part struct{ text, thinking strings.Builder }
	streamed := map[string][]*part{} // by message id
	whole := map[string]int{}        // number of whole blocks of a message, by message id
	current, interrupted := "", false
	var used, message claudeUsage // usage of the turn without the streamed message, and of that message
	for _, l := range lines {
		var c claudeLine
		if json.Unmarshal([]byte(l.Line), &c) != nil {
			continue
		}
		if l.Dir == "in" {
			// The ids of requests by which runnel itself ends a turn begin with "stop-":
			// runnel stops a turn whose retries fail.
			interrupted = interrupted || c.Request.Subtype == "interrupt" && !strings.HasPrefix(c.RequestID, "stop-") || c.Response.Response.Interrupt
			continue
		}
		switch c.Type {
		case "stream_event":
			switch c.Event.Type {
			case "message_start":
				current = c.Event.Message.ID
				message = claudeUsage{used.In + c.Event.Message.Usage.In, used.Out + c.Event.Message.Usage.Out}
				used, message = message, used
			case "message_delta":
				used = claudeUsage{max(used.In, message.In+c.Event.Usage.In), message.Out + c.Event.Usage.Out}
			case "content_block_start":
				p := &part{}
				p.text.WriteString(c.Event.Block.Text)
				p.thinking.WriteString(c.Event.Block.Thinking)
				streamed[current] = append(streamed[current], p)
			case "content_block_delta":
				if ps := streamed[current]; c.Event.Index < len(ps) {
					ps[c.Event.Index].text.WriteString(c.Event.Delta.Text)
					ps[c.Event.Index].thinking.WriteString(c.Event.Delta.Thinking)
				}
			}
		case "assistant":
			if c.Message.Model == "<synthetic>" {
				continue
			}
			if len(streamed[c.Message.ID]) == 0 && whole[c.Message.ID] == 0 { // the message was not streamed
				used = claudeUsage{used.In + c.Message.Usage.In, used.Out + c.Message.Usage.Out}
			}
			for _, b := range blocks(c.Message.Content) {
				whole[c.Message.ID]++
				switch b.Type {
				case "text":
					f.text(b.Text)
				case "thinking":
					f.thought(b.Thinking)
				case "tool_use":
					f.calls[b.ID] = canonical(b.Input)
				}
			}
		case "user":
			for _, b := range blocks(c.Message.Content) {
				if b.Type == "tool_result" {
					f.outputs[b.ToolUseID] = output{unwrap.Replace(resultText(b.Content)), b.IsError}
				}
			}
		case "result":
			status := "completed"
			switch {
			case c.IsError && interrupted && c.Subtype != "success":
				status = "cancelled"
			case c.IsError:
				status = "error"
			}
			if c.Usage == (claudeUsage{}) {
				c.Usage = used
			}
			f.end(status, c.Usage.In, c.Usage.Out)
			interrupted, used = false, claudeUsage{}
		}
	}
	for id, ps := range streamed {
		for _, p := range ps[min(whole[id], len(ps)):] {
			f.text(p.text.String())
			f.thought(p.thinking.String())
		}
	}
	return f
}

func blocks(raw json.RawMessage) (bs []claudeBlock) {
	_ = json.Unmarshal(raw, &bs) // a string has no blocks
	return bs
}

// resultText returns the text of a tool's result, which is a string or a list
// of blocks.
func resultText(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	var texts []string
	for _, b := range blocks(raw) {
		if b.Type == "text" {
			texts = append(texts, b.Text)
		}
	}
	return strings.Join(texts, "\n")
}
