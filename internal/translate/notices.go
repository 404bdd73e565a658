package translate

import (
	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
)

// Notices that several providers emit, with one text each.
var (
	// Undecodable is emitted for a line that is not in the agent's protocol.
	Undecodable = event.Notice{
		Level: event.LevelWarning, Code: "UNDECODABLE_LINE",
		Message: "The agent printed a line that is not in its protocol; it was left out.",
	}

	// BrokenStream is emitted for messages that contradict each other.
	BrokenStream = event.Notice{
		Level: event.LevelWarning, Code: "PROTOCOL_ERROR",
		Message: "The agent's messages contradict each other; a part of the answer may be missing.",
	}

	// Compacted is emitted when the agent made room in its context.
	Compacted = event.Notice{
		Level: event.LevelInfo, Code: "COMPACTED",
		Message: "The agent summarised the conversation to make room in its context.",
	}

	// Cleared is emitted when the agent begins another conversation in the same
	// process, because its user told it to.
	Cleared = event.Notice{
		Level: event.LevelInfo, Code: "CLEARED",
		Message: "The agent does not remember anything above this line.",
	}

	// ArgumentsChanged is emitted when the agent asks something else under the
	// id of a question that is open; see [Approvals.Changed].
	ArgumentsChanged = event.Notice{
		Level: event.LevelWarning, Code: "ARGUMENTS_CHANGED",
		Message: "The agent changed what it had asked for while the question was open; it was denied.",
	}

	// InterruptRefused is emitted when the agent refuses an interrupt. The session
	// stops the agent unless the turn ends all the same.
	InterruptRefused = event.Notice{
		Level: event.LevelWarning, Code: string(runnel.InterruptFailed),
		Message: "The agent refused to stop. It is ended unless it stops by itself.",
	}

	// Bypassed is emitted when the agent asks nobody any more.
	Bypassed = event.Notice{
		Level: event.LevelWarning, Code: "PERMISSIONS_BYPASSED",
		Message: "Every tool runs without asking.",
	}
)

// AgentSays is a notice with words of the agent's own; text is one line.
func AgentSays(level event.Level, text string) event.Notice {
	return event.Notice{Level: level, Code: "AGENT_SAYS", Message: text}
}
