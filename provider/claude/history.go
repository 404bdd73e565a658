package claude

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/agentconn"
	"github.com/runnel-dev/runnel/internal/subpath"
	"github.com/runnel-dev/runnel/internal/translate"
)

// maxStored bounds the files that are read for one conversation, including its
// subagents, in bytes. A file whose entries take more memory than its size
// counts as that much.
const maxStored = 512 << 20

func tooLarge() error {
	return runnel.Fail(runnel.PayloadTooLarge, "the conversation is too large to be read")
}

// ReadsFiles implements [runnel.FileHistorian].
func (*Provider) ReadsFiles() {}

// History implements [runnel.Historian]. It translates the files in which the
// agent stores a conversation.
func (p *Provider) History(ctx context.Context, ref runnel.Conversation) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		c, err := p.load(ctx, ref)
		if err != nil {
			yield(event.Event{}, err)
			return
		}
		h := newHistorian(c.session(ref), c.main, c.sidechains)
		if c.short {
			h.t.turns.notice(event.LevelWarning, "HISTORY_TOO_LARGE", "The conversation is so large that the work of some subagents was left out.")
		}
		for _, e := range c.main {
			if !yieldEach(h.entry(e), yield) {
				return
			}
			if ctx.Err() != nil {
				yield(event.Event{}, ctx.Err())
				return
			}
		}
		yieldEach(h.finish(), yield)
	}
}

// conversation is a stored conversation. sidechains has the threads of the
// subagents, by the id of the call that started each; "sidechain" is Claude
// Code's word.
type conversation struct {
	main       []*entry
	sidechains map[string][]*entry
	short      bool // some subagents were left out, because the files are too large
}

// session returns the id of the conversation, from which ids of turns are
// derived. It is the id in ref, or else the name of the file, or else the id in
// the entries, if the file is a renamed copy.
func (c conversation) session(ref runnel.Conversation) string {
	if ref.AgentSessionID != "" {
		return ref.AgentSessionID
	}
	if id := strings.TrimSuffix(filepath.Base(ref.File), ".jsonl"); uuid.Validate(id) == nil {
		return id
	}
	for _, e := range slices.Backward(c.main) {
		if e.StoredSession != "" {
			return e.StoredSession
		}
	}
	return ""
}

// load reads a stored conversation. The agent writes a file for each directory
// in which the conversation was resumed; load joins these files.
func (p *Provider) load(ctx context.Context, ref runnel.Conversation) (c conversation, err error) {
	dir := filepath.Join(configDir(p.parent()), "projects")
	if ref.Anywhere && ref.File != "" && !subpath.Within(ref.File, dir) {
		dir = filepath.Dir(ref.File)
	}
	root, err := agentconn.OpenFolder(dir)
	if err != nil {
		return c, notStored(err)
	}
	defer root.Close()
	name, err := lookup(root, ref)
	if err != nil {
		return c, err
	}
	left := int64(maxStored)
	names := append([]string{name}, otherFiles(root, name)...)
	files := make([][]*entry, len(names))
	for i, name := range names {
		if files[i], err = readFile(ctx, root, name, &left, ref.Pictures); err != nil {
			return c, err
		}
	}
	names, files = linked(names, files)
	c.main = chain(joined(files))
	c.sidechains = make(map[string][]*entry)
	for _, name := range names {
		if err := c.loadSidechains(ctx, root, path.Join(strings.TrimSuffix(name, ".jsonl"), "subagents"), &left); err != nil {
			return c, err
		}
	}
	return c, nil
}

// linked returns the first file, and those of the others that continue it, or
// that it continues. A program that can write in one project's folder cannot
// make a file that continues a conversation of another project without knowing
// the ids of its entries.
func linked(names []string, files [][]*entry) (in []string, out [][]*entry) {
	known, wanted := make(map[string]bool), make(map[string]bool)
	parents := func(e *entry) []string { return []string{e.ParentUUID, e.LogicalParent} }
	belongs := func(e *entry) bool {
		return known[e.UUID] || wanted[e.UUID] || slices.ContainsFunc(parents(e), func(id string) bool { return known[id] })
	}
	take := func(i int) {
		in, out = append(in, names[i]), append(out, files[i])
		for _, e := range files[i] {
			known[e.UUID] = e.UUID != "" || known[e.UUID]
			for _, id := range parents(e) {
				wanted[id] = id != "" || wanted[id]
			}
		}
	}
	take(0)
	left := make([]int, 0, len(files))
	for i := 1; i < len(files); i++ {
		left = append(left, i)
	}
	for more := true; more; {
		more = false
		left = slices.DeleteFunc(left, func(i int) bool {
			if !slices.ContainsFunc(files[i], belongs) {
				return false
			}
			take(i)
			more = true
			return true
		})
	}
	return in, out
}

// otherFiles returns the other files of a conversation below projects.
func otherFiles(root *os.Root, name string) (out []string) {
	if uuid.Validate(strings.TrimSuffix(path.Base(name), ".jsonl")) != nil {
		return nil
	}
	return slices.DeleteFunc(inFolders(root, path.Base(name)), func(other string) bool { return other == name })
}

// inFolders returns the paths of the files with this name in the folders of
// root, sorted.
func inFolders(root *os.Root, name string) (found []string) {
	for _, folder := range agentconn.ReadFolder(root, ".") {
		file := path.Join(folder, name)
		if _, err := root.Lstat(file); err == nil {
			found = append(found, file)
		}
	}
	return found
}

// joined returns the entries of all files in one list. It sorts the files by
// the first timestamp in each.
func joined(files [][]*entry) (all []*entry) {
	begin := func(es []*entry) string {
		for _, e := range es {
			if e.Timestamp != "" {
				return e.Timestamp
			}
		}
		return ""
	}
	slices.SortStableFunc(files, func(a, b []*entry) int { return strings.Compare(begin(a), begin(b)) })
	for _, es := range files {
		base := 0
		if len(all) > 0 {
			base = all[len(all)-1].place + 1
		}
		for _, e := range es {
			e.place = base + e.line
		}
		all = append(all, es...)
	}
	return all
}

// loadSidechains reads the subagents' threads below a directory, at most left
// bytes. It skips a thread that cannot be read.
func (c *conversation) loadSidechains(ctx context.Context, root *os.Root, below string, left *int64) error {
	for _, name := range agentconn.ReadFolder(root, below) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if !strings.HasPrefix(name, "agent-") || !strings.HasSuffix(name, ".meta.json") {
			continue
		}
		meta := path.Join(below, name)
		data, err := readSmall(root, meta)
		if err != nil {
			continue
		}
		call := translate.DecodeLenient[struct{ ToolUseID string }](data).ToolUseID
		side, err := readFile(ctx, root, strings.TrimSuffix(meta, ".meta.json")+".jsonl", left, nil)
		if runnel.CodeOf(err) == runnel.PayloadTooLarge {
			c.short = true
		}
		if err == nil && call != "" {
			c.sidechains[call] = append(c.sidechains[call], side...)
		}
	}
	return ctx.Err()
}

// notStored returns the error for a conversation that is not stored or cannot
// be read.
func notStored(cause error) error {
	return runnel.Fail(runnel.SessionNotFound, "Claude Code has not stored this conversation", cause)
}

// lookup finds the file of a conversation below projects.
func lookup(root *os.Root, ref runnel.Conversation) (string, error) {
	if ref.File != "" {
		rel, err := filepath.Rel(root.Name(), ref.File)
		if err != nil || !filepath.IsLocal(rel) {
			return "", notStored(errors.New("claude: the file is outside the agent's projects folder"))
		}
		return filepath.ToSlash(rel), nil
	}
	if uuid.Validate(ref.AgentSessionID) != nil {
		return "", notStored(errors.New("claude: the conversation's id is not a UUID"))
	}
	if ref.Dir != "" {
		name := path.Join(slug(ref.Dir), ref.AgentSessionID+".jsonl")
		if _, err := root.Stat(name); err == nil {
			return name, nil
		}
	}
	found := inFolders(root, ref.AgentSessionID+".jsonl")
	if len(found) == 0 {
		return "", notStored(nil)
	}
	return found[0], nil
}

// readFile reads a file of entries and subtracts its size, or the memory of its
// entries, from left. It fails with PayloadTooLarge if the file is larger than
// left. For pictures see [runnel.Conversation].
func readFile(ctx context.Context, root *os.Root, name string, left *int64, pictures func([]byte)) ([]*entry, error) {
	f, st, err := openPlain(root, name)
	if err != nil {
		return nil, notStored(err)
	}
	defer f.Close()
	if st.Size() > *left {
		return nil, tooLarge()
	}
	entries, took, err := readEntries(ctx, io.LimitReader(f, st.Size()), *left, pictures) // the agent may be appending to it
	*left -= max(st.Size(), took)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, ctx.Err()
	case runnel.CodeOf(err) == runnel.PayloadTooLarge:
		return nil, err
	case err != nil:
		return nil, notStored(err)
	}
	return entries, nil
}

// readSmall returns the first 64 KiB of a file.
func readSmall(root *os.Root, name string) ([]byte, error) {
	f, _, err := openPlain(root, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, 64<<10))
}

// openPlain opens a regular file. It fails for a symbolic link.
func openPlain(root *os.Root, name string) (*os.File, fs.FileInfo, error) {
	st, err := root.Lstat(name)
	if err != nil {
		return nil, nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, nil, errors.New("claude: not a regular file")
	}
	return agentconn.OpenPlain(root.OpenFile, name)
}

// Translate implements [runnel.Translator]. It yields the events that Next
// returns. It also yields prompts and decisions, which a live session records
// itself.
func (p *Provider) Translate(lines iter.Seq2[runnel.Line, error]) iter.Seq2[event.Event, error] {
	return agentconn.Translate(newTranslator(), lines)
}

// yieldEach yields events. It reports whether the caller accepts more.
func yieldEach(evs []event.Event, yield func(event.Event, error) bool) bool {
	for _, ev := range evs {
		if !yield(ev, nil) {
			return false
		}
	}
	return true
}
