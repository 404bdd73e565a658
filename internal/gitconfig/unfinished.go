package gitconfig

import (
	"errors"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
)

// What git does when an unfinished operation continues.
const (
	rebaseProblem   = "git runs the programs in this file when the stopped rebase continues"
	strategyProblem = "git runs a program at this path when the stopped operation continues"
	patchesProblem  = "git overwrites a file named here when the stopped series of patches continues"
)

// runLine matches a step of a rebase that runs a program.
var runLine = regexp.MustCompile(`(?m)^[ \t]*(exec|x)[ \t]`)

// unfinished reports what a stopped rebase, cherry-pick, revert or series of
// patches of a git directory would run or overwrite. The pinned settings do not
// prevent that.
func (f *finder) unfinished(dir string) {
	f.state(filepath.Join(dir, "rebase-merge", "git-rebase-todo"), rebaseProblem, runLine.Match)
	f.state(filepath.Join(dir, "rebase-merge", "strategy"), strategyProblem, func(name []byte) bool {
		return isPath("", string(name))
	})
	f.state(filepath.Join(dir, "sequencer", "opts"), strategyProblem, func(config []byte) bool {
		entries, err := f.parse(config)
		for _, e := range entries {
			if e.key == "options.strategy" && isPath("", e.value) {
				return true
			}
		}
		return err != nil
	})
	f.state(filepath.Join(dir, "rebase-apply", "apply-opt"), patchesProblem, func(options []byte) bool {
		return strings.Contains(string(options), "--b") // --build-fake-ancestor, which git lets one abbreviate
	})
}

// state reports a file of an unfinished operation if bad accepts its content,
// or if the file cannot be read.
func (f *finder) state(path, problem string, bad func(content []byte) bool) {
	switch content, err := readRegular(path, maxConfig); {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR): // there is no such operation
	case err != nil:
		f.add(Finding{File: path, Problem: reason(err)})
	case bad(content):
		f.add(Finding{File: path, Problem: problem})
	}
}
