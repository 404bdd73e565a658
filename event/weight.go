package event

// Weight estimates the size of b in memory and on the wire, in bytes. Readers
// use it to bound the events that they hold.
func Weight(b Body) int {
	const frame = 200 // everything except the texts
	switch b := b.(type) {
	case ItemDelta:
		return frame + len(b.DeltaContent)
	case ItemStart:
		return frame + len(b.InitialContent)
	case ApprovalRequested:
		return frame + len(b.Approval.Arguments) + changesWeight(b.Approval.Changes)
	case SessionUpdated:
		return frame + sessionWeight(b)
	case ItemDone:
		return frame + finalWeight(b.FinalItem)
	}
	return frame
}

func finalWeight(f FinalItem) int {
	switch f := f.(type) {
	case Message:
		return len(f.Content)
	case Reasoning:
		return len(f.Content)
	case FunctionCall:
		return len(f.Arguments)
	case FunctionCallOutput:
		return len(f.Output) + len(f.Detail) + changesWeight(f.Changes)
	case Plan:
		n := 0
		for _, e := range f.Entries {
			n += len(e.Content)
		}
		return n
	}
	return 0
}

func sessionWeight(b SessionUpdated) (n int) {
	for _, c := range b.Commands {
		n += len(c.Name) + len(c.Description) + len(c.Hint)
	}
	for _, t := range b.Tools {
		n += len(t)
	}
	for _, f := range b.Files {
		n += len(f.Path)
	}
	for _, o := range b.Config {
		n += len(o.ID) + len(o.Name) + len(o.Description) + len(o.Value)
		for _, c := range o.Choices {
			n += len(c.Value) + len(c.Name) + len(c.Description) + len(c.Group)
		}
	}
	return n
}

func changesWeight(list []Change) (n int) {
	for _, c := range list {
		n += changeWeight(c)
	}
	return n
}

func changeWeight(c Change) (n int) {
	for _, h := range c.Hunks {
		for _, l := range h.Lines {
			n += len(l)
		}
	}
	for _, e := range c.Edits {
		n += len(e.Old) + len(e.New)
	}
	for _, t := range []*string{c.OldText, c.NewText} {
		if t != nil {
			n += len(*t)
		}
	}
	return n
}
