package claude

import "github.com/runnel-dev/runnel/internal/jsonscan"

// A growth is a line with a delta of a block, the most frequent line of the
// agent.
type growth struct {
	session, parent jsonscan.Text
	index           int
	delta           delta
}

// The members of the objects of such a line. A line with other members is
// decoded as a frame.
var (
	growthFrame = []string{"type", "event", "session_id", "parent_tool_use_id", "uuid", "api_message_id"}
	growthEvent = []string{"type", "index", "delta"}
	growthDelta = []string{"type", "text", "thinking", "partial_json"}
)

// scanGrowth decodes a line with a delta of a block. It reports false for every
// other line, and for a line of an unusual form.
func scanGrowth(line []byte) (g growth, ok bool) {
	s := jsonscan.New(line)
	event := false
	s.Object(growthFrame, func(member int) {
		switch member {
		case 0:
			if !s.Text().Is("stream_event") {
				s.Fail()
			}
		case 1:
			event = true
			g.scanEvent(&s)
		case 2:
			g.session = s.Text()
		case 3:
			if !s.Null() {
				g.parent = s.Text()
			}
		default:
			s.Skip()
		}
	})
	return g, s.Done() && event && g.delta.Type != ""
}

func (g *growth) scanEvent(s *jsonscan.Scanner) {
	typed := false
	s.Object(growthEvent, func(member int) {
		switch member {
		case 0:
			if typed = true; !s.Text().Is("content_block_delta") {
				s.Fail()
			}
		case 1:
			g.index = s.Int()
		case 2:
			g.scanDelta(s)
		}
	})
	if !typed {
		s.Fail()
	}
}

func (g *growth) scanDelta(s *jsonscan.Scanner) {
	s.Object(growthDelta, func(member int) {
		text := s.Text()
		switch member {
		case 0:
			g.delta.Type = deltaType(text)
		case 1:
			g.delta.Text = text.String()
		case 2:
			g.delta.Thinking = text.String()
		case 3:
			g.delta.PartialJSON = text.String()
		}
	})
}

// deltaType returns the type of a delta with text; "" for other types.
func deltaType(t jsonscan.Text) string {
	for _, known := range []string{"text_delta", "input_json_delta", "thinking_delta"} {
		if t.Is(known) {
			return known
		}
	}
	return ""
}

// grow handles a line with a delta of a block. It does what dispatch does with
// the frame of the line, without decoding the frame. It reports false, and does
// nothing, for any other line.
func (t *translator) grow(line []byte) bool {
	g, ok := scanGrowth(line)
	if !ok || t.session.id == "" || !g.session.Is(t.session.id) || t.turns.current == nil {
		return false
	}
	if tn := t.turns.running(""); tn != nil {
		tn.thread(g.parent.String()).grow(g.index, g.delta)
	}
	t.approvals.settle()
	return true
}
