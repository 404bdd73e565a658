package claude

// What Claude Code does that its protocol would not make one expect. Each was
// seen on the wire of 2.1.197 or 2.1.329; the names in parentheses are the
// recordings in testdata that show it.

const (
	// syntheticModel is the model of messages that the agent wrote itself
	// (api-500).
	syntheticModel = "<synthetic>"
	// noResponseRequested stands after a prompt that a crash left unanswered
	// (resume-after-kill).
	noResponseRequested = "No response requested."
	// noContent is what a command printed that printed nothing, on 2.1.197
	// (clear).
	noContent = "(no content)"
)

// Text that the harness writes in the user's place.
const (
	// interruptedByUser begins what stands after a turn that was interrupted.
	interruptedByUser = "[Request interrupted by user"
	// taskNotification begins the news that a background task has ended.
	taskNotification = "<task-notification>"
	// skillDir begins how the model is told where a skill is (skill).
	skillDir = "Base directory for this skill: "
)
