package claude

import "regexp"

// This file has the fixed texts by which the translator recognises special
// messages of Claude Code. Each text was printed by 2.1.197 or 2.1.330. In all
// files, "recording" and a name refer to the recording in testdata that shows
// the behaviour.

const (
	// syntheticModel is the model name in messages that the agent wrote itself
	// (recording api-500).
	syntheticModel = "<synthetic>"
	// noResponseRequested is the agent's message after a prompt that was not
	// answered because of a crash (recording resume-after-kill).
	noResponseRequested = "No response requested."
	// noContent is the output of a command that printed nothing, on 2.1.197
	// (recording clear).
	noContent = "(no content)"
	// promptTooLong is part of the stored details of a failure. The live result
	// has the reason prompt_too_long instead (recording too-long).
	promptTooLong = "prompt is too long"
	// runLogin is part of the text of a failure that the user can fix with a
	// login.
	runLogin = "/login"
)

// Texts that the agent itself writes in user messages.
const (
	// interruptedByUser begins the text after an interrupted turn.
	interruptedByUser = "[Request interrupted by user"
	// taskNotification begins the text that reports the end of a background
	// task.
	taskNotification = "<task-notification>"
)

// skillDir matches the line that names the folder of a skill (recording skill).
var skillDir = regexp.MustCompile(`(?m)^Base directory for this skill: (.+)$`)
