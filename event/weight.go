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
		return frame + len(b.Approval.Arguments)
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
		n := len(f.Output) + len(f.Detail)
		for _, c := range f.Changes {
			n += changeWeight(c)
		}
		return n
	}
	return 0
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
