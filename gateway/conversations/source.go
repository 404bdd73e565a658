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

	complete bool // the last update read all files
	failed   bool // the last update returned an error, which was logged
	full     bool // it was logged that the agent has too many conversations
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
	return q.After == "" && (s.files != nil || time.Since(s.ended) > askEvery)
}

// update reads what has changed. complete reports whether the index now has all
// conversations of the source.
func (s *source) update(ctx context.Context, x *Index) (complete bool, err error) {
	if s.files != nil {
		return s.walk(ctx, x)
	}
	return true, s.ask(ctx, x)
}

// walk summarizes the files that have changed, newest first.
func (s *source) walk(ctx context.Context, x *Index) (complete bool, err error) {
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
		x.mu.Lock()
		if s.entries == nil {
			s.entries = make(map[string]entry)
		}
		s.entries[f.Path] = e
		x.list, x.dirty = nil, true
		x.mu.Unlock()
	}
	return complete, nil
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
			delete(s.entries, path)
			x.list, x.dirty = nil, true
		}
	}
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

// conversations returns the source's conversations, each once. A conversation
// may have several files: the newest describes it.
func (s *source) conversations() []Conversation {
	out := make([]Conversation, 0, len(s.entries)+len(s.listed))
	at := make(map[string]int, len(s.entries)+len(s.listed))
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
		if !e.none {
			add(e.conversation)
		}
	}
	for _, c := range s.listed {
		add(c)
	}
	return out
}
