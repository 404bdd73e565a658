package translate

import "github.com/runnel-dev/runnel/event"

// Skips count what a translator did not translate. [Emitter] contains them. A
// translator embeds a pointer to those of its emitter, which gives it the
// methods Skipped and Unknown of an agentconn.Translator. The zero value is
// ready to use.
type Skips struct {
	messages int // number of messages without a meaning
	lines    int // number of undecodable lines
	unknown  []string
}

// Skip counts a message of the agent that has no meaning for the translator.
func (s *Skips) Skip() { s.messages++ }

// maxUnknown bounds the types of unknown messages of one line.
const maxUnknown = 16

// SkipUnknown counts a message like Skip, because the translator does not know
// messages of this type. A newer version of the agent may have added the type.
func (s *Skips) SkipUnknown(typ string) {
	s.messages++
	if len(s.unknown) < maxUnknown {
		s.unknown = append(s.unknown, typ)
	}
}

// Unknown returns the types that SkipUnknown received since the last call.
func (s *Skips) Unknown() []string {
	types := s.unknown
	s.unknown = nil
	return types
}

// SkipLine counts a line of the agent that cannot be decoded. It returns the
// notice about it, for a translator that emits one.
func (s *Skips) SkipLine() event.Notice {
	s.lines++
	return Undecodable
}

// Skipped returns how often Skip and SkipLine were called.
func (s *Skips) Skipped() (messages, lines int) { return s.messages, s.lines }
