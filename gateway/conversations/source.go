package conversations

import (
	"context"
	"slices"
	"time"

	"github.com/runnel-dev/runnel"
)

// Bounds of a source.
const (
	maxFiles = 100_000  // files of one agent, and conversations that it lists
	maxBytes = 64 << 20 // of their paths, and of the texts of the conversations

	// If more files than maxPending may have changed, all are compared.
	maxPending = 1000
	// compareEvery is the longest time for which the index relies on the events
	// of the system.
	compareEvery = time.Minute

	askEvery = 10 * time.Minute
	askTime  = 30 * time.Second // timeout of an agent that lists its conversations
)

// A source provides the conversations of one agent. Index.mu guards its fields
// except cliType, files and agent, which do not change.
type source struct {
	cliType string
	files   runnel.Summarizer // reads the agent's files. Default: agent lists the conversations
	agent   runnel.Discoverer

	entries map[string]entry // by path
	listed  []Conversation   // by agent
	running chan struct{}    // closed when the running update ends; nil if none runs
	ended   time.Time        // end of the last update

	places  runnel.Placer   // reports where the files are. Default: they are not watched
	watched bool            // the system reports every change of the files
	pending map[string]bool // paths of files that may have changed since they were read
	again   bool            // any file may have changed

	complete bool      // the last walk read all files
	walked   time.Time // beginning of the last walk
	failed   bool      // the last update returned an error, which was logged
	full     bool      // it was logged that the agent has too many conversations
}

// An entry has the facts about one state of a file.
type entry struct {
	state
	conversation Conversation
	none         bool // the file contains no conversation
}

// A state has the fields of a [runnel.StoredFile] without the path. As long as
// they stay the same, the file is not read again.
type state struct {
	size, modTime int64
	inode         uint64
	title         string // without secrets
}

// newSource returns the source of a provider's conversations, or nil if the
// provider lists none of its own.
func newSource(p runnel.Provider) *source {
	if Owner(p) != p.Name() {
		return nil
	}
	s := &source{cliType: p.Name()}
	s.files, _ = p.(runnel.Summarizer)
	s.agent, _ = p.(runnel.Discoverer)
	if s.files == nil && s.agent == nil {
		return nil
	}
	if s.files != nil {
		s.places, _ = p.(runnel.Placer)
	}
	return s
}

// Owner returns the CLIType under which the conversations of a provider's agent
// are listed: the provider's name, or the name of another provider with which
// it shares them.
func Owner(p runnel.Provider) string {
	if s, ok := p.(runnel.Sharer); ok && s.SharesWith() != "" {
		return s.SharesWith()
	}
	return p.Name()
}

// concerns reports whether the source may have conversations that q selects.
func (s *source) concerns(q Query) bool {
	return (q.CLIType == "" || q.CLIType == s.cliType) && (q.only == nil || q.only(s.cliType))
}

// due reports whether the source must be read again before q is answered.
// Asking an agent starts the agent, so this happens less often.
func (s *source) due(q Query) bool {
	switch {
	case q.After != "":
		return false
	case q.rest:
		return len(s.pending) > 0
	case s.files == nil:
		return time.Since(s.ended) > askEvery
	}
	return len(s.pending) > 0 || !s.isKnown() || q.unsure
}

// isKnown reports whether the index has the states of all files, except those in
// pending. Even if the system reports changes, the files are compared sometimes,
// because the system cannot report those on another machine.
func (s *source) isKnown() bool {
	return s.watched && !s.again && s.complete && time.Since(s.walked) < compareEvery
}

// A job is what an update of a source does.
type job struct {
	all   bool // compare all files
	paths map[string]bool
}

// take returns the job of the next update. The caller holds Index.mu.
func (s *source) take(all bool) job {
	j := job{all, s.pending}
	s.pending, s.again = nil, s.again && !all
	return j
}

// update reads what has changed.
func (s *source) update(ctx context.Context, x *Index, j job) error {
	switch {
	case s.files == nil:
		return s.ask(ctx, x)
	case j.all:
		return s.walk(ctx, x)
	}
	return s.reread(ctx, x, j.paths)
}

// walk summarizes the files that have changed, newest first. The other fields
// of s do not change while an update runs, except pending and again.
func (s *source) walk(ctx context.Context, x *Index) error {
	began := time.Now()
	complete, err := s.compare(ctx, x)
	x.mu.Lock()
	defer x.mu.Unlock()
	s.complete, s.walked = complete && err == nil, began
	return err
}

// reread summarizes those files at paths that have changed.
func (s *source) reread(ctx context.Context, x *Index, paths map[string]bool) error {
	x.mu.Lock()
	size := 0
	for _, e := range s.entries {
		size += e.conversation.weight()
	}
	x.mu.Unlock()
	var changed []runnel.StoredFile
	for path := range paths {
		f, ok := s.places.StoredFile(path)
		f.Title = x.cfg.Redact(f.Title)
		old, known := s.entries[path]
		switch {
		case !ok:
			x.drop(s, path)
		case known && old.state == stateOf(f):
		case !known && len(s.entries) >= maxFiles:
			x.tooMany(s)
			x.retry(s, "")
		default:
			changed = append(changed, f)
			size -= old.conversation.weight()
		}
	}
	complete, err := s.summarize(ctx, x, changed, size)
	if !complete || err != nil {
		for _, f := range changed {
			x.retry(s, f.Path) // those that were read are unchanged then
		}
	}
	return err
}

// compare is walk. complete reports whether the index now has all conversations
// of the source.
func (s *source) compare(ctx context.Context, x *Index) (complete bool, err error) {
	var changed []runnel.StoredFile
	found := make(map[string]bool)
	x.mu.Lock()
	known := s.entries // other goroutines do not write it while this update runs
	x.mu.Unlock()
	complete = true
	paths, size := 0, 0
	for f, err := range s.files.StoredFiles(ctx) {
		if err != nil {
			return false, err
		}
		f.Title = x.cfg.Redact(f.Title)
		if paths += len(f.Path) + len(f.Title); len(found) == maxFiles || paths > maxBytes {
			x.tooMany(s)
			complete = false
			break
		}
		found[f.Path] = true
		if e, ok := known[f.Path]; !ok || e.state != stateOf(f) {
			changed = append(changed, f)
		} else {
			size += e.conversation.weight()
		}
	}
	x.forget(s, found)
	all, err := s.summarize(ctx, x, changed, size)
	return complete && all, err
}

// summarize reads changed files, newest first. size is how many bytes the texts
// of the other conversations have. complete reports whether the index has all of
// them now.
func (s *source) summarize(ctx context.Context, x *Index, changed []runnel.StoredFile, size int) (complete bool, err error) {
	complete = true
	slices.SortFunc(changed, func(a, b runnel.StoredFile) int { return b.ModTime.Compare(a.ModTime) })
	for _, f := range changed {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		e := entry{state: stateOf(f)}
		c, err := s.files.Summarize(ctx, f)
		if runnel.CodeOf(err) == runnel.AgentError {
			complete = false
			continue // the next update reads it again
		}
		ok := err == nil
		if ok {
			e.conversation, ok = x.describe(s.cliType, c)
		}
		if size += e.conversation.weight(); size > maxBytes {
			x.tooMany(s)
			return false, nil
		}
		e.none = !ok
		x.put(s, f.Path, e)
	}
	return complete, nil
}

// put sets the entry of a file.
func (x *Index) put(s *source, path string, e entry) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if s.entries == nil {
		s.entries = make(map[string]entry)
	}
	old, ok := s.entries[path]
	if ok && !old.none && (e.none || old.conversation.AgentSessionID != e.conversation.AgentSessionID || old.conversation.ProjectDir != e.conversation.ProjectDir) {
		x.changes.add(old.conversation)
	}
	if !e.none {
		x.changes.add(e.conversation)
	}
	s.entries[path] = e
	x.list, x.dirty = nil, true
}

// retry makes the next update read a file again, or compare all files if path is
// "".
func (x *Index) retry(s *source, path string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if path == "" {
		s.complete = false
		return
	}
	s.note(path)
}

// note records that the file at path may have changed. The caller holds
// Index.mu.
func (s *source) note(path string) {
	if s.pending == nil {
		s.pending = make(map[string]bool)
	}
	if s.pending[path] = true; len(s.pending) > maxPending {
		s.pending, s.again = nil, true
	}
}

// tooMany logs, once, that an agent has more conversations than the index holds.
func (x *Index) tooMany(s *source) {
	x.mu.Lock()
	logged := s.full
	s.full = true
	x.mu.Unlock()
	if logged {
		return
	}
	x.cfg.Logger.Warn("an agent has stored too many conversations; the others are not listed", "agent", s.cliType, "conversations", maxFiles, "bytes", maxBytes)
}

// weight returns how many bytes the texts of a conversation have.
func (c *Conversation) weight() int {
	return len(c.AgentSessionID) + len(c.ProjectDir) + len(c.Title) + len(c.LastMessage)
}

func stateOf(f runnel.StoredFile) state {
	return state{f.Size, f.ModTime.UnixNano(), f.Inode, f.Title}
}

// forget removes the entries of files that no longer exist.
func (x *Index) forget(s *source, found map[string]bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for path := range s.entries {
		if !found[path] {
			x.remove(s, path)
		}
	}
}

// drop removes the entry of a file that no longer exists.
func (x *Index) drop(s *source, path string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.remove(s, path)
}

// remove removes an entry. The caller holds mu.
func (x *Index) remove(s *source, path string) {
	e, ok := s.entries[path]
	if !ok {
		return
	}
	if !e.none {
		x.changes.add(e.conversation)
	}
	delete(s.entries, path)
	x.list, x.dirty = nil, true
}

// ask lists the conversations through the agent. If it fails, the earlier list
// stays.
func (s *source) ask(ctx context.Context, x *Index) error {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	var listed []Conversation
	size := 0
	for c, err := range s.agent.Discover(ctx, "") {
		if err != nil {
			return err
		}
		c, ok := x.describe(s.cliType, c)
		if !ok {
			continue
		}
		if size += c.weight(); len(listed) == maxFiles || size > maxBytes {
			x.tooMany(s)
			break
		}
		listed = append(listed, c)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	s.listed = listed
	x.list, x.dirty = nil, true
	return nil
}

// conversations returns the source's conversations, each once, or only those
// whose ids are in only, if it is not nil. A conversation may have several
// files: the newest describes it.
func (s *source) conversations(only map[string]bool) []Conversation {
	n := len(s.entries) + len(s.listed)
	if only != nil {
		n = min(n, len(only))
	}
	out, at := make([]Conversation, 0, n), make(map[string]int, n)
	add := func(c Conversation) {
		i, ok := at[c.AgentSessionID]
		if !ok {
			at[c.AgentSessionID] = len(out)
			out = append(out, c)
			return
		}
		old := out[i]
		if order(old, c) < 0 {
			old, c = c, old
		}
		if c.CreatedAt.IsZero() || !old.CreatedAt.IsZero() && old.CreatedAt.Before(c.CreatedAt) {
			c.CreatedAt = old.CreatedAt
		}
		c.Size += old.Size
		out[i] = c
	}
	for _, e := range s.entries {
		if !e.none && (only == nil || only[e.conversation.AgentSessionID]) {
			add(e.conversation)
		}
	}
	for _, c := range s.listed {
		if only == nil || only[c.AgentSessionID] {
			add(c)
		}
	}
	return out
}
