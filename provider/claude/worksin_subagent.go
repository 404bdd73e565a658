package claude

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/runnel-dev/runnel/internal/agentconn"
)

const (
	longestSubagent = 1 << 20 // bytes of the file about a subagent; the agent writes some hundred
	maxSubagents    = 100_000 // files and folders of the subagents of a conversation
)

// subagentOutside returns a directory that a file about a subagent of a
// conversation names as its worktree and that is in none of own, and the file;
// "" if there is none. folder is the folder of the conversation. The agent
// creates no links among its subagents.
func subagentOutside(folder string, own []string) (file, at string) {
	left := maxSubagents
	_ = filepath.WalkDir(filepath.Join(folder, "subagents"), func(path string, d fs.DirEntry, err error) error {
		left--
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil || left == 0 || d.Type()&fs.ModeSymlink != 0:
			file, at = path, unknownDir
		case d.IsDir() || !strings.HasSuffix(path, ".meta.json"):
			return nil
		default:
			file, at = path, worktreeOfSubagent(path, own)
		}
		if at != "" {
			return fs.SkipAll
		}
		return nil
	})
	if st, err := os.Lstat(folder); err == nil && st.Mode()&fs.ModeSymlink != 0 {
		return folder, unknownDir
	}
	return file, at
}

// worktreeOfSubagent returns the directory in a file about a subagent that is in
// none of own, or unknownDir if nobody knows what the agent reads in the file.
func worktreeOfSubagent(file string, own []string) string {
	f, info, err := agentconn.OpenPlain(os.OpenFile, file)
	if err != nil {
		return "" // the agent cannot read it either
	}
	defer f.Close()
	if info.Size() > longestSubagent {
		return unknownDir
	}
	text, err := io.ReadAll(io.LimitReader(f, longestSubagent))
	if err != nil || tooDeep(text) {
		return unknownDir
	}
	for _, name := range []string{"worktreePath", "inheritedWorktreePath"} {
		if at := pathIn(text, name); at != "" && !isOwn(at, own) {
			return at
		}
	}
	return ""
}
