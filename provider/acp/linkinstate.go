package acp

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
)

// maxState bounds the files and folders that are searched for links.
const maxState = 200_000

// geminiLink returns a link in the folders that the agent has for directories.
// The agent (0.61.0) reads all files in such a folder without asking, wherever
// the folder is. It does the same in the folder plans of the conversation that it
// continues, which lies in a folder with the conversation's id. It also writes
// there.
func geminiLink(env []string) (at, what string) {
	left := maxState
	return linkBelow(geminiStored(env), 3, &left)
}

// qwenLink returns a link in the agent's memories of a project. The agent (0.24.4)
// writes there without asking, and compares only the text of a path.
func qwenLink(env []string) (at, what string) {
	projects, left := inHome(".qwen", "projects")(env), maxState
	entries, _ := os.ReadDir(projects) // an agent in a sandbox cannot change this folder
	for _, e := range entries {
		memory := filepath.Join(projects, e.Name(), "memory")
		st, err := os.Lstat(memory)
		switch {
		case err != nil:
		case st.Mode()&fs.ModeSymlink != 0:
			return memory, isLink
		case st.IsDir():
			if at, what := linkBelow(memory, math.MaxInt, &left); at != "" {
				return at, what
			}
		}
	}
	return "", ""
}

const isLink = "is a link"

// linkBelow returns a link in a folder, or a folder that may have one; "" if there
// is none. what says for people what it is. levels is the number of levels of
// folders that linkBelow searches, the folder itself included, and left the number
// of files and folders that it may look at.
func linkBelow(dir string, levels int, left *int) (at, what string) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return dir, "cannot be listed" // the agent can enter it, and may know the names in it
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if *left--; *left < 0 {
			return dir, "has too many files to be searched for links"
		}
		if e.Type()&fs.ModeSymlink != 0 {
			return path, isLink
		}
		if e.IsDir() && levels > 1 {
			if at, what := linkBelow(path, levels-1, left); at != "" {
				return at, what
			}
		}
	}
	return "", ""
}
