package extract

import (
	"encoding/json"
	"regexp"
	"strings"
)

type codexItem struct {
	Type      string          `json:"type"`
	ID        string          `json:"id"`
	Text      string          `json:"text"`
	Summary   []string        `json:"summary"`
	Content   json.RawMessage `json:"content"`
	Command   string          `json:"command"`
	Cwd       string          `json:"cwd"`
	Output    *string         `json:"aggregatedOutput"`
	ExitCode  *int            `json:"exitCode"`
	Status    string          `json:"status"`
	Arguments json.RawMessage `json:"arguments"`
	Changes   json.RawMessage `json:"changes"`
	Result    *struct {
		Content json.RawMessage `json:"content"`
	} `json:"result"`
	Error *struct {
		Message string `json:"message"`
	} `json:"error"`
}

type codexUsage struct {
	In     int64 `json:"inputTokens"`
	Cached int64 `json:"cachedInputTokens"`
	Out    int64 `json:"outputTokens"`
}

func (u codexUsage) minus(v codexUsage) codexUsage {
	return codexUsage{u.In - v.In, u.Cached - v.Cached, u.Out - v.Out}
}

type codexLine struct {
	Method string `json:"method"`
	Params struct {
		ThreadID string    `json:"threadId"`
		ItemID   string    `json:"itemId"`
		Delta    string    `json:"delta"`
		Item     codexItem `json:"item"`
		Turn     struct {
			Status string `json:"status"`
		} `json:"turn"`
		Usage struct {
			Total codexUsage `json:"total"`
			Last  codexUsage `json:"last"`
		} `json:"tokenUsage"`
	} `json:"params"`
}

// ofCodex reads the notifications of Codex's app-server. It takes completed
// items, and the deltas of items that were interrupted.
func ofCodex(lines []line) *facts {
	f := newFacts()
	pieces := map[string]*strings.Builder{}
	var open []string
	goesOn := false                             // the process resumed an earlier conversation
	thread := ""                                // id of the conversation's thread; subagents have other threads
	total, before := codexUsage{}, codexUsage{} // usage of the thread, now and at the end of the previous turn
	for _, l := range lines {
		var c codexLine
		if json.Unmarshal([]byte(l.Line), &c) != nil {
			continue
		}
		p := &c.Params
		if l.Dir != "out" {
			switch c.Method {
			case "turn/start":
				thread = p.ThreadID
			case "thread/resume", "thread/fork":
				goesOn = true
			}
			continue
		}
		switch c.Method {
		case "item/agentMessage/delta":
			if pieces[p.ItemID] == nil {
				pieces[p.ItemID] = &strings.Builder{}
				open = append(open, p.ItemID)
			}
			pieces[p.ItemID].WriteString(p.Delta)
		case "item/completed":
			delete(pieces, p.Item.ID)
			f.codexItem(p.Item)
		case "item/started":
			switch p.Item.Type {
			case "commandExecution", "fileChange":
				f.codexItem(p.Item)
				delete(f.outputs, p.Item.ID)
			}
		case "thread/tokenUsage/updated":
			if p.ThreadID != thread {
				continue
			}
			if goesOn { // the total includes usage from before this process
				before, goesOn = p.Usage.Total.minus(p.Usage.Last), false
			}
			total = p.Usage.Total
		case "turn/started":
			if p.ThreadID == thread {
				before = total
			}
		case "turn/completed":
			if p.ThreadID != thread {
				continue
			}
			status := map[string]string{"completed": "completed", "interrupted": "cancelled", "failed": "error"}[p.Turn.Status]
			used := total.minus(before)
			f.end(status, used.In-used.Cached, used.Out)
		}
	}
	for _, id := range open {
		if piece := pieces[id]; piece != nil {
			f.text(piece.String())
		}
	}
	return f
}

// moved matches the text that Codex adds to the diff of a moved file.
var moved = regexp.MustCompile(`(\\n){2}Moved to: [^"]*`)

func (f *facts) codexItem(it codexItem) {
	if strings.HasPrefix(it.ID, "subagent-completed-") { // only reports the end of another item
		return
	}
	switch it.Type {
	case "agentMessage":
		f.text(it.Text)
	case "reasoning":
		f.thought(strings.Join(it.Summary, "\n\n"))
	case "commandExecution":
		args, _ := json.Marshal(map[string]string{"command": it.Command, "cwd": it.Cwd})
		f.calls[it.ID] = canonical(args)
		text := ""
		if it.Output != nil {
			text = *it.Output
		}
		if it.Status == "declined" && text == "" {
			text = "Not done: it was declined." // the agent gives no text here
		}
		f.outputs[it.ID] = output{text, it.Status != "completed"}
	case "fileChange":
		args, _ := json.Marshal(map[string]json.RawMessage{"changes": it.Changes})
		f.calls[it.ID] = moved.ReplaceAllString(strings.ReplaceAll(canonical(args), `"move_path":null,`, ""), "")
		f.outputs[it.ID] = output{whatever, false}
	case "plan":
		f.text(it.Text)
	case "imageView", "webSearch", "collabAgentToolCall", "subAgentActivity":
		f.calls[it.ID], f.outputs[it.ID] = whatever, output{whatever, false}
	case "mcpToolCall", "dynamicToolCall":
		f.calls[it.ID] = canonical(it.Arguments)
		switch {
		case it.Result != nil:
			f.outputs[it.ID] = output{resultText(it.Result.Content), it.Status != "completed"}
		case it.Error != nil:
			f.outputs[it.ID] = output{it.Error.Message, true}
		}
	}
}
