package acp

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/runnel-dev/runnel"
)

// Until a folder is trusted, nothing in it may run, send what is said
// elsewhere, or allow what nobody was asked for. Agents that can be told so are
// (quirks.environ, args, prepare). The others are not started in a folder that
// has what they would obey (Agent.Obeys, Agent.Reads).

// mistrust refuses a folder that the agent would obey.
func (p *provider) mistrust(opt runnel.Options) error {
	if opt.Trusted {
		return nil
	}
	found := obeyed(opt.Dir, p.agent.Obeys)
	if found == "" {
		found = leadsOut(opt.Dir, p.agent.Reads)
	}
	if found == "" {
		return nil
	}
	return runnel.Fail(runnel.SessionCreateFailed, p.DisplayName()+" would obey "+oneLine(found, 500)+", which could run commands or have files read, and cannot be told not to. "+
		"Look at it. Then trust the folder (trusted-folders in the configuration), or take it away, or choose another agent.")
}

// obeyed returns the first of these files that is in the folder or above it:
// agents look for theirs up to the root of a repository. What is in the user's
// home itself is the user's own.
func obeyed(dir string, names []string) string {
	return above(dir, names, func(path string) bool {
		_, err := os.Lstat(path)
		if entries, err := os.ReadDir(path); err == nil && len(entries) == 0 {
			return false // a sandbox leaves such a directory where it guards one
		}
		return err == nil || !errors.Is(err, fs.ErrNotExist) // what cannot be looked at may be there
	})
}

// leadsOut is obeyed of files that are read as text: those that are links to
// somewhere outside of the folder they are in.
func leadsOut(dir string, names []string) string {
	return above(dir, names, func(path string) bool {
		info, err := os.Lstat(path)
		if err != nil || info.Mode()&fs.ModeSymlink == 0 {
			return false
		}
		to, err := filepath.EvalSymlinks(path)
		in, err2 := filepath.EvalSymlinks(filepath.Dir(path))
		return err != nil || err2 != nil || !strings.HasPrefix(to, in+string(filepath.Separator))
	})
}

func above(dir string, names []string, is func(path string) bool) string {
	if len(names) == 0 {
		return ""
	}
	if dir == "" {
		dir, _ = os.Getwd() // without one there is no conversation either
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	home, _ := os.UserHomeDir() // without one, nothing is the user's own
	for dir != home {
		for _, name := range names {
			if path := filepath.Join(dir, filepath.FromSlash(name)); is(path) {
				return path
			}
		}
		up := filepath.Dir(dir)
		if up == dir {
			break
		}
		dir = up
	}
	return ""
}
