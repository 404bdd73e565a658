// Package conversations lists the conversations that the agents of this machine
// have stored. It keeps an index of facts about the agents' files, and reads a
// file again only after the file has changed.
//
// Everything in the files is untrusted. Providers read a bounded part of each
// file, and this package bounds and redacts what they return.
package conversations

import (
	"cmp"
	"context"
	"encoding/base64"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/filewatch"
	"github.com/runnel-dev/runnel/internal/text"
	"github.com/runnel-dev/runnel/internal/wake"
)

// Config configures an Index. Providers is required.
type Config struct {
	// Providers of the agents. Conversations of a [runnel.Summarizer] come from
	// files, those of another [runnel.Discoverer] from the agent itself.
	Providers []runnel.Provider

	File    string              // the stored index. Default: the index is only in memory
	Redact  func(string) string // removes secrets from a text. Default: none
	MaxWait time.Duration       // how long List waits for agents and files. Default: 1.5 s
	Logger  *slog.Logger        // Default: discards
}

// A Conversation is one that an agent has stored.
type Conversation struct {
	CLIType        string    `json:"cliType" doc:"Kind of agent, such as claude-code."`
	AgentSessionID string    `json:"agentSessionId" doc:"The agent's own id of the conversation. cliType:agentSessionId is accepted in place of a session id; POST /api/session/{id}/load makes the conversation a session."`
	ProjectDir     string    `json:"projectDir,omitempty" doc:"Absolute path of the directory in which the conversation began, as the agent stored it. The directory may no longer exist."`
	Title          string    `json:"title,omitempty" doc:"Title, or the beginning of a prompt. At most 200 bytes."`
	LastMessage    string    `json:"lastMessage,omitempty" doc:"Beginning of the last message of the user or the agent, in one line. At most 200 bytes. Absent if the agent does not list it."`
	CreatedAt      time.Time `json:"createdAt,omitzero" doc:"Time of the first entry."`
	UpdatedAt      time.Time `json:"updatedAt,omitzero" doc:"Time of the last change."`
	Size           int64     `json:"size,omitempty" doc:"Size of the conversation's files in bytes. Absent if the agent does not store the conversation in files."`
}

// maxText is the maximum size of a title and of a last message, in bytes.
const maxText = 200

// An Index is safe for concurrent use. It starts no goroutine before the first
// List. Each List starts at most one goroutine per provider, which ends by
// itself. Watch starts three goroutines that run until Close, one of them in the
// library for the events of the system. Close waits for all of them.
type Index struct {
	cfg  Config
	ctx  context.Context
	stop context.CancelFunc
	work sync.WaitGroup
	kick wake.Signal // a file may have changed

	mu      sync.Mutex // guards the fields below
	loaded  bool
	sources []*source
	list    []Conversation // sorted; nil if outdated
	changes changes
	watcher *filewatch.Watcher // nil unless files are watched
	ordered bool               // watcher.Sync works
	dirty   bool               // the stored index is outdated
	saved   time.Time
}

// New returns the index of the conversations of the providers' agents.
func New(cfg Config) *Index {
	if cfg.Redact == nil {
		cfg.Redact = func(s string) string { return s }
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	cfg.MaxWait = cmp.Or(cfg.MaxWait, 1500*time.Millisecond)
	x := &Index{cfg: cfg, changes: changes{grown: make(chan struct{})}, kick: wake.New()}
	x.ctx, x.stop = context.WithCancel(context.Background())
	x.sources = sourcesOf(cfg.Providers)
	return x
}

// sourcesOf returns the sources of the providers' conversations.
func sourcesOf(providers []runnel.Provider) (sources []*source) {
	for _, p := range providers {
		if s := newSource(p); s != nil {
			sources = append(sources, s)
		}
	}
	return sources
}

// Close stores the index and waits for its goroutines. A later List returns
// what is known.
func (x *Index) Close() {
	x.mu.Lock()
	x.stop()
	x.mu.Unlock() // from now on, List starts no goroutine
	x.work.Wait()
	x.mu.Lock()
	defer x.mu.Unlock()
	x.save()
}

// A Query selects conversations.
type Query struct {
	CLIType    string // "" for all
	ProjectDir string // as the agent stored it; "" for all
	After      string // Page.Next of the page before; "" for the first page
	Limit      int    // at least 1

	only   func(cliType string) bool // selects kinds of agents. Default: all
	unsure bool                      // compare all files, even if the system reports changes
	rest   bool                      // read only files that are known to have changed
}

// A Page is a part of the list.
type Page struct {
	Conversations []Conversation
	Next          string   // for Query.After; "" on the last page
	Checking      []string // CLIType of the agents whose conversations are still being read
}

// List returns conversations, newest change first. For a first page, it looks
// for changed files and waits for at most Config.MaxWait. If reading them
// takes longer, the page has what is known, and its Checking is not empty. It
// returns an error if q.After is invalid or ctx ends.
func (x *Index) List(ctx context.Context, q Query) (Page, error) {
	after, err := parseCursor(q.After)
	if err != nil {
		return Page{}, err
	}
	if err := x.look(ctx, q); err != nil {
		return Page{}, err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	page := Page{Conversations: []Conversation{}}
	for _, s := range x.sources {
		if s.running != nil && s.concerns(q) {
			page.Checking = append(page.Checking, s.cliType)
		}
	}
	all := x.sorted()
	if after != nil {
		i, found := slices.BinarySearchFunc(all, *after, order)
		if found {
			i++
		}
		all = all[i:]
	}
	for _, c := range all {
		if q.CLIType != "" && c.CLIType != q.CLIType || q.ProjectDir != "" && c.ProjectDir != q.ProjectDir {
			continue
		}
		if len(page.Conversations) == q.Limit {
			page.Next = cursor(page.Conversations[q.Limit-1])
			break
		}
		page.Conversations = append(page.Conversations, c)
	}
	for i := range page.Conversations { // secrets may have become known since the file was read
		x.redact(&page.Conversations[i])
	}
	return page, nil
}

// refresh starts to read what may have changed. It returns channels that are
// closed once this is read.
func (x *Index) refresh(q Query) (running []<-chan struct{}) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.ctx.Err() != nil {
		return nil
	}
	x.loadOnce()
	for _, s := range x.sources {
		if !s.concerns(q) {
			continue
		}
		if s.running == nil && s.due(q) {
			x.start(s, !q.rest && (q.unsure || !s.isKnown()))
		}
		if s.running != nil && q.After == "" {
			running = append(running, s.running)
		}
	}
	return running
}

// loadOnce reads the stored index. The caller holds mu.
func (x *Index) loadOnce() {
	if !x.loaded {
		x.load()
		x.loaded = true
	}
}

// start starts an update of a source, of which none runs. The caller holds mu.
func (x *Index) start(s *source, all bool) {
	if all && x.watcher != nil && !s.walked.IsZero() && time.Since(s.walked) >= compareEvery {
		x.watcher.Rescan()
	}
	done, j := make(chan struct{}), s.take(all)
	s.running = done
	x.work.Go(func() { x.update(s, j, done) })
}

// look reads what may have changed, and waits for at most Config.MaxWait.
func (x *Index) look(ctx context.Context, q Query) error {
	limited, cancel := context.WithTimeout(ctx, x.cfg.MaxWait)
	defer cancel()
	if err := x.lookFor(limited, q); err != nil {
		return ctx.Err()
	}
	return nil
}

// lookFor reads what may have changed. It returns an error if ctx ends first.
func (x *Index) lookFor(ctx context.Context, q Query) error {
	q.unsure = q.After == "" && !x.sync(ctx)
	if err := await(ctx, x.refresh(q)); err != nil {
		return err
	}
	q.rest = true // files that changed while an earlier update ran
	return await(ctx, x.refresh(q))
}

// await waits until all channels are closed. It returns an error if ctx ends
// first.
func await(ctx context.Context, running []<-chan struct{}) error {
	for _, done := range running {
		select {
		case <-done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// update runs one source, and stores the index if it has changed much.
func (x *Index) update(s *source, j job, done chan struct{}) {
	err := s.update(x.ctx, x, j)
	if err != nil && x.ctx.Err() == nil && !s.failed { // failed belongs to the running update
		x.cfg.Logger.Warn("the stored conversations of an agent cannot be listed", "agent", s.cliType, "error", x.cfg.Redact(runnel.Safe(err).Message))
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	s.running, s.ended, s.failed = nil, time.Now(), err != nil
	if err != nil && !j.all {
		s.again = true
	}
	busy := slices.ContainsFunc(x.sources, func(s *source) bool { return s.running != nil })
	if !busy && time.Since(x.saved) > saveEvery {
		x.save()
	}
	close(done)
}

// sorted returns all conversations, each once. The caller holds mu and must not
// change the slice.
func (x *Index) sorted() []Conversation {
	if x.list != nil {
		return x.list
	}
	all := []Conversation{}
	for _, s := range x.sources {
		all = append(all, s.conversations(nil)...)
	}
	slices.SortFunc(all, order)
	x.list = all
	return all
}

// order sorts the newest change first.
func order(a, b Conversation) int {
	return cmp.Or(b.UpdatedAt.Compare(a.UpdatedAt), cmp.Compare(a.CLIType, b.CLIType), cmp.Compare(a.AgentSessionID, b.AgentSessionID))
}

// cursor returns the position after c in the list.
func cursor(c Conversation) string {
	at := strconv.FormatInt(c.UpdatedAt.UnixNano(), 10)
	if c.UpdatedAt.IsZero() {
		at = ""
	}
	return base64.RawURLEncoding.EncodeToString([]byte(at + " " + c.CLIType + " " + c.AgentSessionID))
}

// parseCursor returns a conversation at the position of a cursor, or nil for
// "".
func parseCursor(s string) (*Conversation, error) {
	if s == "" {
		return nil, nil
	}
	invalid := runnel.Fail(runnel.InvalidRequest, "after: is not a position in this list; use next of the page before")
	data, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		return nil, invalid
	}
	at, rest, _ := strings.Cut(string(data), " ")
	cliType, id, found := strings.Cut(rest, " ")
	c := Conversation{CLIType: cliType, AgentSessionID: id}
	if at != "" {
		n, err := strconv.ParseInt(at, 10, 64)
		if err != nil {
			return nil, invalid
		}
		c.UpdatedAt = time.Unix(0, n).UTC()
	}
	if !found {
		return nil, invalid
	}
	return &c, nil
}

// describe returns what the index keeps of a conversation, bounded and without
// known secrets. ok is false if the conversation cannot be named.
func (x *Index) describe(cliType string, c runnel.Conversation) (out Conversation, ok bool) {
	if c.AgentSessionID == "" || len(c.AgentSessionID) > event.MaxAgentSessionID || len(c.Dir) > event.MaxPath {
		return Conversation{}, false
	}
	out = Conversation{
		CLIType: cliType, AgentSessionID: strings.ToValidUTF8(c.AgentSessionID, "�"), ProjectDir: strings.ToValidUTF8(c.Dir, "�"), Title: c.Title, LastMessage: c.LastMessage,
		CreatedAt: plausible(c.CreatedAt), UpdatedAt: plausible(c.UpdatedAt), Size: max(c.Size, 0),
	}
	x.redact(&out)
	for _, kept := range []*string{&out.AgentSessionID, &out.ProjectDir, &out.Title, &out.LastMessage} {
		*kept = strings.Clone(*kept) // it may be a piece of a long text
	}
	return out, true
}

// redact removes secrets from the texts of a conversation.
func (x *Index) redact(c *Conversation) {
	c.Title = text.OneLine(x.cfg.Redact(text.OneLine(c.Title, maxText)), maxText)
	c.LastMessage = text.OneLine(x.cfg.Redact(text.OneLine(c.LastMessage, maxText)), maxText)
	c.ProjectDir = x.cfg.Redact(c.ProjectDir)
}

// plausible returns a time of an agent's file in UTC. It returns the zero time
// for one that is impossible: before 1970, or more than a day in the future.
func plausible(t time.Time) time.Time {
	if t.Unix() < 0 || time.Until(t) > 24*time.Hour {
		return time.Time{}
	}
	return t.UTC()
}
