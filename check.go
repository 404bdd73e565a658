package runnel

import "strings"

// CheckPrompt fails with INVALID_REQUEST if a prompt cannot reach an agent as it
// is. Field is what the caller names the text in the error; attachments is the
// number of files that come with the text.
func CheckPrompt(field, text string, attachments int) error {
	if strings.TrimSpace(text) == "" && attachments == 0 {
		return Fail(InvalidRequest, field+": the prompt is blank; write something, or attach a file")
	}
	return checkText(field, text)
}

// warnOfBypass reports that an agent asks nobody.
func warnOfBypass(opt Options) {
	if opt.PermissionMode == ModeBypass && opt.Warn != nil {
		opt.Warn("PERMISSIONS_BYPASSED", "every tool of this agent runs without asking")
	}
}
