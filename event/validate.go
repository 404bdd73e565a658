package event

import (
	"encoding/json"
	"fmt"
	"slices"
)

// Validate returns an error that names the first invalid field of e. It checks
// e alone; the engine checks the order of the events of a turn.
func (e Event) Validate() error {
	if e.Body == nil {
		return fmt.Errorf("event: no body")
	}
	if y := e.At.UTC().Year(); y < 0 || y > 9999 {
		return fmt.Errorf("%s: timestamp: out of range", Type(e.Body))
	}
	if field, why := check(e.Body); field != "" {
		return fmt.Errorf("%s: %s: %s", Type(e.Body), field, why)
	}
	return nil
}

func check(b Body) (field, why string) {
	switch b := b.(type) {
	case ItemStart:
		return checkStart(b)
	case ItemDelta:
		return required("itemId", b.ItemID)
	case ItemDone:
		if b.ItemID == "" {
			return "itemId", "missing"
		}
		return checkFinal(b.FinalItem)
	case ItemError:
		if b.ItemID == "" {
			return "itemId", "missing"
		}
		return b.Error.check()
	case ItemCancelled:
		if b.ItemID == "" {
			return "itemId", "missing"
		}
		return oneOf("reason", b.Reason, "", ReasonUserCancel, ReasonTimeout, ReasonProcessDeath)
	case ResponseStart:
		return required("providerId", b.ProviderID)
	case ResponseDone:
		return oneOf("status", b.Status, StatusCompleted, StatusCancelled, StatusError)
	case ResponseError:
		return b.Error.check()
	case ApprovalRequested:
		return checkApproval(b.Approval)
	case ApprovalResolved:
		if b.ApprovalID == "" {
			return "approvalId", "missing"
		}
		if b.Choice == "" {
			return "choice", "missing"
		}
		return oneOf("by", b.By, ByUser, ByPolicy, ByTimeout, ByAgent)
	case SessionUpdated:
		if b.TitleBy != "" {
			if field, why := oneOf("titleBy", b.TitleBy, TitleByUser, TitleByAgent); why != "" {
				return field, why
			}
		}
		return checkConfig(b.Config)
	case Notice:
		if b.Code == "" {
			return "code", "missing"
		}
		return oneOf("level", b.Level, LevelInfo, LevelWarning, LevelError)
	}
	return "", ""
}

func checkStart(b ItemStart) (field, why string) {
	if b.ItemID == "" {
		return "itemId", "missing"
	}
	switch b.ItemType {
	case TypeMessage, TypeReasoning, TypePlan:
	case TypeFunctionCall:
		if b.Name == "" {
			return "name", "missing"
		}
		return required("callId", b.CallID)
	case TypeFunctionCallOutput:
		return required("callId", b.CallID)
	default:
		return "itemType", fmt.Sprintf("unknown %q", bounded(string(b.ItemType)))
	}
	return "", ""
}

func checkFinal(f FinalItem) (field, why string) {
	switch f := f.(type) {
	case nil:
		return "finalItem", "missing"
	case Message:
		return oneOf("finalItem.origin", f.Origin, OriginUser, OriginAgent, OriginSystem)
	case FunctionCall:
		if f.Name == "" {
			return "finalItem.name", "missing"
		}
		if f.CallID == "" {
			return "finalItem.callId", "missing"
		}
		if !json.Valid(f.Arguments) {
			return "finalItem.arguments", "not JSON"
		}
	case FunctionCallOutput:
		return required("finalItem.callId", f.CallID)
	}
	return "", ""
}

func checkConfig(options []ConfigOption) (field, why string) {
	for i, o := range options {
		if o.ID == "" {
			return fmt.Sprintf("config[%d].id", i), "missing"
		}
		if field, why = oneOf(fmt.Sprintf("config[%d].type", i), o.Type, ConfigSelect, ConfigBoolean); field != "" {
			return field, why
		}
	}
	return "", ""
}

func checkApproval(a Approval) (field, why string) {
	if a.ID == "" {
		return "approval.id", "missing"
	}
	if a.Kind == "" {
		return "approval.kind", "missing"
	}
	if len(a.Choices) == 0 {
		return "approval.choices", "empty"
	}
	for i, c := range a.Choices {
		if c.ID == "" {
			return fmt.Sprintf("approval.choices[%d].id", i), "missing"
		}
	}
	return "", ""
}

func (f Fault) check() (field, why string) {
	if n := len(f.Details); n > 0 && (n > MaxFaultDetails || f.Details[0] != '{' || !json.Valid(f.Details)) {
		return "error.details", "not a JSON object, or too large"
	}
	return required("error.code", f.Code)
}

func required(field, v string) (string, string) {
	if v == "" {
		return field, "missing"
	}
	return "", ""
}

func oneOf[T ~string](field string, v T, known ...T) (string, string) {
	if slices.Contains(known, v) {
		return "", ""
	}
	return field, fmt.Sprintf("unknown %q", bounded(string(v)))
}
