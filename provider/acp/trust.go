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

// Nothing in an untrusted folder may run, send data elsewhere, or allow a tool.
// Some agents have a switch for that (startupQuirks.environ, prepare). The
// others are not started in an untrusted folder with files that they would obey
// (Agent.SettingsFiles, Agent.ContextFiles).

// checkTrust refuses an untrusted folder with files that the agent would obey.
func (p *provider) checkTrust(opt runnel.Options) error {
	dirs := append([]string{opt.Dir}, opt.AddDirs...)
	if opt.Trusted {
		dirs = opt.UntrustedDirs
	}
	found := ""
	for _, dir := range dirs {
		if found == "" {
			found = findSettings(dir, p.agent.SettingsFiles)
		}
		if found == "" {
			found = findLinkOutside(dir, p.agent.ContextFiles)
		}
	}
	if found == "" {
		return nil
	}
	return runnel.Fail(runnel.SessionCreateFailed, p.DisplayName()+" would obey "+text.OneLine(found, 500)+", which could run commands or have files read, and cannot be told not to. "+
		"Look at it. Then trust the folder (trusted-folders in the configuration), or take it away, or choose another agent.")
}

// findSettings returns the first of these files that is in the folder or above it.
// The user's home directory does not count: its files are the user's own.
func findSettings(dir string, names []string) string {
	return findUpward(dir, names, func(path string) bool {
		_, err := os.Lstat(path)
		if entries, err := os.ReadDir(path); err == nil && len(entries) == 0 {
			return false // a sandbox leaves an empty directory in place of a protected one
		}
		return err == nil || !errors.Is(err, fs.ErrNotExist) // an unreadable file may exist
	})
}

// findLinkOutside is like findSettings, for files and folders that the agent reads as text.
// It finds those that are, or contain, links to outside of the repository.
func findLinkOutside(dir string, names []string) string {
	return findUpward(dir, names, func(path string) bool {
		root, out, seen := repository(filepath.Dir(path)), false, 0
		_ = filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error { // a missing file is no link
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

// maxWalk bounds the files of a folder that are examined.
const maxWalk = 10_000

// findUpward looks for files in the folder and in those above it, up to the root of
// the outermost repository that holds it: agents differ in what they take for a
// repository. It looks for a name that begins with anywhere up to the root of
// the file system.
func findUpward(dir string, names []string, is func(path string) bool) string {
	if len(names) == 0 {
		return ""
	}
	if dir == "" {
		dir, _ = os.Getwd() // without it, no conversation opens either
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	home, _ := os.UserHomeDir() // without it, no directory is exempt
	if real, err := filepath.EvalSymlinks(home); err == nil {
		home = real
	}
	root := outermost(dir, home)
	for inside := true; dir != home; {
		for _, name := range names {
			name, everywhere := strings.CutPrefix(name, anyDepth)
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

// anyDepth is the prefix of names that count in every folder above.
const anyDepth = "**/"

// outermost returns the root of the outermost repository that holds the folder
// and lies below the home directory or outside of it, or the folder if there is
// none.
func outermost(dir, home string) string {
	for root, at := dir, dir; ; {
		if at == home {
			return root
		}
		if _, err := os.Lstat(filepath.Join(at, ".git")); err == nil {
			root = at
		}
		up := filepath.Dir(at)
		if up == at {
			return root
		}
		at = up
	}
}

// repository returns the root of the folder's repository, or the folder if
// there is none.
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
