package rules

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/runnel-dev/runnel/store"
)

// checkSandbox checks a rule that lets sandboxes reach a path. Whether a sandbox
// may reach the path at all is checked by package sandbox, which knows the
// protected paths.
func checkSandbox(r store.Rule) (store.Rule, error) {
	switch {
	case r.Effect == store.EffectDeny:
		return r, fmt.Errorf("effect: a rule of kind %s only allows; a sandbox reaches no path outside of the project without such a rule", r.Kind)
	case r.Tool != "":
		return r, fmt.Errorf("tool: a rule of kind %s has none; it applies to all programs in the sandbox", r.Kind)
	case r.ProjectDir == "" && r.SessionID == "":
		return r, fmt.Errorf("projectDir: a rule of kind %s needs a folder or a session to which it applies", r.Kind)
	case !shown(r.SessionID, maxName):
		return r, fmt.Errorf("sessionId: at most %d bytes of printable text", maxName)
	case len(r.Pattern) > maxPath || !filepath.IsAbs(r.Pattern):
		return r, fmt.Errorf("pattern: %q is not an absolute path of at most %d bytes", r.Pattern, maxPath)
	case r.Pattern != filepath.Clean(r.Pattern) && r.Pattern != filepath.Clean(r.Pattern)+string(filepath.Separator):
		return r, errors.New("pattern: write the path without .. and without empty parts")
	}
	r.Pattern = filepath.Clean(r.Pattern)
	return r, nil
}

// A Session is a session to which rules about sandboxes can apply.
type Session struct {
	ID      string
	CLIType string
	Project string // its project directory, canonical
}

// Paths returns the rules that let the sandbox of a session reach paths outside
// of its project, oldest first.
func (s *Set) Paths(of Session) (out []store.Rule) {
	for _, r := range s.paths {
		if (r.SessionID == "" || r.SessionID == of.ID) && r.appliesTo(Call{CLIType: of.CLIType, Dir: of.Project}) {
			out = append(out, r.Rule)
		}
	}
	return out
}
