package event_test

import (
	"encoding/json"
	"time"

	"github.com/runnel-dev/runnel/event"
	"pgregory.net/rapid"
)

// The generators draw only valid values that encoding and decoding do not
// change: nested JSON is compact, and times are in UTC.

var (
	text  = rapid.String()
	name  = rapid.StringN(1, 12, -1)
	fault = rapid.Custom(func(t *rapid.T) event.Fault {
		return event.Fault{Code: name.Draw(t, "code"), Message: text.Draw(t, "message")}
	})
	usage = rapid.Custom(func(t *rapid.T) event.Usage {
		n := rapid.Int64Min(0)
		return event.Usage{InputTokens: n.Draw(t, "in"), OutputTokens: n.Draw(t, "out"), ReasoningTokens: n.Draw(t, "r")}
	})
	change = rapid.Custom(func(t *rapid.T) event.Change {
		return event.Change{
			Path: text.Draw(t, "path"), Kind: event.ChangeUpdate, MovedTo: text.Draw(t, "moved"),
			OldText: rapid.Ptr(text, true).Draw(t, "old"), NewText: rapid.Ptr(text, true).Draw(t, "new"),
			Hunks: []event.Hunk{{OldStart: 1, NewLines: rapid.Int().Draw(t, "n"), Lines: rapid.SliceOfN(text, 1, 3).Draw(t, "lines")}},
		}
	})
	raw = rapid.Custom(func(t *rapid.T) json.RawMessage {
		data, err := json.Marshal(map[string]any{"k": text.Draw(t, "v"), "n": rapid.IntRange(-9, 9).Draw(t, "n")})
		if err != nil {
			t.Fatal(err)
		}
		return data
	})
)

// bodies has one generator for each type of event.
var bodies = map[string]*rapid.Generator[event.Body]{
	"response_start": body(func(t *rapid.T) event.Body {
		return event.ResponseStart{ModelID: text.Draw(t, "model"), ProviderID: name.Draw(t, "provider")}
	}),
	"item_start": body(func(t *rapid.T) event.Body {
		b := event.ItemStart{
			ItemID: name.Draw(t, "item"), CallID: name.Draw(t, "call"), Name: name.Draw(t, "name"),
			ItemType: rapid.SampledFrom([]event.ItemType{
				event.TypeMessage, event.TypeReasoning, event.TypeFunctionCall, event.TypeFunctionCallOutput, event.TypePlan,
			}).Draw(t, "type"),
			ParentCallID: text.Draw(t, "parent"), InitialContent: text.Draw(t, "initial"),
		}
		if rapid.Bool().Draw(t, "has native") {
			b.Native = map[string]string{"k": text.Draw(t, "native")}
		}
		return b
	}),
	"item_delta": body(func(t *rapid.T) event.Body {
		return event.ItemDelta{ItemID: name.Draw(t, "item"), DeltaContent: text.Draw(t, "delta")}
	}),
	"item_done": body(func(t *rapid.T) event.Body {
		return event.ItemDone{ItemID: name.Draw(t, "item"), FinalItem: rapid.OneOf(finals...).Draw(t, "final")}
	}),
	"item_error": body(func(t *rapid.T) event.Body {
		return event.ItemError{ItemID: name.Draw(t, "item"), Error: fault.Draw(t, "error")}
	}),
	"item_cancelled": body(func(t *rapid.T) event.Body {
		return event.ItemCancelled{ItemID: name.Draw(t, "item"), Reason: rapid.SampledFrom([]event.CancelReason{
			"", event.ReasonUserCancel, event.ReasonTimeout, event.ReasonProcessDeath,
		}).Draw(t, "reason")}
	}),
	"response_done": body(func(t *rapid.T) event.Body {
		return event.ResponseDone{
			Status:       rapid.SampledFrom([]event.TurnStatus{event.StatusCompleted, event.StatusCancelled, event.StatusError}).Draw(t, "status"),
			FinishReason: text.Draw(t, "finish"), Error: rapid.Ptr(fault, true).Draw(t, "error"), Usage: rapid.Ptr(usage, true).Draw(t, "usage"),
		}
	}),
	"response_error": body(func(t *rapid.T) event.Body { return event.ResponseError{Error: fault.Draw(t, "error")} }),
	"approval_requested": body(func(t *rapid.T) event.Body {
		return event.ApprovalRequested{Approval: event.Approval{
			ID: name.Draw(t, "id"), ItemID: text.Draw(t, "item"), CallID: text.Draw(t, "call"), Kind: event.ApprovalTool,
			Title: text.Draw(t, "title"), ToolName: text.Draw(t, "tool"), Arguments: raw.Draw(t, "args"),
			ArgumentsEditable: rapid.Bool().Draw(t, "editable"), Why: text.Draw(t, "why"),
			Changes: rapid.SliceOfN(change, 1, 2).Draw(t, "changes"),
			Choices: []event.Choice{{ID: name.Draw(t, "choice"), Kind: event.ChoiceDeny, Label: text.Draw(t, "label")}},
		}}
	}),
	"approval_resolved": body(func(t *rapid.T) event.Body {
		return event.ApprovalResolved{
			ApprovalID: name.Draw(t, "id"), Choice: name.Draw(t, "choice"), Reason: text.Draw(t, "reason"),
			By: rapid.SampledFrom([]event.Resolver{event.ByUser, event.ByPolicy, event.ByTimeout, event.ByAgent}).Draw(t, "by"),
		}
	}),
	"session_updated": body(func(t *rapid.T) event.Body {
		return event.SessionUpdated{
			AgentSessionID: text.Draw(t, "agent"), ModelID: text.Draw(t, "model"), PermissionMode: text.Draw(t, "mode"),
			Title: text.Draw(t, "title"), TitleBy: rapid.SampledFrom([]event.TitleBy{"", event.TitleByUser, event.TitleByAgent}).Draw(t, "title by"),
			Commands: []event.AgentCommand{{Name: text.Draw(t, "command")}},
			Tools:    rapid.SliceOfN(text, 1, 3).Draw(t, "tools"), Files: []event.AgentFile{{Path: text.Draw(t, "path"), Kind: "plan"}},
			Config: []event.ConfigOption{{
				ID: name.Draw(t, "option"), Name: text.Draw(t, "option name"), Type: event.ConfigSelect, Value: text.Draw(t, "value"),
				Choices: []event.ConfigChoice{{Value: text.Draw(t, "value"), Name: text.Draw(t, "choice name"), Group: text.Draw(t, "group")}},
			}},
			State: event.StateOpen, Activity: event.ActivityIdle,
		}
	}),
	"usage_updated": body(func(t *rapid.T) event.Body {
		return event.UsageUpdated{
			Usage: rapid.Ptr(usage, true).Draw(t, "usage"), ContextTokens: rapid.Int64().Draw(t, "context"),
			CostUSD:   rapid.Ptr(rapid.Float64Range(0, 1e6), true).Draw(t, "cost"),
			RateLimit: &event.RateLimit{Status: name.Draw(t, "status"), Utilization: rapid.Float64Range(0, 1).Draw(t, "used")},
		}
	}),
	"notice": body(func(t *rapid.T) event.Body {
		return event.Notice{
			Level: rapid.SampledFrom([]event.Level{event.LevelInfo, event.LevelWarning, event.LevelError}).Draw(t, "level"),
			Code:  name.Draw(t, "code"), Message: text.Draw(t, "message"),
		}
	}),
}

// finals has one generator for each type of item.
var finals = []*rapid.Generator[event.FinalItem]{
	rapid.Custom(func(t *rapid.T) event.FinalItem {
		return event.Message{
			Content: text.Draw(t, "content"), Origin: rapid.SampledFrom([]event.Origin{event.OriginUser, event.OriginAgent, event.OriginSystem}).Draw(t, "origin"),
			Attachments: []event.Attachment{{Name: text.Draw(t, "name"), MediaType: text.Draw(t, "media"), Size: rapid.Int64().Draw(t, "size")}},
		}
	}),
	rapid.Custom(func(t *rapid.T) event.FinalItem {
		return event.Reasoning{Content: text.Draw(t, "content"), ProviderID: text.Draw(t, "provider")}
	}),
	rapid.Custom(func(t *rapid.T) event.FinalItem {
		return event.FunctionCall{
			Name: name.Draw(t, "name"), CallID: name.Draw(t, "call"), Arguments: raw.Draw(t, "args"), Kind: event.KindEdit,
			Title: text.Draw(t, "title"), Locations: []event.Location{{Path: text.Draw(t, "path"), Line: rapid.Int().Draw(t, "line")}},
		}
	}),
	rapid.Custom(func(t *rapid.T) event.FinalItem {
		return event.FunctionCallOutput{
			CallID: name.Draw(t, "call"), Output: text.Draw(t, "output"), IsError: rapid.Bool().Draw(t, "failed"),
			Changes: rapid.SliceOfN(change, 1, 2).Draw(t, "changes"), ExitCode: rapid.Ptr(rapid.Int(), true).Draw(t, "exit"),
			Detail: raw.Draw(t, "detail"), Truncated: rapid.Bool().Draw(t, "cut"), TotalBytes: rapid.Int64().Draw(t, "total"),
		}
	}),
	rapid.Custom(func(t *rapid.T) event.FinalItem {
		return event.Plan{Entries: []event.PlanEntry{{Content: text.Draw(t, "content"), Status: text.Draw(t, "status"), Priority: text.Draw(t, "priority")}}}
	}),
}

func body(draw func(*rapid.T) event.Body) *rapid.Generator[event.Body] { return rapid.Custom(draw) }

// envelope draws an event with body b.
func envelope(t *rapid.T, b event.Body) event.Event {
	at := time.Unix(rapid.Int64Range(0, 1<<33).Draw(t, "seconds"), rapid.Int64Range(0, 999_999_999).Draw(t, "ns")).UTC()
	return event.Event{Session: text.Draw(t, "session"), Seq: rapid.Int64().Draw(t, "seq"), At: at, Turn: text.Draw(t, "turn"), Body: b}
}
