package claude

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/agentconn"
	"github.com/runnel-dev/runnel/internal/jsonl"
	"github.com/runnel-dev/runnel/internal/subpath"
	"github.com/runnel-dev/runnel/internal/text"
)

// An agent in a sandbox can write the conversations and memories of its project.
// Outside of a sandbox, the agent (2.1.197, 2.1.330) reads some files without
// asking because of them, sends their content to the model and adds it to the
// conversation, in which the next agent in a sandbox can read it:
//
//   - the file to which a link among the memories leads;
//   - each file that a tool of the conversation has read or written, when it has
//     changed since or when the conversation is compacted.
//
// Conversations that were never in a sandbox may name any file, so these checks
// apply only to the folders that an agent in a sandbox could write. A file in the
// agent's own folder, which no sandbox shows, notes each of them.

// noteOfSandbox returns the path of the file that notes that an agent in a sandbox
// could write a folder of conversations. home is the agent's folder.
func noteOfSandbox(home, folder string) string {
	return filepath.Join(home, "runnel", "sandboxed", folder)
}

// noteSandbox notes that an agent in a sandbox can write the conversations of dir.
func noteSandbox(home, dir string) error {
	note := noteOfSandbox(home, slug(dir))
	err := os.MkdirAll(filepath.Dir(note), 0o700)
	if err == nil {
		err = os.WriteFile(note, nil, 0o600)
	}
	if err != nil {
		return runnel.Fail(runnel.SessionCreateFailed, "the folder "+filepath.Dir(note)+", which says where an agent was in a sandbox, cannot be written", err)
	}
	return nil
}

// wasSandboxed reports whether an agent in a sandbox could write a folder of
// conversations.
func wasSandboxed(home, folder string) bool {
	_, err := os.Lstat(noteOfSandbox(home, folder))
	return !errors.Is(err, fs.ErrNotExist)
}

// checkState fails if the agent's state could lead it elsewhere without asking. If
// the agent starts in a sandbox, checkState notes that instead.
func checkState(env []string, opt runnel.Options) error {
	home, dir := configDir(env), opt.Dir
	if home == "" {
		return nil
	}
	if dir == "" {
		dir, _ = os.Getwd() // Start fails without it
	}
	if opt.Sandbox.IsOn() {
		return noteSandbox(home, dir)
	}
	if err := checkMemories(home, dir); err != nil {
		return err
	}
	if err := checkWorkDir(env, opt); err != nil {
		return err
	}
	return checkNamedFiles(env, home, dir, opt)
}

// maxMemories bounds the files and folders among which checkMemories searches for
// links.
const maxMemories = 100_000

// checkMemories fails if a link among the memories of dir leads out of its folder.
// The agent stores them for the root of the repository.
func checkMemories(home, dir string) error {
	for _, of := range append(repositoriesOf(dir), dir) {
		folder := slug(of)
		if !wasSandboxed(home, folder) {
			continue
		}
		own := append(ownDirs(dir), canonical(filepath.Join(home, "projects", folder)))
		if at, why := linkAmong(filepath.Join(home, "projects", folder, "memory"), own, maxMemories); at != "" {
			return runnel.Fail(runnel.SessionCreateFailed, text.OneLine(at, 500)+" "+why)
		}
	}
	return nil
}

// linkAmong returns a link among memories that leads to none of own or to no file,
// or a folder that may have one; "" if there is none. why states, for people, the
// reason to refuse it and the next step. left is the number of files and folders
// that linkAmong may examine.
func linkAmong(memories string, own []string, left int) (at, why string) {
	const follows = "The agent would read without asking where a link among its memories leads, and an agent in a sandbox could have made one. "
	_ = filepath.WalkDir(memories, func(path string, d fs.DirEntry, err error) error {
		left--
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			at, why = path, "cannot be listed, so it may have links. "+follows+"Make it readable for your user, or remove it"
		case left < 0:
			at, why = memories, "has too many files to be searched for links. "+follows+"Remove files from it"
		case d.Type()&fs.ModeSymlink != 0 && !leadsInto(path, own):
			at, why = path, "is a link that leads out of the session's folder, or to no file. "+follows+"Remove the link"
		default:
			return nil
		}
		return fs.SkipAll
	})
	return at, why
}

// leadsInto reports whether a path leads to an existing file in one of own.
func leadsInto(path string, own []string) bool {
	real, err := filepath.EvalSymlinks(path)
	return err == nil && isOwn(real, own)
}

func canonical(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return path
}

// checkNamedFiles fails if the conversation that the agent would continue was
// within reach of an agent in a sandbox and names a file that this agent could not
// read there.
func checkNamedFiles(env []string, home, dir string, opt runnel.Options) error {
	if opt.Resume == "" {
		return nil
	}
	root, err := agentconn.OpenFolder(filepath.Join(home, "projects"))
	if err != nil {
		return nil // the agent has stored no conversations
	}
	defer root.Close()
	c := namedFiles{dir: canonical(dir), home: userHome(env), own: slices.Concat(ownDirs(dir), opt.AddDirs, programDirs)}
	for _, name := range readable {
		c.own = append(c.own, filepath.Join(home, name))
	}
	for _, name := range inFolders(root, opt.Resume+".jsonl") {
		folder := path.Dir(name)
		if !wasSandboxed(home, folder) {
			continue
		}
		c.own = append(c.own, canonical(filepath.Join(home, "projects", folder)))
		file := filepath.Join(home, "projects", filepath.FromSlash(name))
		if at := c.outside(file); at != "" {
			return namesElsewhere(file, at)
		}
		if file, at := c.ofSubagents(strings.TrimSuffix(file, ".jsonl")); at != "" {
			return namesElsewhere(file, at)
		}
	}
	return nil
}

func namesElsewhere(file, at string) error {
	return runnel.Fail(runnel.WorkingRootConflict, "in the conversation's file "+file+", a tool has read or written "+text.OneLine(at, 300)+
		", which is outside of this session's folder. The agent would read it again without asking, and an agent in a sandbox could have written that. "+
		"Continue the conversation in a sandbox, add the folder of the file to the session (addDirs), or create a new session")
}

// programDirs are the folders of the system that every sandbox shows.
var programDirs = []string{"/usr", "/lib", "/lib64", "/bin", "/sbin", "/opt", "/nix/store"}

// namedFiles finds the files that a conversation names.
type namedFiles struct {
	dir  string   // the session's folder, to which relative paths refer
	home string   // the user's home directory
	own  []string // the folders whose files may be named
}

// ofSubagents returns the file of a subagent of a conversation that names a file
// outside, and that file; "" if there is none. folder is that of the conversation.
func (c *namedFiles) ofSubagents(folder string) (file, at string) {
	left := maxSubagents
	_ = filepath.WalkDir(filepath.Join(folder, "subagents"), func(path string, d fs.DirEntry, err error) error {
		left--
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil || left == 0:
			file, at = path, unknownFile
		case !d.IsDir() && strings.HasSuffix(path, ".jsonl"):
			file, at = path, c.outside(path)
		}
		if at != "" {
			return fs.SkipAll
		}
		return nil
	})
	return file, at
}

// unknownFile stands for what a line names that the agent may read differently.
const unknownFile = "an unknown file"

// outside returns an existing file that a conversation's file names and that is in
// none of own; "" if there is none.
func (c *namedFiles) outside(file string) string {
	f, _, err := agentconn.OpenPlain(os.OpenFile, file)
	if err != nil {
		return "" // the agent cannot read it either
	}
	defer f.Close()
	for r := jsonl.NewReader(f, longestRecord); ; {
		line, err := r.Next()
		if _, long := errors.AsType[*jsonl.TooLongError](err); long {
			return unknownFile // nobody knows what the line says
		}
		if err != nil && (!errors.Is(err, io.EOF) || len(line) == 0) {
			return ""
		}
		if at := c.inLine(line); at != "" {
			return at
		}
	}
}

// inLine returns an existing file that a line names as a tool's argument and that
// is in none of own; "" if there is none.
func (c *namedFiles) inLine(line []byte) string {
	if !bytes.Contains(line, []byte("tool_use")) && !bytes.Contains(line, []byte(`\u`)) { // which may be part of a word
		return ""
	}
	line = bytes.TrimLeft(line, "\x00\ufeff \t\r\n") // the agent ignores these
	if tooDeep(line) {
		return unknownFile
	}
	var record any
	if json.Unmarshal(line, &record) != nil {
		return "" // the agent cannot read it either
	}
	return c.inCalls(record)
}

// inCalls searches the calls of tools in a value.
func (c *namedFiles) inCalls(value any) string {
	switch v := value.(type) {
	case []any:
		for _, e := range v {
			if at := c.inCalls(e); at != "" {
				return at
			}
		}
	case map[string]any:
		if v["type"] == "tool_use" {
			if at := c.inArguments(v["input"], false); at != "" {
				return at
			}
		}
		for _, e := range v {
			if at := c.inCalls(e); at != "" {
				return at
			}
		}
	}
	return ""
}

// inArguments searches the arguments of a call. isPath says that a text is a path,
// by the name of the argument. The agent also reads arguments that are JSON in a
// text.
func (c *namedFiles) inArguments(value any, isPath bool) string {
	switch v := value.(type) {
	case string:
		if isPath && c.isOutside(v) {
			return v
		}
		var inner any
		if s := strings.TrimSpace(v); strings.HasPrefix(s, "{") && json.Unmarshal([]byte(s), &inner) == nil {
			return c.inArguments(inner, false)
		}
	case []any:
		for _, e := range v {
			if at := c.inArguments(e, isPath); at != "" {
				return at
			}
		}
	case map[string]any:
		for name, e := range v {
			low := strings.ToLower(name)
			if at := c.inArguments(e, strings.Contains(low, "path") || strings.Contains(low, "file")); at != "" {
				return at
			}
		}
	}
	return ""
}

// isOutside reports whether a path leads to an existing file that is in none of
// own. The agent removes spaces around a path.
func (c *namedFiles) isOutside(name string) bool {
	name = strings.TrimSpace(name)
	if rest, ok := strings.CutPrefix(name, "~"); ok && (rest == "" || rest[0] == '/') {
		name = filepath.Join(c.home, rest)
	}
	if !filepath.IsAbs(name) {
		name = filepath.Join(c.dir, name)
	}
	if _, err := os.Stat(name); errors.Is(err, fs.ErrNotExist) {
		return false
	}
	real := canonical(name)
	return !slices.ContainsFunc(c.own, func(of string) bool { return subpath.Within(real, canonical(of)) })
}
