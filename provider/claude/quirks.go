package claude

import "regexp"

// This file has the fixed texts by which oddities of Claude Code are
// recognised. Each was seen on the wire of 2.1.197 or 2.1.330; the names in
// parentheses, here and in other files, are the recordings in testdata that
// show it.

const (
	// syntheticModel is the model of messages that the agent wrote itself
	// (api-500).
	syntheticModel = "<synthetic>"
	// noResponseRequested follows a prompt that a crash left unanswered
	// (resume-after-kill).
	noResponseRequested = "No response requested."
	// noContent is the output of a command that printed nothing, on 2.1.197
	// (clear).
	noContent = "(no content)"
	// promptTooLong is in the stored details of a failure that the result calls
	// prompt_too_long (too-long).
	promptTooLong = "prompt is too long"
	// runLogin is in the text of a failure that a login would mend.
	runLogin = "/login"
)

// Text that the harness writes in the user's place.
const (
	// interruptedByUser begins the text after an interrupted turn.
	interruptedByUser = "[Request interrupted by user"
	// taskNotification begins the text that reports the end of a background
	// task.
	taskNotification = "<task-notification>"
)

// skillDir matches the line that names the folder of a skill (skill).
var skillDir = regexp.MustCompile(`(?m)^Base directory for this skill: (.+)$`)
