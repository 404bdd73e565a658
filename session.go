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
// Its state belongs to its actor: the goroutine that holds the baton. Every
// method takes the baton, so methods may be called concurrently. While an agent
// runs, a goroutine calls Conn.Next and takes the baton for the events that it
// gets. Short-lived goroutines open or close a Conn, or call a Judge or an
// Approver.
//
// If the agent exits, the next Send starts it again and resumes the
// conversation.
type Session struct {
	id         string
	provider   Provider
	resumes    bool // whether the provider's agents can resume conversations
	log        Log
	cfg        Config
	first      Options // options with which the session was opened
	notAdopted error   // why Open did not take over an agent; not changed after Open
	counters   *Counters
	ctx        context.Context // of the session's own work; ends with it
	stop       context.CancelFunc
	baton      chan struct{}  // holds a token while a goroutine is the actor, see take
	ended      chan struct{}  // closed once nobody becomes the actor any more
	helpers    sync.WaitGroup // goroutines that the actor started

	// final is the status after the session has ended; it is written before
	// ended is closed.
	final Status

	// Only the actor uses the fields below.
	alarm      *time.Timer // calls ring; nil until the first use
	armed      time.Time   // when the alarm goes off; zero: not armed
	death      time.Time   // when Config.Lifetime is over; zero: never
	decided    []Decided   // since the last flush
	opt        Options
	head       int64
	live       []*liveTurn     // in the order they began; at most one is a prompt's
	link       *link           // nil: no agent
	gone       <-chan struct{} // closed once the previous agent has exited
	opening    context.CancelFunc
	closing    []chan error        // replies to pending Close calls
	starting   []chan error        // replies to pending Start calls
	departing  []chan answer[bool] // replies to Detach calls that wait for a start
	facts      facts
	returned   Settings // restored after turns, until the agent reports its own
	given      given    // settings sent to the agent
	batch      []event.Event
	recover    error           // the log failed; reconcile must succeed first
	retry      time.Time       // when tick calls reconcile; zero: only Send does
	pause      time.Duration   // backoff before retry
	endedTurns map[string]bool // turns that have ended
	lastExit   atomic.Pointer[ExitStatus]
	spent      *spent // by the turns that have ended; nil: not read from the log yet
	reach      reachState
	adopting   *adoption // set while an adopted agent replays its events
}

// Config is what a Session needs besides its agent. The zero value works.
type Config struct {
	ID  string // Default: a new UUID
	Log Log    // Default: a new Memory

	// Conn is an agent that was started with the same options and has received
	// no prompt. Open owns it, and closes it on an error. Default: Open starts
	// an agent.
	Conn Conn

	// ForgottenReason is the reason why the agent does not know the
	// conversation in the log. If it is set, Open logs a notice with it.
	// Default: no notice.
	ForgottenReason string

	// Dormant delays the start of the agent until the first prompt.
	Dormant bool

	// Adopt lets Open take over the agent that an earlier server process left
	// running, if there is one. Its turns then continue instead of being
	// closed.
	Adopt bool

	// Follow keeps the turns open that the log left open, because a process
	// outside of the session runs them; see [Session.Follow]. Default: they are
	// closed.
	Follow bool

	// InterruptGrace is the time that an agent has to end a turn after Cancel.
	// Then the session stops the agent. Default: 2 s.
	InterruptGrace time.Duration

	// Judge decides approvals before anyone else may answer. Default: anyone
	// may answer at once.
	Judge Judge

	// Asked is called when Judge has passed an approval, which Status contains
	// from then on. The restrictions of Recorded apply.
	Asked func()

	// ApprovalTimeout is the time after which an approval without an answer is
	// denied. Default: never. Negative: at once.
	ApprovalTimeout time.Duration

	// StallTimeout ends a turn as AGENT_STALLED if the agent emits no event for
	// that time while no approval is pending and no tool runs. Default: never.
	StallTimeout time.Duration

	// Lifetime is the time after which the session closes. A running turn then
	// ends as TIMEOUT. Default: no limit.
	Lifetime time.Duration

	// Changed is called with settings that the session has added to its
	// options, with which its next agents start. The restrictions of Recorded
	// apply.
	Changed func(Settings)

	// Annotate returns notices to log after an event of a turn, such as a
	// notice about a call that should not have run. The session calls it for
	// each event of a turn that has started and not ended. After a takeover it
	// first calls it with the logged events of the turns that continue, and
	// drops the notices. The restrictions of Recorded apply. Default: no
	// notices.
	Annotate func(event.Event) []event.Notice

	// Recorded is called with the events that were appended to the log. It is
	// called by the session's goroutine and must not block or call the session.
	Recorded func([]event.Event)

	// Decided is called with every resolved approval, after Recorded. Of the
	// decisions of rules about hosts, it gets the first one of each host and
	// port in a turn, and after 50 of them only their number, in the title. The
	// restrictions of Recorded apply.
	Decided func(Decided)

	// AgentStarted is called with the options of every agent that the session
	// starts after Open has returned. The restrictions of Recorded apply.
	AgentStarted func(Options)

	// StartFailed returns the error to report in place of err, with which an
	// agent did not start after Open has returned. The session calls it outside
	// of its actor. Default: err.
	StartFailed func(err error) error

	// TurnBudget returns the budget of a turn of its own that an earlier server
	// process started. Default: none.
	TurnBudget func(turn string) Budget

	// Exceeded returns an error if a running turn has stored too much; the turn
	// ends with that error. It is called after Recorded, whose restrictions
	// apply. Default: no limit.
	Exceeded func(turn string) *Error

	// Pictures stores the images of a prompt before the prompt is in the log, or
	// returns the error with which the prompt is rejected. The session calls
	// undo if the prompt is rejected for another reason. It is called by the
	// goroutine that sends the prompt. Default: images are only described.
	Pictures func(images [][]byte) (undo func(), err error)

	// Reserve reserves capacity for an agent before its start, or returns the
	// error with which the start fails. If running is true, the agent was left
	// running by an earlier server process, and Reserve must not fail. The
	// session calls release once the agent has exited. Default: no limit.
	Reserve func(running bool) (release func(), err error)

	warnings []event.Notice // logged at the beginning of the first turn
}

// Status is a snapshot of a session.
type Status struct {
	ID             string
	Provider       string
	Activity       event.Activity
	State          event.SessionState
	Turn           string // the running turn
	Followed       bool   // a process outside of the session runs that turn; see [Session.Follow]
	Head           int64  // position of the newest event
	Pending        []event.Approval
	AgentSessionID string
	ModelID        string
	PermissionMode string
	TurnSettings   Settings             // settings that the running turn alone has
	Config         []event.ConfigOption // settings that the agent offers
	AgentAlive     bool
	Resumes        bool        // the conversation can be resumed after its agent has exited
	Exit           *ExitStatus // of the last agent that ended
}

// Settings can be changed in a live session. Empty fields stay as they are.
type Settings struct {
	Model           string         `json:"model,omitzero"`
	PermissionMode  PermissionMode `json:"permissionMode,omitzero"`
	ReasoningEffort string         `json:"reasoningEffort,omitzero"`
	Config          Values         `json:"config,omitzero"`

	ThinkingDisplay ThinkingDisplay `json:"thinkingDisplay,omitzero"`

	// DisallowedTools are all that the agent does not get. For a turn they come
	// on top of those of the session. Default: as they are.
	DisallowedTools []string `json:"disallowedTools,omitzero"`

	// Budget and TurnBudget are not sent to the agent. Bounds that are zero stay
	// as they are. The Settings of a turn have no Budget.
	Budget     Budget `json:"budget,omitzero"`
	TurnBudget Budget `json:"turnBudget,omitzero"`
}

// IsZero reports whether s changes nothing.
func (s Settings) IsZero() bool {
	return s.Model == "" && s.PermissionMode == "" && s.ReasoningEffort == "" && len(s.Config) == 0 &&
		s.ThinkingDisplay == "" && s.DisallowedTools == nil && s.Budget.IsZero() && s.TurnBudget.IsZero()
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
	opt.Budget, opt.TurnBudget = s.Budget.or(opt.Budget), s.TurnBudget.or(opt.TurnBudget)
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

// Open starts an agent and returns a session with it. If the log already has
// events, the session continues it and closes unfinished turns as
// PROCESS_CRASH. Cancelling ctx after Open has returned does not close the
// session; Close does.
func Open(ctx context.Context, p Provider, opt Options, cfg Config) (*Session, error) {
	s, err := openSession(ctx, p, opt, cfg)
	if err != nil && cfg.Conn != nil {
		_ = cfg.Conn.Close()
	}
	return s, err
}

func openSession(ctx context.Context, p Provider, opt Options, cfg Config) (*Session, error) {
	if len(opt.Extensions) > 0 {
		return nil, Fail(InvalidRequest, "extensions: only Start accepts them; set the options themselves to open a session")
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
	if cfg.StartFailed == nil {
		cfg.StartFailed = func(err error) error { return err }
	}
	s := &Session{
		id: cfg.ID, provider: p, resumes: Require(p, CapSessionResume) == nil, log: cfg.Log, cfg: cfg, opt: opt, first: opt,
		counters: cmp.Or(opt.Counters, new(Counters)),
		gone:     closed, baton: make(chan struct{}, 1), ended: make(chan struct{}),
		endedTurns: make(map[string]bool),
		facts:      facts{agentSessionID: opt.Resume, modelID: opt.Model, permissionMode: string(opt.PermissionMode)},
	}
	s.ctx, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	s.baton <- struct{}{} // this goroutine is the actor until it calls begins
	if cfg.Adopt {
		if s.notAdopted = s.adopt(ctx); s.notAdopted == nil {
			s.begins()
			return s, nil
		}
	}
	begin := s.reconcile
	if cfg.Follow {
		begin = s.resumeFollowed
	}
	if err := begin(ctx); err != nil {
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
	if cfg.ForgottenReason != "" {
		s.stage(forgotten(cfg.ForgottenReason))
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
	s.begins()
	return s, nil
}

// begins passes the baton of a new session.
func (s *Session) begins() {
	if s.cfg.Lifetime > 0 {
		s.death = time.Now().Add(s.cfg.Lifetime)
	}
	s.pass()
}

// admissible checks and returns the options of a new session. For a dormant or
// adopted session it checks only the permission mode, which the server may no
// longer allow. startConn checks the rest before it starts an agent.
func admissible(p Provider, opt Options, cfg Config) (Options, error) {
	if cfg.Dormant || cfg.Adopt {
		return opt, checkMode(checked{opt: &opt})
	}
	return CheckOptions(p, opt, nil)
}

// NotAdopted returns the reason why [Open] did not take over an agent although
// Config.Adopt was set, or nil. The reason may contain text of the agent.
func (s *Session) NotAdopted() error { return s.notAdopted }

// ID returns the session's id.
func (s *Session) ID() string { return s.id }

// Send begins a turn. It returns once the prompt is in the log, and does not
// wait for the agent. It fails with TURN_IN_PROGRESS if a turn is running.
func (s *Session) Send(ctx context.Context, in Input) (*Turn, error) {
	return s.SendWith(ctx, in, Settings{})
}

// SendWith is [Session.Send] with settings for this turn only. After the turn
// the session restores the previous settings. If the prompt or a setting is
// rejected, nothing changes. It fails with UNSUPPORTED_CAPABILITY for a setting
// that the agent cannot change while it runs.
func (s *Session) SendWith(ctx context.Context, in Input, set Settings) (*Turn, error) {
	if err := CheckPrompt("prompt", in.Text, len(in.Attachments)+len(in.Rejected)); err != nil {
		return nil, err
	}
	if strings.TrimSpace(in.Text) == "" { // models reject a prompt with files and blank text
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
	undo, err := s.keepPictures(in)
	if err != nil {
		return nil, err
	}
	turn, err := ask(ctx, s, func(reply chan answer[*Turn]) message { return sendMsg{in, set, reply} })
	if err != nil && ctx.Err() == nil { // else the session may still accept the prompt
		undo()
	}
	return turn, err
}

// CheckSettings returns the error with which SendWith would refuse settings
// now, or any prompt because the session has used up its budget. It changes
// nothing.
func (s *Session) CheckSettings(ctx context.Context, set Settings) error {
	_, err := ask(ctx, s, func(reply chan answer[struct{}]) message { return checkMsg{set, reply} })
	return err
}

// Cancel asks the agent to end the running turn. It does nothing if no turn
// runs. The turn ends as cancelled even if the agent ignores the request or
// fails.
func (s *Session) Cancel(ctx context.Context) error {
	_, err := ask(ctx, s, func(reply chan answer[struct{}]) message { return cancelMsg{reply} })
	return err
}

// Decide answers an approval. The first decision wins; others get
// APPROVAL_GONE.
func (s *Session) Decide(ctx context.Context, approval string, d Decision) error {
	_, err := ask(ctx, s, func(reply chan answer[struct{}]) message { return decideMsg{approval, d, reply} })
	return err
}

// Approval returns a pending approval, even while Config.Judge is deciding it.
// It fails with APPROVAL_GONE if the approval is not pending.
func (s *Session) Approval(ctx context.Context, id string) (event.Approval, error) {
	return ask(ctx, s, func(reply chan answer[event.Approval]) message { return approvalMsg{id, reply} })
}

// Set changes settings of the session and of its running agent. If one of the
// settings is rejected, none changes.
func (s *Session) Set(ctx context.Context, set Settings) error {
	_, err := ask(ctx, s, func(reply chan answer[struct{}]) message { return setMsg{set, reply} })
	return err
}

// Renew replaces the options with which the next agent of the session starts.
// It reports false, and changes nothing, if an agent runs or is starting.
func (s *Session) Renew(ctx context.Context, opt Options) (bool, error) {
	return ask(ctx, s, func(reply chan answer[bool]) message { return renewMsg{opt, reply} })
}

// Status returns a snapshot. It may also be called after the session has ended.
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

// Detach closes the session but leaves its agent and the running turn to a
// later server process; see Options.Takeover and Config.Adopt. It reports false
// and changes nothing if no turn runs or the agent cannot be detached.
func (s *Session) Detach(ctx context.Context) bool {
	ok, err := ask(ctx, s, func(reply chan answer[bool]) message { return detachMsg{reply} })
	if err != nil || !ok {
		return false
	}
	<-s.ended
	return true
}

// Close stops the agent and ends the session. A running turn ends as cancelled.
// Close returns once the agent and all its descendants have ended. It may be
// called more than once.
func (s *Session) Close() error {
	reply := make(chan error, 1)
	if s.request(context.Background(), closeMsg{reply}) != nil {
		return nil // it has ended
	}
	err := <-reply
	<-s.ended
	return err
}

// Done is closed once the session has ended.
func (s *Session) Done() <-chan struct{} { return s.ended }

// message is a request to the actor.
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
func (approvalMsg) message() {}
func (setMsg) message()      {}
func (renewMsg) message()    {}
func (statusMsg) message()   {}
func (releaseMsg) message()  {}
func (detachMsg) message()   {}
func (closeMsg) message()    {}

// request handles a message as the actor. It returns an error, without handling the
// message, if the session has ended or ctx ends before that.
func (s *Session) request(ctx context.Context, m message) error {
	if err := s.take(ctx); err != nil {
		return err
	}
	defer s.pass()
	s.handle(m)
	return nil
}

// ask handles a message as the actor and waits for its reply. ctx only bounds
// the wait for the baton, because every message then gets a reply. The reply to
// a decision may wait for Config.Judge.
func ask[T any](ctx context.Context, s *Session, m func(chan answer[T]) message) (T, error) {
	var zero T
	reply := make(chan answer[T], 1)
	if err := s.request(ctx, m(reply)); err != nil {
		return zero, err
	}
	a := <-reply
	return a.value, a.err
}

func errEnded() *Error {
	return Fail(SessionDead, "the session has ended; start a new one or load it again")
}
