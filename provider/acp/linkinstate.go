package acp

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
)

// maxState bounds the files and folders that are searched for links.
const maxState = 200_000

// A refusal is a reason not to start an agent because of a path in its state, and
// what people can do about it.
type refusal struct{ reason, next string }

var (
	isLink   = refusal{"is a link", "Remove the link"}
	isClosed = refusal{"cannot be listed, so it may have links", "Make it readable for your user, or remove it"} // the agent can enter it, and may know the names in it
	tooLarge = refusal{"has too many files to be searched for links", "Remove files from it"}
)

// geminiLink returns a link in the folders that the agent has for directories.
// The agent (0.61.0) reads all files in such a folder without asking, wherever
// the folder is. It does the same in the folder plans of the conversation that it
// continues, which lies in a folder with the conversation's id. It also writes
// there.
func geminiLink(env []string, _ string) (at string, why refusal) {
	return linkIn(geminiStored(env), 3, maxState)
}

// qwenMemories returns the folders in which the agent may have its memories of a
// session in dir. It stores them for the root of the repository, or, by a variable,
// for dir (0.24.4).
func qwenMemories(env []string, dir string) (folders []string) {
	if dir == "" {
		dir, _ = os.Getwd() // Start fails without it
	}
	of := []string{dir, repositoryAround(dir)}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		of = append(of, real, repositoryAround(real))
	}
	slices.Sort(of)
	for _, project := range slices.Compact(of) {
		folders = append(folders, inHome(".qwen", "projects", notAlphanumeric.ReplaceAllString(project, "-"), "memory")(env))
	}
	return folders
}

// qwenLink returns a link in the agent's memories of a session in dir. The agent
// (0.24.4) writes there without asking, and compares only the text of a path.
func qwenLink(env []string, dir string) (at string, why refusal) {
	for _, memory := range qwenMemories(env, dir) {
		st, err := os.Lstat(memory)
		switch {
		case err != nil:
		case st.Mode()&fs.ModeSymlink != 0:
			return memory, isLink
		case st.IsDir():
			if at, why := linkIn(memory, math.MaxInt, maxState); at != "" {
				return at, why
			}
		}
	}
	return "", refusal{}
}

// repositoryAround returns the nearest folder around dir that has an entry .git;
// dir if there is none. Like the agent, it accepts every such entry.
func repositoryAround(dir string) string {
	for root := filepath.Clean(dir); ; root = filepath.Dir(root) {
		if _, err := os.Stat(filepath.Join(root, ".git")); err == nil {
			return root
		}
		if root == filepath.Dir(root) {
			return dir
		}
	}
}

// linkIn returns a link in a folder, or a folder that may have one; "" if there is
// none. levels is the number of levels of folders that linkIn searches, the folder
// itself included, and left the number of files and folders that it may examine.
func linkIn(dir string, levels, left int) (at string, why refusal) {
	at, why = linkBelow(dir, levels, &left)
	if why == tooLarge {
		at = dir // not the folder in which the search ended
	}
	return at, why
}

// linkBelow is linkIn, except that it counts down left.
func linkBelow(dir string, levels int, left *int) (at string, why refusal) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return dir, isClosed
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if *left--; *left < 0 {
			return dir, tooLarge
		}
		if e.Type()&fs.ModeSymlink != 0 {
			return path, isLink
		}
		if e.IsDir() && levels > 1 {
			if at, why := linkBelow(path, levels-1, left); at != "" {
				return at, why
			}
		}
	}
	return "", refusal{}
}
