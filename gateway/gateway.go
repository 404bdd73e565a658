package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/attach"
	"github.com/runnel-dev/runnel/audit"
	"github.com/runnel-dev/runnel/changes"
	"github.com/runnel-dev/runnel/files"
	"github.com/runnel-dev/runnel/gateway/conversations"
	"github.com/runnel-dev/runnel/gateway/detect"
	"github.com/runnel-dev/runnel/gateway/once"
	"github.com/runnel-dev/runnel/gateway/policy"
	"github.com/runnel-dev/runnel/gateway/prewarm"
	"github.com/runnel-dev/runnel/internal/wake"
	"github.com/runnel-dev/runnel/profile"
	"github.com/runnel-dev/runnel/store"
)

// Config configures a Gateway. Log, Catalogue and Providers are required.
type Config struct {
	Log       runnel.Log
	Catalogue store.Catalogue
	Providers []runnel.Provider

	DataDir         string        // directory of the server's own files. No project may contain it or lie in it. Default: none, and uploads are rejected
	Protected       []string      // further paths that no sandbox of an agent contains, such as that of the configuration. Default: none
	RefusedPorts    []int         // ports of this machine that no sandbox reaches: those of the server itself. Default: none
	TrustedDirs     []string      // directories whose settings may run code, including all directories below them. Default: none
	AllowBypass     bool          // clients may use the permission mode that never asks. Default: false
	ApprovalTimeout time.Duration // see runnel.Config. Default: no timeout
	StallTimeout    time.Duration // see runnel.Config. Default: 90 s; negative: never
	ReattachWindow  time.Duration // how long an agent with a running turn waits for the next server process. Default: 60 s; negative: agents do not wait
	IdleTimeout     time.Duration // time after which the agent of an idle session is stopped; the next prompt resumes the session. Default: 15 min; negative: never

	// Prewarm is the maximum number of prewarmed agents: one for each of the
	// most recently used pool keys (kind of agent, directory, options).
	// Default: none.
	Prewarm    int
	PrewarmAge time.Duration // maximum age of an unused prewarmed agent. Default: 10 min

	// Options are the options from the server's configuration and environment,
	// strongest source first. A session's own options override them. Default:
	// none.
	Options []profile.Source

	ProfilesDir string // folder of the profiles that every project can use. Default: none
	Profile     string // profile in ProfilesDir for new sessions that choose none. Default: none

	// GovernedDelegation lets the agents of sessions with governed delegation
	// start a subagent if every check of package profile (every gate) permits
	// it. Default: these agents start no subagents.
	GovernedDelegation bool

	// Conversations lists the conversations that agents have stored; see
	// [ConversationsOf]. With Search, it also indexes their items if they can be
	// read from files. Default: none are listed.
	Conversations bool

	// Search is the index that [SearchOf] searches. It must belong to Log. The
	// gateway does not close it. Default: none, and nothing is found.
	Search store.SearchIndex

	// KeepUnknown is how many messages of each unknown type of each agent are
	// kept, without known secrets, in UnknownFile; at most MaxKeepUnknown.
	// Default: none, and the file is deleted.
	KeepUnknown int

	// MCPWrites permits changes of the MCP servers in the configurations of
	// agents; see [MCPOf]. Default: they can only be listed.
	MCPWrites bool

	Limits Limits // Default: none

	Retention RetentionPolicy // which sessions are deleted, once an hour. Default: none

	// Sealer encrypts the definitions of MCP servers before they are stored in
	// the catalogue. Default: they are stored unencrypted.
	Sealer Sealer

	// Filter is the runnel.Options.Filter of every session. Default: none.
	Filter func(runnel.Options) runnel.Filter

	// Audit is called with every decision about an approval. The session waits
	// for it. Default: Logger logs each decision.
	Audit func(audit.Record)

	// AuditDeletion is called before the retention policy deletes a session. If
	// it fails, the session stays. Default: Logger logs the deletion.
	AuditDeletion func(audit.Record) error

	Logger *slog.Logger // Default: discards
}

// setDefaults sets the fields that are zero, makes DataDir canonical and checks
// the default profile.
func (c *Config) setDefaults() error {
	if c.StallTimeout == 0 {
		c.StallTimeout = 90 * time.Second
	}
	if c.IdleTimeout == 0 {
		c.IdleTimeout = 15 * time.Minute
	}
	if c.ReattachWindow == 0 {
		c.ReattachWindow = time.Minute
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Audit == nil {
		c.Audit = audit.Line(c.Logger)
	}
	if c.AuditDeletion == nil {
		line := audit.Line(c.Logger)
		c.AuditDeletion = func(e audit.Record) error { line(e); return nil }
	}
	if c.DataDir != "" {
		dir, err := filepath.Abs(c.DataDir)
		if err != nil {
			return fmt.Errorf("data directory: %w", err)
		}
		c.DataDir = canonical(dir)
	}
	return c.checkDefaultProfile()
}

// A Gateway is safe for concurrent use.
//
// Six goroutines run until Close: one writes the catalogue (recordWriter), one
// writes checkpoints of long turns (checkpoints), one closes idle sessions
// (reaper), one prewarms agents (prewarm.Pool), one adds items to the search
// index (indexer) and one searches for conversations that other processes write
// (follows). With Config.Retention, another one deletes old sessions
// (Retention), and with Config.Conversations, another one adds conversations
// that are no sessions to the search index (natives), and three watch the
// agents' files (conversations.Index). Short-lived goroutines count uses of
// rules, open and close sessions, copy and list conversations, start the turns
// of queued prompts, probe agents and delete the files of removed worktrees.
// Close waits for all of them.
type Gateway struct {
	cfg      Config
	sessions *sessions
	opener   *opener
	creator  *creator
	importer *importer
	queue    *promptQueue
	rules    *rulebook
	records  *recordWriter
	feed     *feed
	uploads  *uploads
	pictures *sessionPictures
	hidden   *hiddenList
	detector *detect.Detector
	pool     *prewarm.Pool
	requests *once.Requests
	files    *files.Service
	stored   *conversations.Index // nil if Config.Conversations is not set

	checkpoints *checkpoints
	roster      *roster
	expired     deletionHook
	indexer     *indexer // nil if Config.Search is not set
	natives     *natives // nil if Config.Search or Config.Conversations is not set
	git         *changes.Git
	writers     *writers
	follows     *follows
	mcpWrites   sync.Mutex // serializes changes of the agents' MCP servers

	ctx  context.Context // of the gateway's goroutines
	stop context.CancelFunc
	work sync.WaitGroup //
}

// Open returns a Gateway after it has recovered the state that the previous
// process left: it closes unfinished turns, deletes sessions whose creation was
// not completed, and resumes the queues of prompts.
func Open(ctx context.Context, cfg Config) (*Gateway, error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, err
	}
	roster := &roster{catalogue: cfg.Catalogue, log: cfg.Log}
	cfg.Catalogue = rosterCatalogue{cfg.Catalogue, roster}
	uploads, err := openUploads(cfg.DataDir, cfg.Logger)
	if err != nil {
		return nil, err
	}
	images, err := openPictures(cfg.DataDir, cfg.Logger)
	if err != nil {
		uploads.close()
		return nil, err
	}
	hidden, err := openHidden(cfg.DataDir, cfg.Logger)
	if err != nil {
		uploads.close()
		images.close()
		return nil, fmt.Errorf("list of hidden conversations: %w", err)
	}
	stored, err := loadRules(ctx, cfg.Catalogue)
	if err != nil {
		uploads.close()
		images.close()
		return nil, err
	}
	g := &Gateway{
		cfg: cfg, rules: stored, roster: roster, git: changes.New(os.Environ()), uploads: uploads, pictures: images, hidden: hidden, feed: newFeed(), requests: once.New(cfg.Catalogue, cfg.Logger),
		records: newRecordWriter(cfg.Catalogue, reports{cfg.Catalogue, cfg.Log}, cfg.Logger),
	}
	g.ctx, g.stop = context.WithCancel(context.WithoutCancel(ctx))
	stored.log, stored.ctx, stored.work = cfg.Logger, g.ctx, &g.work
	projects := projects{cfg.DataDir, cfg.TrustedDirs}
	limits := newLimiter(cfg.Limits)
	g.sessions = newSessions(&g.work, limits)
	roster.sessions = g.sessions
	g.checkpoints = &checkpoints{log: cfg.Log, ctx: g.ctx, enter: g.sessions.enter, kick: wake.New(), behind: make(map[string]int64)}
	g.queue = &promptQueue{catalogue: cfg.Catalogue, log: cfg.Logger, ctx: g.ctx, sessions: g.sessions, projects: projects}
	g.sessions.opened = g.queue.startIfWaiting // otherwise nothing would start their turns
	g.detector = detect.New(g.ctx, &g.work, cfg.Providers, cfg.refused()...)
	g.opener = &opener{
		policy: policy.Sources{DenyRules: g.rules.denies, AllowRules: g.rules.allows}, rules: g.rules, checkpoints: g.checkpoints,
		cfg: &g.cfg, ctx: g.ctx, providers: detect.NewIndex(cfg.Providers), detector: g.detector, projects: projects,
		feed: g.feed, records: g.records, queue: g.queue, limits: limits, counters: make(map[string]*runnel.Counters), tally: new(tally),
		captures: newCaptures(cfg.DataDir, cfg.Logger), unknowns: openUnknowns(cfg),
		egress: newEgressRecords(cfg.DataDir, cfg.Logger), denials: newDenialRecords(cfg.DataDir, cfg.Logger), pictures: images,
	}
	for _, p := range cfg.Providers {
		g.opener.counters[p.Name()] = new(runnel.Counters)
	}
	g.creator = &creator{g.opener, g.sessions}
	g.writers = newWriters(g.opener.providers)
	g.queue.renew, g.queue.recall = g.opener.renew, g.opener.recall
	g.queue.refresh = func(ctx context.Context, e *entry) { g.opener.stopOutdated(ctx, e) }
	g.importer = &importer{opener: g.opener, sessions: g.sessions, writers: g.writers, hidden: hidden}
	g.follows = &follows{opener: g.opener, sessions: g.sessions, importer: g.importer, writers: g.writers, queue: g.queue, active: make(map[string]*follow), missed: make(map[string]time.Time)}
	g.queue.inUse = g.follows.free
	g.pool = prewarm.New(g.ctx, prewarm.Config{Size: cfg.Prewarm, MaxAge: cfg.PrewarmAge, Start: g.opener.startForPool, Logger: cfg.Logger})
	g.stored, g.files = openConversations(cfg), newFiles(cfg, projects)
	g.work.Go(func() { g.records.run(g.ctx) })
	g.work.Go(g.checkpoints.run)
	g.work.Go(func() { g.opener.denials.run(g.ctx) })
	if err := (&recovery{g.opener, g.sessions, g.queue, &g.cfg, g.follows, g.dropUnfinished}).run(ctx); err != nil {
		return nil, errors.Join(err, g.Close(ctx))
	}
	g.pictures.sweep(ctx, cfg.Catalogue)
	if cfg.DataDir != "" {
		g.work.Go(func() {
			if err := changes.FinishRemovals(g.opener.worktreesDir()); err != nil {
				cfg.Logger.Warn("files of removed worktrees cannot be deleted", "error", err)
			}
		})
	}
	if g.stored != nil {
		g.stored.Watch()
	}
	g.startIndexer()
	g.work.Go(func() { _, _ = g.roster.list(g.ctx) }) // reads the records, so that the first list is fast, too
	if cfg.IdleTimeout > 0 {
		r := &reaper{cfg.IdleTimeout, g.ctx, g.sessions, g.records, g.feed, g.uploads, g.requests, cfg.Logger}
		g.work.Go(r.run)
	}
	if cfg.Retention != (RetentionPolicy{}) {
		g.work.Go(func() { RetentionOf(g).run(g.ctx) })
	}
	if slices.ContainsFunc(cfg.Providers, func(p runnel.Provider) bool { _, ok := p.(runnel.Follower); return ok }) {
		g.work.Go(g.follows.watch)
	}
	if cfg.Prewarm > 0 {
		g.work.Go(func() { g.pool.Run(g.opener.lastKeys) })
	}
	return g, nil
}

// Close stops the agent of every session and ends running turns as cancelled.
// It returns once all goroutines of the Gateway have ended. If ctx ends first,
// it returns ctx's error and the work continues.
func (g *Gateway) Close(ctx context.Context) error { return g.end(ctx, false) }

// HandOver is like [Gateway.Close] but leaves every agent with a running turn
// to the next server process, for at most Config.ReattachWindow.
func (g *Gateway) HandOver(ctx context.Context) error { return g.end(ctx, true) }

func (g *Gateway) end(ctx context.Context, handOver bool) error {
	entries := g.sessions.close()
	g.detector.Close()

	done := make(chan struct{})
	go func() { // continues if ctx ends first
		defer close(done)
		var all sync.WaitGroup
		all.Go(g.pool.Close)
		for _, e := range entries {
			all.Go(func() {
				if !handOver && !e.session.Status().Followed || !e.session.Detach(ctx) { // another process continues a followed turn
					_ = e.session.Close()
				}
			})
		}
		all.Wait()
		g.stop()
		g.work.Wait()
		if g.stored != nil {
			g.stored.Close()
		}
		g.uploads.close()
		g.pictures.close()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("end the sessions: %w", ctx.Err())
	}
}

// Log returns the event log of all sessions. Readers follow it by session and
// position.
func (g *Gateway) Log() runnel.Log { return g.cfg.Log }

// Past returns the history of a session. A reader that folds items and has
// everything up to a position starts at the checkpoint that Past.Start returns.
func (g *Gateway) Past(id string) runnel.Past {
	return runnel.Past{Log: g.cfg.Log, Session: id, Start: func(ctx context.Context, at int64) (runnel.Checkpoint, error) {
		return g.checkpoints.before(ctx, id, at)
	}}
}

// Upload stores a file so that a later prompt can attach it.
func (g *Gateway) Upload(r io.Reader, name string) (attach.Upload, error) {
	return g.uploads.save(r, name)
}

// An Agent is a kind of agent this server can run; see package detect.
type Agent = detect.Agent

// Agents returns the kinds of agents in the order of Config.Providers, with
// what is known about each on this machine. If now is set, all agents are
// probed again; otherwise results may be some minutes old. See
// [detect.Detector.Agents] for how long Agents waits. If ctx is done, Agents
// returns at once.
func (g *Gateway) Agents(ctx context.Context, now bool) []Agent {
	list := g.detector.Agents(ctx, now)
	if !g.cfg.AllowBypass {
		for i := range list {
			list[i].Modes = slices.DeleteFunc(slices.Clone(list[i].Modes), func(mode string) bool { return mode == string(runnel.ModeBypass) })
		}
	}
	return list
}

func errClosing() error {
	return runnel.Fail(runnel.StoreUnavailable, "the server is shutting down; try again when it is back")
}

// storeError converts an error of the catalogue or the log to the error that
// clients see.
func storeError(err error) error {
	if e, ok := errors.AsType[*runnel.Error](err); ok {
		return e
	}
	if errors.Is(err, store.ErrInvalidEvent) {
		return runnel.Safe(err)
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return runnel.Fail(runnel.StoreUnavailable, "the server cannot read or write its data now; see its log", err)
}
