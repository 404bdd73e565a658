package runnel

import "strings"

// CheckPrompt fails with INVALID_REQUEST if a prompt is blank and has no files,
// or contains characters that agents do not accept. field is the name of the
// prompt in the error message. attachments is the number of files of the
// prompt.
func CheckPrompt(field, text string, attachments int) error {
	if strings.TrimSpace(text) == "" && attachments == 0 {
		return Fail(InvalidRequest, field+": the prompt is blank; write something, or attach a file")
	}
	return checkText(field, text)
}

// warnOfBypass calls Options.Warn if the agent runs its tools without asking.
func warnOfBypass(opt Options) {
	if opt.PermissionMode == ModeBypass && opt.Warn != nil {
		opt.Warn("PERMISSIONS_BYPASSED", "every tool of this agent runs without asking")
	}
}
