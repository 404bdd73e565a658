package runnel

import (
	"cmp"
	"context"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/runnel-dev/runnel/event"
)

// A Session is one conversation with one agent, and the only writer of its log.
//
// One goroutine, loop, owns all its state; every method sends loop a message
// and waits for its answer, so methods may be called from anywhere and no field
// needs a lock. Beside it run, while there is an agent, read, which calls
// Conn.Next, and for moments the goroutines that open and close a Conn or ask
// an Approver.
//
// The agent may come and go: if it ends, the next Send starts it again and
// resumes the conversation.
type Session struct {
	id       string
	provider Provider
	resumes  bool // every agent of provider
	log      Log
	cfg      Config
	first    Options // the session was opened with
	counters *Counters
	ctx      context.Context // of the session's own work; ends with it
	stop     context.CancelFunc
	box      chan message
	opened   chan openedMsg
	ended    chan struct{}  // closed by loop: no one listens to box any more
	helpers  sync.WaitGroup // goroutines that loop started

	// final is the status after loop has ended; it is written before ended is closed.
	final Status

	// The rest belongs to loop.
	decided   []Decided // since the last flush
	opt       Options
	head      int64
	live      []*liveTurn     // in the order they began; at most one is a prompt's
	link      *link           // nil: no agent
	gone      <-chan struct{} // closed once the agent before it has gone
	opening   context.CancelFunc
	closing   []chan error        // who waits for the end of the session
	starting  []chan error        // who waits for the start of the agent
	departing []chan answer[bool] // who waits to detach until the agent is there
	facts     facts
	returned  Settings // that the agent got back after turns with their own, until it reports settings
	given     given    // settings that the agent has from us
	batch     []event.Event
	recover   error           // the log failed; it has to be reconciled first
	retry     time.Time       // when tick tries that; zero: only the next Send does
	pause     time.Duration   // before that try
	over      map[string]bool // turns that have ended
	lastExit  atomic.Pointer[ExitStatus]
	adopting  *adoption // while what the log may have already comes in again
}

// Config is what a Session needs besides its agent. The zero value works.
type Config struct {
	ID  string // Default: a new UUID
	Log Log    // Default: a new Memory

	// Conn is an agent that was started with the same options and has seen no
	// prompt. Open takes it over, also if it fails. Default: one is started.
	Conn Conn

	// Forget says why the agent does not go on with the conversation that the log
	// has: a notice tells readers, as soon as the agent is there. Default: it
	// goes on, or there is none.
	Forget string

	// Dormant says not to start the agent before the first prompt.
	Dormant bool

	// Adopt says to take over the agent that a process before this one left, if
	// there is one. Its turns then go on instead of being closed.
	Adopt bool

	// InterruptGrace is how long an agent has to end a turn after Cancel before
	// it is ended itself. Default: 2 s.
	InterruptGrace time.Duration

	// Judge decides approvals before anybody else is asked. Default: everybody
	// else is asked at once.
	Judge Judge

	// Asked is called when Judge has passed and everybody else may answer an
	// approval: from then on Status has it. It is called as Recorded is.
	Asked func()

	// ApprovalTimeout is how long an approval waits for its answer before it is
	// denied. Default: for ever. Negative: it is denied at once.
	ApprovalTimeout time.Duration

	// StallTimeout ends a turn as AGENT_STALLED after a silence of that length
	// with no approval pending and no tool running. Default: never.
	StallTimeout time.Duration

	// Lifetime ends the session, and a running turn as TIMEOUT. Default: never.
	Lifetime time.Duration

	// Changed is told of settings that became the session's own, with which its
	// next agents start. It is called as Recorded is.
	Changed func(Settings)

	// Annotate returns notices that belong behind an event of a turn, such as one
	// about a call that should not have run. It is called by the session for each
	// event of a turn that has started and has not ended, and must not block or call
	// the session. After a takeover it is first called with what the log has of the
	// turns that go on; what it returns then is dropped. Default: no notices.
	Annotate func(event.Event) []event.Notice

	// Recorded is told of what was appended to the log. It is called by the
	// session and must not block or call it.
	Recorded func([]event.Event)

	// Decided is told of every approval that was resolved, after Recorded and as
	// Recorded is. Default: nobody is told.
	Decided func(Decided)

	// Booted is called with the options of every agent that the session starts
	// after Open has returned. It is called as Recorded is.
	Booted func(Options)

	// Exceeded returns the error with which a running turn has to end, because
	// of what it has stored; nil lets it go on. It is called as Recorded is,
	// after it. Default: turns may store any number of events.
	Exceeded func(turn string) *Error

	// Reserve counts in the session's agent before it is started, or returns the
	// error with which the start is refused. If running is true the agent was
	// left by a process before this one, and is not refused. The session calls
	// release once the agent has gone. Default: nothing is counted.
	Reserve func(running bool) (release func(), err error)

	warnings []event.Notice // that the first turn begins with, also if it fails before Annotate is asked
}

// Status is a snapshot of a session.
type Status struct {
	ID             string
	Provider       string
	Activity       event.Activity
	State          event.SessionState
	Turn           string // the running turn
	Head           int64  // position of the newest event
	Pending        []event.Approval
	AgentSessionID string
	ModelID        string
	PermissionMode string
	TurnSettings   Settings             // of the running turn alone
	Config         []event.ConfigOption // that the agent offers
	AgentAlive     bool
	Resumes        bool        // the conversation would go on if its agent ended
	Exit           *ExitStatus // of the last agent that ended
}

// Settings can be changed in a live session. Empty fields stay as they are.
type Settings struct {
	Model           string         `json:"model,omitzero"`
	PermissionMode  PermissionMode `json:"permissionMode,omitzero"`
	ReasoningEffort string         `json:"reasoningEffort,omitzero"`
	Config          Values         `json:"config,omitzero"`

	ThinkingDisplay ThinkingDisplay `json:"thinkingDisplay,omitzero"`

	// DisallowedTools are all that the agent does not get. For a turn they come on
	// top of those of the session. Default: as they are.
	DisallowedTools []string `json:"disallowedTools,omitzero"`
}

// IsZero reports whether s changes nothing.
func (s Settings) IsZero() bool {
	return s.Model == "" && s.PermissionMode == "" && s.ReasoningEffort == "" && len(s.Config) == 0 &&
		s.ThinkingDisplay == "" && s.DisallowedTools == nil
}

// Apply returns opt with the settings in it.
func (s Settings) Apply(opt Options) Options {
	if s.Model != "" {
		opt.Model = s.Model
	}
	if s.PermissionMode != "" {
		opt.PermissionMode = s.PermissionMode
	}
	if s.ReasoningEffort != "" {
		opt.ReasoningEffort = s.ReasoningEffort
	}
	if s.ThinkingDisplay != "" {
		opt.ThinkingDisplay = s.ThinkingDisplay
	}
	if s.DisallowedTools != nil {
		opt.DisallowedTools = s.DisallowedTools
	}
	if len(s.Config) > 0 {
		opt.Config = maps.Clone(opt.Config)
		if opt.Config == nil {
			opt.Config = make(Values)
		}
		maps.Copy(opt.Config, s.Config)
	}
	return opt
}

const (
	interruptGrace = 2 * time.Second
	// closeGrace is how long a turn waits for an agent that is being ended.
	closeGrace = 2800 * time.Millisecond
)

// Open starts an agent and returns a session with it. A log that has events
// already is continued: turns without an end are closed as PROCESS_CRASH.
// Cancelling ctx does not end the session; Close does.
func Open(ctx context.Context, p Provider, opt Options, cfg Config) (*Session, error) {
	s, err := openSession(ctx, p, opt, cfg)
	if err != nil && cfg.Conn != nil {
		_ = cfg.Conn.Close()
	}
	return s, err
}

func openSession(ctx context.Context, p Provider, opt Options, cfg Config) (*Session, error) {
	if len(opt.Extensions) > 0 {
		return nil, Fail(InvalidRequest, "extensions: only a run has them; give a session the options themselves")
	}
	opt, err := admissible(p, opt, cfg)
	if err == nil {
		opt, err = withConversation(ctx, p, opt)
	}
	if err != nil {
		return nil, err
	}
	warnOfBypass(opt)
	if cfg.Log == nil {
		cfg.Log = new(Memory)
	}
	if cfg.ID == "" {
		cfg.ID = uuid.Must(uuid.NewV7()).String()
	}
	if cfg.InterruptGrace == 0 {
		cfg.InterruptGrace = interruptGrace
	}
	if cfg.Reserve == nil {
		cfg.Reserve = func(bool) (func(), error) { return func() {}, nil }
	}
	s := &Session{
		id: cfg.ID, provider: p, resumes: Require(p, CapSessionResume) == nil, log: cfg.Log, cfg: cfg, opt: opt, first: opt,
		counters: cmp.Or(opt.Counters, new(Counters)),
		gone:     closed, box: make(chan message), opened: make(chan openedMsg), ended: make(chan struct{}),
		over:  make(map[string]bool),
		facts: facts{agentSessionID: opt.Resume, modelID: opt.Model, permissionMode: string(opt.PermissionMode)},
	}
	s.ctx, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	if cfg.Adopt && s.adopt(ctx) == nil {
		go s.loop()
		return s, nil
	}
	if err := s.reconcile(ctx); err != nil {
		s.stop()
		return nil, Safe(err)
	}
	conn, release := cfg.Conn, func() {}
	if conn != nil || !cfg.Dormant {
		if release, err = s.cfg.Reserve(false); err != nil {
			s.stop()
			return nil, Safe(err)
		}
	}
	if conn == nil && !cfg.Dormant {
		if conn, err = openConn(ctx, p, opt); err != nil {
			release()
			s.stop()
			return nil, err
		}
	}
	if cfg.Forget != "" {
		s.stage(forgotten(cfg.Forget))
		if err := s.flush(); err != nil {
			if conn != nil {
				_ = conn.Close()
			}
			release()
			s.stop()
			return nil, Safe(err)
		}
	}
	if conn != nil {
		s.link, s.given = newLink(s, conn, release), startedWith(opt)
	}
	s.cfg.Conn = nil
	go s.loop()
	return s, nil
}

// admissible returns the options with which a session may begin. A session that
// goes on was checked when it began: only what the server allows may have
// changed since, and a check of the rest follows before its agent starts again.
func admissible(p Provider, opt Options, cfg Config) (Options, error) {
	if cfg.Dormant || cfg.Adopt {
		return opt, checkMode(checked{opt: &opt})
	}
	return CheckOptions(p, opt, nil)
}

// ID returns the session's id.
func (s *Session) ID() string { return s.id }

// Send begins a turn. It returns once the prompt is in the log, and does not
// wait for the agent. It fails with TURN_IN_PROGRESS if a turn is running.
func (s *Session) Send(ctx context.Context, in Input) (*Turn, error) {
	return s.SendWith(ctx, in, Settings{})
}

// SendWith is Send, with settings for this turn alone: after the turn the agent
// gets back those that it had. If the prompt or one of the settings is refused,
// nothing is changed. It fails with UNSUPPORTED_CAPABILITY for a setting that the
// agent cannot change while it runs.
func (s *Session) SendWith(ctx context.Context, in Input, set Settings) (*Turn, error) {
	if err := CheckPrompt("prompt", in.Text, len(in.Attachments)+len(in.Rejected)); err != nil {
		return nil, err
	}
	if strings.TrimSpace(in.Text) == "" { // no text beside files: models refuse it
		in.Text = ""
	}
	in, err := s.accepted(ctx, in)
	if err != nil {
		return nil, err
	}
	if p, ok := s.provider.(Preparer); ok {
		if in, err = p.Prepare(ctx, in); err != nil {
			return nil, Safe(err)
		}
	}
	return ask(ctx, s, func(reply chan answer[*Turn]) message { return sendMsg{in, set, reply} })
}

// CheckSettings returns the error with which SendWith would refuse settings now.
// It changes nothing.
func (s *Session) CheckSettings(ctx context.Context, set Settings) error {
	_, err := ask(ctx, s, func(reply chan answer[struct{}]) message { return checkMsg{set, reply} })
	return err
}

// Cancel asks the agent to end the running turn; none is not an error. The
// turn ends as cancelled, also if the agent does not obey or fails meanwhile.
func (s *Session) Cancel(ctx context.Context) error {
	_, err := ask(ctx, s, func(reply chan answer[struct{}]) message { return cancelMsg{reply} })
	return err
}

// Decide answers an approval. The first decision wins; others get APPROVAL_GONE.
func (s *Session) Decide(ctx context.Context, approval string, d Decision) error {
	_, err := ask(ctx, s, func(reply chan answer[struct{}]) message { return decideMsg{approval, d, reply} })
	return err
}

// Approval returns an approval that is not resolved, also one that only
// Config.Judge may answer yet. It fails with APPROVAL_GONE.
func (s *Session) Approval(ctx context.Context, id string) (event.Approval, error) {
	return ask(ctx, s, func(reply chan answer[event.Approval]) message { return approvalMsg{id, reply} })
}

// Set changes settings, at once where the agent can. If one of them is refused,
// none is changed.
func (s *Session) Set(ctx context.Context, set Settings) error {
	_, err := ask(ctx, s, func(reply chan answer[struct{}]) message { return setMsg{set, reply} })
	return err
}

// Renew replaces the options with which the next agent of the session starts. It
// reports false, and changes nothing, if an agent runs or is starting.
func (s *Session) Renew(ctx context.Context, opt Options) (bool, error) {
	return ask(ctx, s, func(reply chan answer[bool]) message { return renewMsg{opt, reply} })
}

// Status returns a snapshot. It works after the session has ended too.
func (s *Session) Status() Status {
	st, err := ask(context.Background(), s, func(reply chan answer[Status]) message { return statusMsg{reply} })
	if err != nil {
		<-s.ended
		return s.final
	}
	return st
}

// Release ends the agent's process but not the session: the next Send starts
// it again. It fails with TURN_IN_PROGRESS if a turn is running.
func (s *Session) Release(ctx context.Context) error {
	_, err := ask(ctx, s, func(reply chan answer[struct{}]) message { return releaseMsg{reply} })
	return err
}

// Detach ends the session but leaves its agent running, if a turn is, for a
// process after this one (see Options.Keep and Config.Adopt). It reports false,
// and has done nothing, if that cannot be.
func (s *Session) Detach(ctx context.Context) bool {
	ok, err := ask(ctx, s, func(reply chan answer[bool]) message { return detachMsg{reply} })
	if err != nil || !ok {
		return false
	}
	<-s.ended
	return true
}

// Close ends the agent and the session. A running turn ends as cancelled. It
// returns when the agent and everything it started are gone, and may be called
// more than once.
func (s *Session) Close() error {
	reply := make(chan error, 1)
	select {
	case s.box <- closeMsg{reply}:
		err := <-reply
		<-s.ended
		return err
	case <-s.ended:
		return nil
	}
}

// Done is closed once the session has ended.
func (s *Session) Done() <-chan struct{} { return s.ended }

// message is what loop takes from its mailbox.
type message interface{ message() }

type answer[T any] struct {
	value T
	err   error
}

type (
	sendMsg struct {
		in    Input
		set   Settings
		reply chan answer[*Turn]
	}
	checkMsg struct {
		set   Settings
		reply chan answer[struct{}]
	}
	cancelMsg struct{ reply chan answer[struct{}] }
	decideMsg struct {
		id    string
		d     Decision
		reply chan answer[struct{}]
	}
	approvalMsg struct {
		id    string
		reply chan answer[event.Approval]
	}
	verdictMsg struct { // of Config.Judge; has no answer
		id string
		d  Decision
		ok bool
	}
	setMsg struct {
		set   Settings
		reply chan answer[struct{}]
	}
	renewMsg struct {
		opt   Options
		reply chan answer[bool]
	}
	statusMsg  struct{ reply chan answer[Status] }
	releaseMsg struct{ reply chan answer[struct{}] }
	detachMsg  struct{ reply chan answer[bool] }
	closeMsg   struct{ reply chan error }
)

func (sendMsg) message()     {}
func (checkMsg) message()    {}
func (cancelMsg) message()   {}
func (decideMsg) message()   {}
func (verdictMsg) message()  {}
func (approvalMsg) message() {}
func (setMsg) message()      {}
func (renewMsg) message()    {}
func (statusMsg) message()   {}
func (releaseMsg) message()  {}
func (detachMsg) message()   {}
func (closeMsg) message()    {}

// ask posts a message and waits for its answer. Once loop has taken the
// message it always answers, so that ctx only bounds the wait for that; an answer to an
// approval waits for Config.Judge.
func ask[T any](ctx context.Context, s *Session, m func(chan answer[T]) message) (T, error) {
	var zero T
	reply := make(chan answer[T], 1)
	select {
	case s.box <- m(reply):
	case <-s.ended:
		return zero, errEnded()
	case <-ctx.Done():
		return zero, ctx.Err()
	}
	a := <-reply
	return a.value, a.err
}

func errEnded() *Error {
	return Fail(SessionDead, "the session has ended; start a new one or load it again")
}
