package acp

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/text"
)

// Until a folder is trusted, nothing in it may run, send what is said
// elsewhere, or allow what nobody was asked for. Agents that can be told so are
// (startupQuirks.environ, prepare). The others are not started in a folder that
// has what they would obey (Agent.Obeys, Agent.Reads).

// mistrust refuses a folder that the agent would obey.
func (p *provider) mistrust(opt runnel.Options) error {
	if opt.Trusted {
		return nil
	}
	found := ""
	for _, dir := range append([]string{opt.Dir}, opt.AddDirs...) {
		if found == "" {
			found = obeyed(dir, p.agent.Obeys)
		}
		if found == "" {
			found = leadsOut(dir, p.agent.Reads)
		}
	}
	if found == "" {
		return nil
	}
	return runnel.Fail(runnel.SessionCreateFailed, p.DisplayName()+" would obey "+text.OneLine(found, 500)+", which could run commands or have files read, and cannot be told not to. "+
		"Look at it. Then trust the folder (trusted-folders in the configuration), or take it away, or choose another agent.")
}

// obeyed returns the first of these files that is in the folder or above it.
// What is in the user's home itself is the user's own.
func obeyed(dir string, names []string) string {
	return above(dir, names, func(path string) bool {
		_, err := os.Lstat(path)
		if entries, err := os.ReadDir(path); err == nil && len(entries) == 0 {
			return false // a sandbox leaves such a directory where it guards one
		}
		return err == nil || !errors.Is(err, fs.ErrNotExist) // what cannot be looked at may be there
	})
}

// leadsOut is obeyed of files, and folders of them, that are read as text:
// those that are links to somewhere outside of the repository.
func leadsOut(dir string, names []string) string {
	return above(dir, names, func(path string) bool {
		root, out, seen := repository(filepath.Dir(path)), false, 0
		_ = filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error { // what is not there leads nowhere
			if seen++; seen > maxWalk || out {
				return fs.SkipAll
			}
			if err == nil && d.Type()&fs.ModeSymlink != 0 {
				to, err := filepath.EvalSymlinks(p)
				out = err == nil && to != root && !strings.HasPrefix(to, root+string(filepath.Separator))
			}
			return nil
		})
		return out || seen > maxWalk
	})
}

// maxWalk bounds how many files of a folder are looked at.
const maxWalk = 10_000

// above looks for files in the folder and in those above it: up to the root of
// its repository, or of the file system if a name begins with anywhere.
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
	root := repository(dir)
	for inside := true; dir != home; {
		for _, name := range names {
			name, everywhere := strings.CutPrefix(name, anywhere)
			if path := filepath.Join(dir, filepath.FromSlash(name)); (inside || everywhere) && is(path) {
				return path
			}
		}
		inside = inside && dir != root
		up := filepath.Dir(dir)
		if up == dir {
			break
		}
		dir = up
	}
	return ""
}

const anywhere = "**/"

// repository returns the root of the folder's repository, or the folder.
func repository(dir string) string {
	for at := dir; ; {
		if _, err := os.Lstat(filepath.Join(at, ".git")); err == nil {
			return at
		}
		up := filepath.Dir(at)
		if up == at {
			return dir
		}
		at = up
	}
}
