package event

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/runnel-dev/runnel/internal/text"
)

// The bounds of the strings in an event, in bytes. The engine applies them to
// every event before it appends the event to the log. The log, the catalogue
// and the result of a turn therefore stay within the bounds for any agent
// output. A translator applies the same bounds earlier to values that it keeps
// in memory itself.
//
// A label, such as a title, is cut and then ends in "…". An id, such as that of
// a model, is never cut, because a part of it could be the id of something
// else. An id that is sent back to the agent or shown to a user is dropped if
// it is too long, and a notice VALUE_TOO_LONG names its field. The id of a call
// only connects events; its SHA-256 replaces it.
//
// The arguments of calls and the texts of changes are bounded by the length of
// the line that the agent printed.
const (
	MaxItemID         = 1024     // items, approvals, choices: an event with a longer id is rejected
	MaxCallID         = 256      // calls: replaced by a hash
	MaxAgentSessionID = 1024     // the agent's id of the conversation: dropped
	MaxName           = 200      // models, modes, options, commands, tools: ids are dropped, other values cut
	MaxValue          = 1000     // values of options: dropped
	MaxPath           = 4096     // files: dropped
	MaxWord           = 100      // states, codes, kinds, media types: cut
	MaxTitle          = 300      // titles, labels, reasons to finish: cut
	MaxDescription    = 1000     // descriptions, hints, reasons to ask, steps of plans: cut
	MaxNote           = 4096     // notices, errors, reasons of decisions: cut
	MaxText           = 8 << 20  // the text of a message or of reasoning, in deltas or in the final item: cut
	MaxDetail         = 16 << 10 // the structured result of a call, JSON: dropped. See also MaxFaultDetails
)

// MaxDepth is the bound of the nesting of JSON that an agent wrote: arguments
// of calls, results and details of errors. Deeper JSON is left out; an approval
// of deeper arguments is refused, since it has to show them. Many JSON decoders
// accept no more than 128 levels, and an event or a message of a stream adds
// some around the JSON.
const MaxDepth = 100

// TooDeep reports whether JSON is nested deeper than [MaxDepth].
func TooDeep(raw json.RawMessage) bool {
	depth, quoted := 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			if depth++; depth > MaxDepth {
				return true
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return false
}

// The bounds of the lists in an event. Further elements are dropped.
const (
	MaxOffered = 500  // commands, tools, options, choices of an option, steps of a plan
	MaxFiles   = 1000 // files, changes, locations
	MaxFew     = 100  // choices of an approval, attachments, native ids
)

// MaxListed is the maximum size of the commands, and of the options, that a
// session has, in bytes of JSON, in which a character may take six. Further ones
// are dropped. Every status of the session has them.
const MaxListed = 512 << 10

// MaxOpenItems is the maximum number of items of a turn that have started and
// not ended. Every reader holds more than a kilobyte of each.
const MaxOpenItems = 10_000

// Bounded returns body within the bounds, and the names of the fields that lost
// values. The result is nil if the event must be dropped. Bounded does not
// modify data that body refers to.
func Bounded(body Body) (Body, []string) {
	var left truncatedFields
	switch b := body.(type) {
	case ItemDelta: // most events; the engine bounds the sum of an item's deltas
		if len(b.ItemID) <= MaxItemID {
			return body, nil // not b, which would be allocated again
		}
		return nil, []string{"itemId"}
	case ResponseStart:
		left.id("modelId", &b.ModelID, MaxName)
		label(&b.ProviderID, MaxWord)
		return b, left
	case ItemStart:
		return left.start(b)
	case ItemDone:
		if !left.key("itemId", b.ItemID) {
			return nil, left
		}
		b.FinalItem = left.final(b.FinalItem)
		return b, left
	case ItemError:
		b.Error = left.fault(b.Error)
		return left.keyed("itemId", b.ItemID, b)
	case ItemCancelled:
		label(&b.Reason, MaxWord)
		return left.keyed("itemId", b.ItemID, b)
	case ResponseDone:
		label(&b.Status, MaxWord)
		label(&b.FinishReason, MaxTitle)
		if b.Error != nil {
			fault := left.fault(*b.Error)
			b.Error = &fault
		}
		return b, left
	case ResponseError:
		b.Error = left.fault(b.Error)
		return b, left
	case ApprovalRequested:
		return left.approval(b)
	case ApprovalResolved:
		label(&b.Choice, MaxItemID)
		label(&b.By, MaxWord)
		label(&b.Reason, MaxNote)
		return left.keyed("approvalId", b.ApprovalID, b)
	case SessionUpdated:
		return left.session(b)
	case UsageUpdated:
		if b.RateLimit != nil {
			limit := *b.RateLimit
			label(&limit.Status, MaxWord)
			label(&limit.Kind, MaxWord)
			b.RateLimit = &limit
		}
		return b, left
	case Notice:
		label(&b.Level, MaxWord)
		label(&b.Code, MaxWord)
		label(&b.Message, MaxNote)
		return b, left
	}
	return body, left
}

// truncatedFields is a list of fields that lost values.
type truncatedFields []string

// label cuts a text that only people read to max bytes.
func label[S ~string](s *S, max int) { *s = S(text.Shorten(string(*s), max)) }

// call replaces a call id that is too long by its hash.
func call(id *string) {
	if len(*id) > MaxCallID {
		sum := sha256.Sum256([]byte(*id))
		*id = "sha256:" + hex.EncodeToString(sum[:])
	}
}

// id clears an id that is too long and records its field.
func (l *truncatedFields) id(field string, s *string, max int) {
	if len(*s) > max {
		*s = ""
		*l = append(*l, field)
	}
}

// key reports whether the id of an item, an approval or a choice is within its
// bound. It records the field if not.
func (l *truncatedFields) key(field, id string) bool {
	if len(id) <= MaxItemID {
		return true
	}
	*l = append(*l, field)
	return false
}

// keyed returns b, or nil if its id is too long.
func (l *truncatedFields) keyed(field, id string, b Body) (Body, []string) {
	if !l.key(field, id) {
		return nil, *l
	}
	return b, *l
}

// each returns those of the first max elements for which keep returns true.
// keep may change its copy of an element. each records the field if the result
// is shorter than the list.
func each[T any](l *truncatedFields, field string, list []T, max int, keep func(*T) bool) []T {
	if list == nil {
		return nil
	}
	kept := make([]T, 0, min(len(list), max))
	for _, e := range list[:min(len(list), max)] {
		if keep(&e) {
			kept = append(kept, e)
		}
	}
	if len(kept) < len(list) {
		*l = append(*l, field)
	}
	return kept
}

// fault bounds an error.
func (l *truncatedFields) fault(f Fault) Fault {
	label(&f.Code, MaxWord)
	label(&f.Message, MaxNote)
	if len(f.Details) > MaxFaultDetails || TooDeep(f.Details) {
		f.Details = nil
		*l = append(*l, "error.details")
	}
	return f
}

func (l *truncatedFields) start(b ItemStart) (Body, []string) {
	call(&b.CallID)
	call(&b.ParentCallID)
	label(&b.Name, MaxName)
	label(&b.ItemType, MaxWord)
	b.InitialContent, _ = text.Cut(b.InitialContent, MaxText)
	if within := func(k, v string) bool { return len(k) <= MaxWord && len(v) <= MaxName }; len(b.Native) > 0 {
		native := make(map[string]string)
		for k, v := range b.Native {
			if within(k, v) && len(native) < MaxFew {
				native[k] = v
			}
		}
		b.Native = native
	}
	return l.keyed("itemId", b.ItemID, b)
}

func (l *truncatedFields) final(f FinalItem) FinalItem {
	switch f := f.(type) {
	case Message:
		label(&f.Origin, MaxWord)
		if f.Origin != OriginUser { // the API bounds prompts
			f.Content, _ = text.Cut(f.Content, MaxText)
		}
		f.Attachments = each(l, "attachments", f.Attachments, MaxFew, func(a *Attachment) bool {
			label(&a.Name, MaxTitle)
			label(&a.MediaType, MaxWord)
			if !IsPictureID(a.Picture) {
				a.Picture = ""
			}
			return true
		})
		return f
	case Reasoning:
		label(&f.ProviderID, MaxWord)
		f.Content, _ = text.Cut(f.Content, MaxText)
		return f
	case FunctionCall:
		call(&f.CallID)
		label(&f.Name, MaxName)
		label(&f.Title, MaxTitle)
		label(&f.Kind, MaxWord)
		if TooDeep(f.Arguments) {
			f.Arguments = json.RawMessage("{}")
			*l = append(*l, "arguments")
		}
		f.Locations = each(l, "locations", f.Locations, MaxFiles, func(at *Location) bool { return len(at.Path) <= MaxPath })
		return f
	case FunctionCallOutput:
		return l.output(f)
	case Plan:
		f.Entries = each(l, "entries", f.Entries, MaxOffered, func(e *PlanEntry) bool {
			label(&e.Content, MaxDescription)
			label(&e.Status, MaxWord)
			label(&e.Priority, MaxWord)
			return true
		})
		return f
	}
	return f
}

func (l *truncatedFields) output(f FunctionCallOutput) FunctionCallOutput {
	call(&f.CallID)
	if all := f.Output; len(all) > MaxOutput {
		f.Output, _ = text.Cut(all, MaxOutput)
		f.Truncated, f.TotalBytes = true, max(f.TotalBytes, int64(len(all)))
	}
	if len(f.Detail) > MaxDetail || TooDeep(f.Detail) {
		f.Detail = nil
		*l = append(*l, "detail")
	}
	f.Changes = l.changes(f.Changes)
	return f
}

func (l *truncatedFields) changes(list []Change) []Change {
	return each(l, "changes", list, MaxFiles, func(c *Change) bool {
		label(&c.Kind, MaxWord)
		return len(c.Path) <= MaxPath && len(c.MovedTo) <= MaxPath
	})
}

func (l *truncatedFields) approval(b ApprovalRequested) (Body, []string) {
	a := &b.Approval
	if !l.key("approval.id", a.ID) || !l.key("approval.itemId", a.ItemID) {
		return nil, *l
	}
	if TooDeep(a.Arguments) {
		*l = append(*l, "approval.arguments")
		return nil, *l
	}
	call(&a.CallID)
	label(&a.Kind, MaxWord)
	label(&a.Title, MaxTitle)
	label(&a.ToolName, MaxName)
	label(&a.Why, MaxDescription)
	label(&a.ArgumentsDigest, MaxName)
	a.Changes = l.changes(a.Changes)
	a.Choices = each(l, "approval.choices", a.Choices, MaxFew, func(c *Choice) bool {
		label(&c.Kind, MaxWord)
		label(&c.Label, MaxTitle)
		return len(c.ID) <= MaxItemID
	})
	return b, *l
}

func (l *truncatedFields) session(b SessionUpdated) (Body, []string) {
	l.id("agentSessionId", &b.AgentSessionID, MaxAgentSessionID)
	l.id("modelId", &b.ModelID, MaxName)
	l.id("permissionMode", &b.PermissionMode, MaxName)
	label(&b.Title, MaxTitle)
	label(&b.TitleBy, MaxWord)
	label(&b.State, MaxWord)
	label(&b.Activity, MaxWord)
	left := MaxListed
	b.Commands = each(l, "commands", b.Commands, MaxOffered, func(c *AgentCommand) bool {
		label(&c.Description, MaxDescription)
		label(&c.Hint, MaxDescription)
		return len(c.Name) <= MaxName && fits(c, &left)
	})
	b.Tools = each(l, "tools", b.Tools, MaxOffered, func(name *string) bool { return len(*name) <= MaxName })
	b.Files = each(l, "files", b.Files, MaxFiles, func(f *AgentFile) bool {
		label(&f.Kind, MaxWord)
		return len(f.Path) <= MaxPath
	})
	left = MaxListed
	b.Config = each(l, "config", b.Config, MaxOffered, func(o *ConfigOption) bool { return l.option(o) && fits(o, &left) })
	if b.Restores != nil {
		b.Restores = l.settings(*b.Restores)
	}
	if len(*l) > 0 && b.isZero() {
		return nil, *l
	}
	return b, *l
}

// option bounds o in place. It reports whether the id and the value of o are
// within their bounds.
func (l *truncatedFields) option(o *ConfigOption) bool {
	label(&o.Name, MaxTitle)
	label(&o.Description, MaxDescription)
	label(&o.Category, MaxWord)
	label(&o.Type, MaxWord)
	o.Choices = each(l, "config.choices", o.Choices, MaxOffered, func(c *ConfigChoice) bool {
		label(&c.Name, MaxTitle)
		label(&c.Description, MaxDescription)
		label(&c.Group, MaxTitle)
		return len(c.Value) <= MaxValue
	})
	return len(o.ID) <= MaxName && len(o.Value) <= MaxValue
}

func (l *truncatedFields) settings(s SessionSettings) *SessionSettings {
	l.id("restores.model", &s.Model, MaxName)
	l.id("restores.permissionMode", &s.PermissionMode, MaxName)
	l.id("restores.reasoningEffort", &s.ReasoningEffort, MaxName)
	var config map[string]string
	for id, value := range s.Config {
		if len(id) > MaxName || len(value) > MaxValue || len(config) == MaxOffered {
			*l = append(*l, "restores.config")
			continue
		}
		if config == nil {
			config = make(map[string]string)
		}
		config[id] = value
	}
	s.Config = config
	l.id("restores.thinkingDisplay", &s.ThinkingDisplay, MaxName)
	if s.DisallowedTools != nil {
		kept := each(l, "restores.disallowedTools", s.DisallowedTools, MaxOffered, func(name *string) bool { return len(*name) <= MaxName })
		s.DisallowedTools = append([]string{}, kept...) // an empty list differs from an unset one
	}
	return &s
}

// isZero reports whether b changes nothing.
func (b SessionUpdated) isZero() bool {
	return b.AgentSessionID == "" && b.ModelID == "" && b.PermissionMode == "" && b.Title == "" && b.TitleBy == "" && b.Config == nil &&
		len(b.Commands) == 0 && len(b.Tools) == 0 && len(b.Files) == 0 && b.State == "" && b.Activity == "" && b.Restores == nil
}
