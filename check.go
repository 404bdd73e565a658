package runnel

import (
	"path/filepath"
	"strings"
	"unicode/utf8"
)

// checkInput refuses what cannot reach an agent as it is.
func checkInput(in *Input) error {
	switch {
	case in.Text == "" && len(in.Attachments) == 0:
		return Fail(InvalidRequest, "content: the prompt is empty")
	case strings.ContainsRune(in.Text, 0):
		return Fail(InvalidRequest, "content: the prompt holds a NUL character, which agents refuse; remove it")
	case !utf8.ValidString(in.Text):
		return Fail(InvalidRequest, "content: the prompt is not valid UTF-8")
	}
	return nil
}

// checkOptions refuses what no provider may be given. What only some agents
// cannot do is the provider's to refuse.
func checkOptions(opt Options) error {
	switch opt.PermissionMode {
	case "", ModeDefault, ModeAcceptEdits, ModePlan, ModeDontAsk:
	case ModeBypass:
		if !opt.AllowBypass {
			return Fail(InvalidRequest, "permissionMode: bypass runs every tool without asking; it has to be allowed on the server first")
		}
		if opt.Warn != nil {
			opt.Warn("PERMISSIONS_BYPASSED", "every tool of this agent runs without asking")
		}
	default:
		return Fail(InvalidRequest, "permissionMode: not one of default, acceptEdits, plan, dontAsk, bypass")
	}
	if opt.MaxTurns < 0 || opt.MaxThinkingTokens < 0 {
		return Fail(InvalidRequest, "maxTurns and maxThinkingTokens: must not be negative")
	}
	if len(opt.Config) > 100 {
		return Fail(InvalidRequest, "config: more than 100 settings")
	}
	for id, value := range opt.Config {
		if id == "" || len(id) > 200 || len(value) > 1000 {
			return Fail(InvalidRequest, "config: an id has 1 to 200 bytes, a value up to 1000")
		}
	}
	if opt.Dir != "" && !filepath.IsAbs(opt.Dir) {
		return Fail(InvalidRequest, "projectDir: must be an absolute path")
	}
	for _, d := range opt.AddDirs {
		if !filepath.IsAbs(d) {
			return Fail(InvalidRequest, "addDirs: must be absolute paths")
		}
	}
	return nil
}
