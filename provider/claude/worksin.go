package claude

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/agentconn"
	"github.com/runnel-dev/runnel/internal/jsonl"
	"github.com/runnel-dev/runnel/internal/subpath"
	"github.com/runnel-dev/runnel/internal/text"
)

// unknownDir stands for the directory in a file that the agent may read
// differently.
const unknownDir = "an unknown directory"

// longestRecord bounds a line of a conversation's file that checkWorkDir can read,
// in bytes. The longest ones have images.
const longestRecord = 64 << 20

// checkWorkDir fails if Claude Code would continue a conversation in a directory
// outside of the session's folder and of the worktrees that it makes in its
// repository. The agent (2.1.330) changes to the last worktree that the
// conversation's file names, and then reads there without asking. It continues a
// subagent of the conversation in the worktree that the subagent's file names. An
// agent in a sandbox can write the files of all conversations of its project,
// also of those that continue outside of a sandbox.
func checkWorkDir(env []string, opt runnel.Options) error {
	home := configDir(env)
	if opt.Resume == "" || opt.Sandbox.IsOn() || home == "" {
		return nil
	}
	root, err := openConversations(home)
	if root == nil {
		return err
	}
	defer root.Close()
	dir := opt.Dir
	if dir == "" {
		dir, _ = os.Getwd() // Start fails without it
	}
	own := ownDirs(dir)
	for _, name := range inFolders(root, opt.Resume+".jsonl") {
		file := filepath.Join(home, "projects", filepath.FromSlash(name))
		if at := worksOutside(file, own); at != "" {
			return worksElsewhere("the conversation's file "+file, at)
		}
	}
	for _, name := range inFolders(root, opt.Resume) {
		folder := filepath.Join(home, "projects", filepath.FromSlash(name))
		if file, at := subagentOutside(folder, own); at != "" {
			return worksElsewhere("the file of a subagent, "+file+",", at)
		}
	}
	return nil
}

// openConversations opens the folder with all conversations; nil if the agent has
// stored none. It fails if the folder cannot be listed: the agent can still open
// files in it whose names it knows, and an agent in a sandbox of kind files can
// change the mode of the folder.
func openConversations(home string) (*os.Root, error) {
	folder := filepath.Join(home, "projects")
	root, err := agentconn.OpenFolder(folder)
	if err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return root, nil
	}
	return nil, runnel.Fail(runnel.WorkingRootConflict, folder+" cannot be listed, so Runnel cannot check where the conversation lets the agent work. Make the folder readable for your user: chmod u+rx "+folder, err)
}

// worksElsewhere is the error for a file that lets the agent work in the
// directory at.
func worksElsewhere(what, at string) error {
	return runnel.Fail(runnel.WorkingRootConflict, what+" lets the agent work in "+text.OneLine(at, 300)+
		", which is neither in this session's folder nor in .claude/worktrees of its repository. If you made no worktree there, something else wrote that, such as an agent in a sandbox. Create a new session")
}

// ownDirs returns the directory of a session, and the folders in which the agent
// makes worktrees for it.
func ownDirs(dir string) []string {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	own := []string{dir}
	for _, repository := range repositoriesOf(dir) {
		own = append(own, filepath.Join(repository, ".claude", "worktrees"))
	}
	return own
}

// isOwn reports whether a directory lies in one of own. Like the agent, it
// follows links.
func isOwn(at string, own []string) bool {
	if real, err := filepath.EvalSymlinks(at); err == nil {
		at = real
	}
	return slices.ContainsFunc(own, func(of string) bool { return subpath.Within(at, of) })
}

// worksOutside returns a directory that a conversation's file names as the
// agent's worktree and that is in none of own; "" if there is none.
func worksOutside(file string, own []string) string {
	f, _, err := agentconn.OpenPlain(os.OpenFile, file)
	if err != nil {
		return "" // the agent cannot read it either
	}
	defer f.Close()
	for r := jsonl.NewReader(f, longestRecord); ; {
		line, err := r.Next()
		if _, long := errors.AsType[*jsonl.TooLongError](err); long {
			return unknownDir // nobody knows what the line says
		}
		if err != nil && (!errors.Is(err, io.EOF) || len(line) == 0) {
			return ""
		}
		if at := worktreeIn(line); at != "" && !isOwn(at, own) {
			return at
		}
	}
}

// worktreeIn returns the path of the worktree in a line of a conversation's file;
// "" if there is none. Like the agent, it reads the last of several members with
// the same name, and none whose name has other capital letters.
func worktreeIn(line []byte) string {
	if !bytes.Contains(line, []byte("worktreePath")) && !bytes.Contains(line, []byte(`\u`)) { // which may be part of a name
		return ""
	}
	if tooDeep(line) {
		return unknownDir // the agent may read deeper values than this package
	}
	return pathIn(member(line, "worktreeSession"), "worktreePath")
}

// pathIn returns the member of a JSON object that is a path; "" if there is
// none, or one of another type.
func pathIn(object json.RawMessage, name string) (path string) {
	_ = json.Unmarshal(member(object, name), &path)
	return path
}

// tooDeep reports whether a text may be JSON that package json does not read.
func tooDeep(text []byte) bool {
	return !json.Valid(text) && bytes.Count(text, []byte("["))+bytes.Count(text, []byte("{")) > deepestJSON
}

// deepestJSON is the depth up to which package json reads values.
const deepestJSON = 10_000

// member returns a member of a JSON object; nil if there is none.
func member(object json.RawMessage, name string) json.RawMessage {
	var members map[string]json.RawMessage
	if json.Unmarshal(object, &members) != nil {
		return nil
	}
	return members[name]
}
