package claude

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"unicode"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/agentconn"
	"github.com/runnel-dev/runnel/internal/jsonl"
	"github.com/runnel-dev/runnel/internal/sandbox"
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
		return runnel.Fail(runnel.SessionCreateFailed, "the folder "+filepath.Dir(note)+" cannot be written. In it, Runnel notes which conversations an agent in a sandbox could write", err)
	}
	return nil
}

// wasSandboxed reports whether an agent in a sandbox could write a folder of
// conversations. If the note cannot be examined, it may exist.
func wasSandboxed(home, folder string) bool {
	_, err := os.Lstat(noteOfSandbox(home, folder))
	return !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR)
}

// checkState fails if the agent's state could lead it elsewhere without asking. If
// the agent starts in a sandbox, checkState notes that instead.
func checkState(ctx context.Context, env []string, opt runnel.Options) error {
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
	return checkNamedFiles(ctx, env, home, dir, opt)
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
func checkNamedFiles(ctx context.Context, env []string, home, dir string, opt runnel.Options) error {
	if opt.Resume == "" {
		return nil
	}
	root, err := openConversations(home)
	if root == nil {
		return err
	}
	defer root.Close()
	c := namedFiles{bases: []string{canonical(dir)}, home: userHome(env), own: mayBeNamed(home, dir, opt), shown: sync.OnceValue(sandbox.NewShown), seen: make(map[string]bool), relative: make(map[string]bool)}
	for _, name := range inFolders(root, opt.Resume+".jsonl") {
		folder := path.Dir(name)
		if !wasSandboxed(home, folder) {
			continue
		}
		c.own = append(c.own, canonical(filepath.Join(home, "projects", folder)))
		file := filepath.Join(home, "projects", filepath.FromSlash(name))
		c.search(ctx, file)
		if len(c.found) == 0 {
			file = c.searchSubagents(ctx, strings.TrimSuffix(file, ".jsonl"))
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if len(c.found) > 0 {
			return namesElsewhere(file, c.found, noteOfSandbox(home, folder))
		}
	}
	return nil
}

// mayBeNamed returns the folders whose files a conversation of a session may name:
// those of the session, the agent's settings and plans, and the memories. An agent
// in a sandbox can replace the folders of worktrees and memories by links, so these
// paths stay as they are.
func mayBeNamed(home, dir string, opt runnel.Options) []string {
	own := ownDirs(dir)
	for _, dir := range opt.AddDirs {
		own = append(own, canonical(dir))
	}
	for _, name := range append([]string{"plans"}, readable...) {
		own = append(own, canonical(filepath.Join(home, name)))
	}
	projects := canonical(filepath.Join(home, "projects"))
	for _, of := range append(repositoriesOf(dir), dir) {
		own = append(own, filepath.Join(projects, slug(of), "memory"))
	}
	return own
}

func namesElsewhere(file string, found []string, note string) error {
	return runnel.Fail(runnel.WorkingRootConflict, "in the conversation's file "+file+", tools have read or written files outside of this session's folder: "+text.OneLine(strings.Join(found, ", "), 900)+
		". The agent would read them again without asking, and an agent in a sandbox could have written the conversation. "+
		"Continue the conversation in a sandbox, add the folders of the files to the session (addDirs), or create a new session. If you have checked the conversations in "+filepath.Dir(file)+
		", you can also delete the file "+note+", by which Runnel knows that an agent in a sandbox could write them")
}

const (
	maxFound = 3      // files outside, each of another folder, that a refusal names
	maxBases = 100    // folders to which relative paths may refer
	maxSeen  = 10_000 // names that namedFiles remembers, of each kind
	maxName  = 4096   // bytes of a name that namedFiles remembers
)

// namedFiles finds the files that a conversation names. It is for one goroutine.
type namedFiles struct {
	bases    []string              // the folders to which relative paths may refer: the session's, and worktrees
	home     string                // the user's home directory
	own      []string              // the folders whose files may be named, without links
	shown    func() *sandbox.Shown // further files that may be named
	seen     map[string]bool       // absolute names that lead to no file outside
	relative map[string]bool       // relative names, until search has read all bases
	found    []string              // files outside, at most maxFound
}

// isDone reports whether the search has found enough.
func (c *namedFiles) isDone() bool {
	return len(c.found) >= maxFound || slices.Contains(c.found, unknownFile)
}

// add adds a file outside to found, unless found has one of the same folder.
func (c *namedFiles) add(file string) {
	if !slices.ContainsFunc(c.found, func(other string) bool { return path.Dir(other) == path.Dir(file) }) || file == unknownFile {
		c.found = append(c.found, file)
	}
}

// searchSubagents searches the files of the subagents of a conversation, up to the
// first one that names a file outside, and returns it. folder is that of the
// conversation.
func (c *namedFiles) searchSubagents(ctx context.Context, folder string) (file string) {
	left := maxSubagents
	_ = filepath.WalkDir(filepath.Join(folder, "subagents"), func(path string, d fs.DirEntry, err error) error {
		left--
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil || left == 0:
			c.add(unknownFile)
		case !d.IsDir() && strings.HasSuffix(path, ".jsonl"):
			c.search(ctx, path)
		}
		if len(c.found) > 0 || ctx.Err() != nil {
			file = path
			return fs.SkipAll
		}
		return nil
	})
	return file
}

// unknownFile stands for the files in a line that the agent may read differently.
const unknownFile = "an unknown file"

// search adds the existing files that a conversation's file names and that are in
// none of own to found. It stops when ctx ends. The agent works in a worktree that
// the file names, so a relative path may refer to that.
func (c *namedFiles) search(ctx context.Context, file string) {
	f, _, err := agentconn.OpenPlain(os.OpenFile, file)
	if err != nil {
		return // the agent cannot read it either
	}
	defer f.Close()
	for r := jsonl.NewReader(f, longestRecord); ctx.Err() == nil && !c.isDone(); {
		line, err := r.Next()
		if _, long := errors.AsType[*jsonl.TooLongError](err); long {
			c.add(unknownFile) // the line may name any file
			return
		}
		if err != nil && (!errors.Is(err, io.EOF) || len(line) == 0) {
			break
		}
		if base := worktreeIn(line); filepath.IsAbs(base) && !slices.Contains(c.bases, base) {
			c.bases = append(c.bases, base)
		}
		if len(c.bases) > maxBases {
			c.add(unknownFile)
		}
		c.inLine(line)
	}
	c.considerRelative(ctx)
}

// considerRelative adds the relative names that lead outside from one of bases to
// found.
func (c *namedFiles) considerRelative(ctx context.Context) {
	for _, name := range slices.Sorted(maps.Keys(c.relative)) {
		for _, base := range c.bases {
			if ctx.Err() == nil && !c.isDone() && c.isOutside(filepath.Join(base, name)) {
				c.add(name)
				break
			}
		}
	}
	clear(c.relative)
}

// inLine searches a line for files that are arguments of tools.
func (c *namedFiles) inLine(line []byte) {
	if !bytes.Contains(line, []byte(`"tool_use"`)) && !bytes.Contains(line, []byte(`\u`)) { // which may be part of a word
		return
	}
	c.inCalls(c.decode(bytes.TrimLeft(line, "\x00\ufeff \t\r\n"))) // the agent ignores these
}

// decode returns the value of a text that is JSON; nil for any other text. It adds
// unknownFile to found if only the agent may be able to read the text.
func (c *namedFiles) decode(text []byte) (value any) {
	if jsonl.Crowded(text) || tooDeep(text) {
		c.add(unknownFile)
		return nil
	}
	_ = json.Unmarshal(text, &value) // the agent cannot read it either
	return value
}

// inCalls searches the calls of tools in a value. The agent also reads arguments
// that are JSON in a text.
func (c *namedFiles) inCalls(value any) {
	switch v := value.(type) {
	case []any:
		for _, e := range v {
			c.inCalls(e)
		}
	case map[string]any:
		if v["type"] == "tool_use" {
			input := v["input"]
			if text, ok := input.(string); ok {
				input = c.decode([]byte(strings.TrimSpace(text)))
			}
			c.inArguments(input, false)
		}
		for _, e := range v {
			c.inCalls(e)
		}
	}
}

// inArguments searches the arguments of a call. isPath says that a text is a path,
// by the name of the argument.
func (c *namedFiles) inArguments(value any, isPath bool) {
	switch v := value.(type) {
	case string:
		if isPath {
			c.consider(v)
		}
	case []any:
		for _, e := range v {
			c.inArguments(e, isPath)
		}
	case map[string]any:
		for name, e := range v {
			low := strings.ToLower(name)
			c.inArguments(e, strings.Contains(low, "path") || strings.Contains(low, "file"))
		}
	}
}

// consider adds a file to found if it is outside. The agent removes spaces around
// a path.
func (c *namedFiles) consider(name string) {
	path := strings.TrimFunc(name, isSpace)
	if rest, ok := strings.CutPrefix(path, "~"); ok && (rest == "" || rest[0] == '/') {
		path = filepath.Join(c.home, rest)
	}
	if !filepath.IsAbs(path) {
		path = filepath.Clean(path)
	}
	switch {
	case c.isDone() || c.seen[path] || c.relative[path]:
	case !filepath.IsAbs(path) && len(path) > maxName: // no system has such a path
	case !filepath.IsAbs(path) && len(c.relative) == maxSeen:
		c.add(unknownFile)
	case !filepath.IsAbs(path):
		c.relative[path] = true
	case c.isOutside(path):
		c.add(name)
	case len(c.seen) < maxSeen && len(path) <= maxName:
		c.seen[path] = true
	}
}

// isOutside reports whether an absolute path leads to an existing file that is in
// none of own and that no sandbox shows. The agent removes parts such as "x/..",
// even if there is no x.
func (c *namedFiles) isOutside(path string) bool {
	return c.leadsOutside(path) || c.leadsOutside(filepath.Clean(path))
}

func (c *namedFiles) leadsOutside(path string) bool {
	if leadsByProcess(path) {
		return true
	}
	info, err := os.Stat(path)
	if isUnreadable(err) || err == nil && info.IsDir() {
		return false
	}
	real := canonical(path)
	return !slices.ContainsFunc(c.own, func(of string) bool { return subpath.Within(real, of) }) && !c.shown().Contains(real)
}

// maxLinks bounds the links on a path. The system follows fewer.
const maxLinks = 255

// leadsByProcess reports whether a path, or a link on it, leads through a folder of
// Linux that is another one for each process, so that the path may lead the agent
// elsewhere than this process. path is absolute.
func leadsByProcess(path string) bool {
	at, rest, links := "/", path, 0
	for rest != "" && links <= maxLinks {
		name, more, _ := strings.Cut(strings.TrimLeft(rest, "/"), "/")
		next := filepath.Join(at, name)
		if next == "/proc/self" || next == "/proc/thread-self" {
			return true
		}
		to, err := os.Readlink(next)
		if err != nil {
			at, rest = next, more
			continue
		}
		if links++; filepath.IsAbs(to) {
			at = "/"
		}
		rest = to + "/" + more
	}
	return false
}

// isSpace reports whether the agent, which is written in JavaScript, removes a
// character at the ends of a path.
func isSpace(r rune) bool { return r == '\ufeff' || unicode.IsSpace(r) && r != '\u0085' }

// isUnreadable reports whether err says that the agent, which runs as the same
// user, cannot read a file either.
func isUnreadable(err error) bool {
	return slices.ContainsFunc([]error{fs.ErrNotExist, fs.ErrPermission, syscall.ENOTDIR, syscall.ENAMETOOLONG, syscall.ELOOP}, func(e error) bool { return errors.Is(err, e) })
}
