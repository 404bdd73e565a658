package event

// Weight estimates how many bytes b takes in memory and on the wire. Readers
// bound by it what they hold at a time.
func Weight(b Body) int {
	const frame = 200 // everything but the texts
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
	for _, t := range []*string{c.OldText, c.NewText} {
		if t != nil {
			n += len(*t)
		}
	}
	return n
}
