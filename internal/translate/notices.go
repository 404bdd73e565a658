package translate

import (
	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
)

// Notices that several providers emit.
var (
	// Undecodable is the notice for a line that does not follow the agent's
	// protocol.
	Undecodable = event.Notice{
		Level: event.LevelWarning, Code: "UNDECODABLE_LINE",
		Message: "The agent printed a line that is not in its protocol; it was left out.",
	}

	// BrokenStream is the notice for messages that contradict each other.
	BrokenStream = event.Notice{
		Level: event.LevelWarning, Code: "PROTOCOL_ERROR",
		Message: "The agent's messages contradict each other; a part of the answer may be missing.",
	}

	// Compacted is the notice for a conversation that the agent summarised to
	// make room in its context.
	Compacted = event.Notice{
		Level: event.LevelInfo, Code: "COMPACTED",
		Message: "The agent summarised the conversation to make room in its context.",
	}

	// Cleared is the notice for a new conversation that the agent starts in the
	// same process at its user's request.
	Cleared = event.Notice{
		Level: event.LevelInfo, Code: "CLEARED",
		Message: "The agent does not remember anything above this line.",
	}

	// ArgumentsChanged is the notice for a different question under the id of
	// an open question; see [Approvals.Changed].
	ArgumentsChanged = event.Notice{
		Level: event.LevelWarning, Code: "ARGUMENTS_CHANGED",
		Message: "The agent changed what it had asked for while the question was open; it was denied.",
	}

	// TooManyQuestions is the notice for a question that is denied because of
	// the questions that are open; see [Approvals.Full].
	TooManyQuestions = event.Notice{
		Level: event.LevelWarning, Code: "QUESTION_REFUSED",
		Message: "The agent asked more than can be shown at once; the question was denied. Answer the open questions first.",
	}

	// InterruptRefused is the notice for an interrupt that the agent rejected.
	// The session stops the agent unless the turn ends.
	InterruptRefused = event.Notice{
		Level: event.LevelWarning, Code: string(runnel.InterruptFailed),
		Message: "The agent rejected the interrupt. Runnel stops the agent unless the turn ends.",
	}

	// Bypassed is the notice for an agent that runs every tool without asking.
	Bypassed = event.Notice{
		Level: event.LevelWarning, Code: "PERMISSIONS_BYPASSED",
		Message: "Every tool runs without asking.",
	}
)

// AgentNotice returns a notice that shows text, which the agent wrote. text
// must be one line.
func AgentNotice(level event.Level, text string) event.Notice {
	return event.Notice{Level: level, Code: "AGENT_SAYS", Message: text}
}

// ArgumentsDiffer returns the notice for a call whose arguments differ from
// those of the question about it. name is the tool's name.
func ArgumentsDiffer(name string) event.Notice {
	return event.Notice{
		Level: event.LevelWarning, Code: ArgumentsChanged.Code,
		Message: "The agent reports other arguments of a call (" + name + ") than those in its permission request.",
	}
}
