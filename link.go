package runnel

import (
	"context"
	"maps"
	"slices"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/universal"
)

// A link is the session's connection to one running agent. Its goroutine read
// waits in Conn.Next, and becomes the session's actor for the events that
// arrive. It ends when Next returns an error or the session has unlinked it.
type link struct {
	conn    Conn
	memory  BufferedConn  // conn; nil if it is no BufferedConn
	ahead   chan arrival  // what readAhead has read; nil if conn is a BufferedConn
	quit    chan struct{} // closed once the session takes no more events from the link
	closing bool          // beginClose was called; used by the actor only
	filter  Filter        // of the agent's events; used by the actor only
	out     []arrival     // buffer of screened; used by the actor only
	closed  chan struct{} // closed once Conn.Close has returned
	release func()        // returned by Config.Reserve
	counted reachCount    // decisions of rules about hosts outside of turns; used by the actor only
}

// An arrival is one result of Conn.Next.
type arrival struct {
	ev  event.Event
	err error
}

// newLink returns a link that reads from conn.
func newLink(s *Session, conn Conn, release func()) *link {
	l := makeLink(s, conn, release)
	l.start(s)
	return l
}

// makeLink returns a link that does not read until its start is called.
func makeLink(s *Session, conn Conn, release func()) *link {
	l := &link{conn: conn, release: release, quit: make(chan struct{}), closed: make(chan struct{}), filter: s.opt.filter()}
	var ok bool
	if l.memory, ok = conn.(BufferedConn); !ok {
		l.ahead = make(chan arrival, 256)
	}
	if e, ok := conn.(EgressAsker); ok {
		e.OnEgress(s.reacher(l))
	}
	return l
}

func (l *link) start(s *Session) {
	if l.ahead != nil {
		s.helpers.Go(func() { l.readAhead(s.ctx) })
	}
	s.helpers.Go(func() { l.read(s) })
}

func (l *link) read(s *Session) {
	for {
		ev, err := l.next(s.ctx)
		if !s.receive(l, ev, err) {
			return
		}
	}
}

// next waits for the next event.
func (l *link) next(ctx context.Context) (event.Event, error) {
	if l.ahead == nil {
		return l.conn.Next(ctx)
	}
	select {
	case a := <-l.ahead:
		return a.ev, a.err
	case <-l.quit:
		return event.Event{}, errEnded()
	}
}

// buffered returns what next would return, if that does not wait.
func (l *link) buffered() (ev event.Event, err error, ok bool) {
	if l.ahead == nil {
		ev, ok = l.memory.Buffered()
		return ev, nil, ok
	}
	select {
	case a := <-l.ahead:
		return a.ev, a.err, true
	default:
		return event.Event{}, nil, false
	}
}

// readAhead reads the events of a Conn that does not tell what it has in memory.
func (l *link) readAhead(ctx context.Context) {
	for {
		ev, err := l.conn.Next(ctx)
		select {
		case l.ahead <- arrival{ev, err}:
		case <-l.quit:
			return
		}
		if err != nil {
			return
		}
	}
}

// beginClose begins to close the connection. Until the agent exits, the session
// still receives its events.
func (l *link) beginClose(s *Session) {
	if l.closing {
		return
	}
	l.closing = true
	s.helpers.Go(func() {
		_ = l.conn.Close()
		s.noteExit(l.conn)
		l.release()
		close(l.closed)
	})
}

// noteExit stores and returns the exit status of an agent's process; nil if the
// status is not known yet.
func (s *Session) noteExit(conn Conn) *ExitStatus {
	x, ok := conn.(Exiter)
	if !ok {
		return nil
	}
	st, ok := x.ExitStatus()
	if !ok {
		return nil
	}
	s.lastExit.Store(&st)
	return &st
}

// openedMsg is the result of a start of the agent by Session.open.
type openedMsg struct {
	conn    Conn
	release func()  // see Config.Reserve
	opt     Options // with which the agent was started
	afresh  string  // why the agent could not resume and has a new conversation; else ""
	err     error
}

// open begins to start an agent unless a start is already under way. attach
// receives the result. The start waits until the previous agent has
// exited, because a conversation must have only one writer.
func (s *Session) open() {
	if s.opening != nil {
		return
	}
	before := s.gone
	if s.link != nil {
		before = s.link.closed
	}
	ctx, cancel := context.WithCancel(s.ctx)
	s.opening = cancel
	opt := s.opt
	opt.Resume = s.facts.agentSessionID
	opt.Fork = opt.Fork && opt.Resume == s.first.Resume // copy only once
	s.helpers.Go(func() {
		defer cancel()
		<-before
		release, err := s.cfg.Reserve(false)
		if err != nil {
			s.do(func() { s.attach(openedMsg{opt: opt, err: err}) })
			return
		}
		conn, err := startConn(ctx, s.provider, opt)
		afresh := s.whyAfresh(ctx, opt, err)
		if afresh != "" { // otherwise every later prompt would fail
			opt.Resume = ""
			conn, err = startConn(ctx, s.provider, opt)
		}
		if err != nil {
			release()
			err = s.cfg.StartFailed(err)
		}
		s.do(func() { s.attach(openedMsg{conn, release, opt, afresh, err}) })
	})
}

// whyAfresh returns why the agent, whose start with opt failed with err, may
// begin a new conversation instead; "" if it may not.
func (s *Session) whyAfresh(ctx context.Context, opt Options, err error) string {
	if opt.Resume == "" || opt.OneTurn || opt.Fork {
		return ""
	}
	switch CodeOf(err) {
	case UnsupportedCapability:
		return "This agent cannot resume a conversation after its process has ended."
	case SessionNotFound:
		if s.isUnstored(ctx, opt.Resume) {
			return "The agent ended before it had stored the conversation."
		}
	}
	return ""
}

// isUnstored reports whether an agent of this session named the conversation, and
// may have ended before it stored it: no turn has completed.
func (s *Session) isUnstored(ctx context.Context, conversation string) (named bool) {
	for ev, err := range s.log.Read(ctx, s.id, 0) {
		if err != nil {
			return false
		}
		switch b := ev.Body.(type) {
		case event.SessionUpdated:
			named = named || b.AgentSessionID == conversation
		case event.ResponseDone:
			if b.Status == event.StatusCompleted {
				return false
			}
		}
	}
	return named
}

// attach connects the agent that open started, and sends it the waiting prompt.
// If the start failed, attach ends the waiting turn with the error.
func (s *Session) attach(o openedMsg) {
	s.opening = nil
	defer func() {
		for _, reply := range s.departing {
			reply <- answer[bool]{value: s.detach()}
		}
		s.departing = nil
		s.replyStarted(o.err)
	}()
	// Events of the previous agent that have not arrived yet are dropped.
	s.endTurns(Fail(ProcessCrash, "the agent was ended in the middle of the turn; send again to resume the conversation"))
	if o.err == nil {
		s.link, s.returned, s.given = newLink(s, o.conn, o.release), Settings{}, startedWith(o.opt)
		if len(s.closing) > 0 {
			s.link.beginClose(s)
			return
		}
		if s.cfg.AgentStarted != nil {
			s.cfg.AgentStarted(s.opt)
		}
		if o.afresh != "" {
			s.facts.agentSessionID = ""
			s.handleOutOfTurn(forgotten(o.afresh))
			if s.flush() != nil {
				return
			}
		}
		if s.catchUp(o.opt) != nil {
			s.link.beginClose(s) // prompt then starts another agent
		}
	}
	for _, lt := range slices.Clone(s.live) {
		switch {
		case lt.prompt == nil:
		case o.err != nil:
			s.fail(lt, Safe(o.err))
		default:
			s.prompt(lt)
		}
	}
}

// catchUp sends a newly started agent the settings that the session has changed
// during the start. opt are the options of the start.
func (s *Session) catchUp(opt Options) error {
	late := Settings{Config: make(Values)}
	if s.opt.Model != opt.Model {
		late.Model = s.opt.Model
	}
	if s.opt.PermissionMode != opt.PermissionMode {
		late.PermissionMode = s.opt.PermissionMode
	}
	if s.opt.ReasoningEffort != opt.ReasoningEffort {
		late.ReasoningEffort = s.opt.ReasoningEffort
	}
	if s.opt.ThinkingDisplay != opt.ThinkingDisplay {
		late.ThinkingDisplay = s.opt.ThinkingDisplay
	}
	for id, value := range s.opt.Config {
		if opt.Config[id] != value {
			late.Config[id] = value
		}
	}
	return s.setLive(late)
}

// checkLive returns the error with which the running agent would reject one of
// the settings; nil if it accepts all. It changes nothing.
func (s *Session) checkLive(set Settings) error {
	if err := checkSetters(s.link.conn, set); err != nil {
		return err
	}
	if c, ok := s.link.conn.(SettingsChecker); ok && !set.IsZero() {
		if err := c.CheckSettings(set); err != nil {
			return Safe(err)
		}
	}
	return nil
}

// checkSetters fails with UNSUPPORTED_CAPABILITY if conn lacks the method that
// changes one of the settings. It calls no method.
func checkSetters(conn Conn, set Settings) error {
	if _, ok := conn.(ModelSetter); set.Model != "" && !ok {
		return unsettable("model")
	}
	if _, ok := conn.(ModeSetter); set.PermissionMode != "" && !ok {
		return unsettable("permission mode")
	}
	if _, ok := conn.(EffortSetter); set.ReasoningEffort != "" && !ok {
		return unsettable("reasoning effort")
	}
	if _, ok := conn.(ConfigSetter); len(set.Config) > 0 && !ok {
		return unsettable("configuration")
	}
	if _, ok := conn.(ThinkingDisplayer); set.ThinkingDisplay != "" && !ok {
		return unsettable("display of its reasoning")
	}
	if _, ok := conn.(ToolDisallower); set.DisallowedTools != nil && !ok {
		return unsettable("disallowed tools")
	}
	return nil
}

// setLive sends the running agent the settings that differ from its own.
func (s *Session) setLive(set Settings) error {
	if err := s.checkLive(set); err != nil {
		return err
	}
	set = s.given.missing(set)
	s.given.gave(set)
	conn := s.link.conn
	if set.Model != "" {
		if err := conn.(ModelSetter).SetModel(s.ctx, set.Model); err != nil {
			return Safe(err)
		}
	}
	if set.PermissionMode != "" {
		if err := conn.(ModeSetter).SetPermissionMode(s.ctx, set.PermissionMode); err != nil {
			return Safe(err)
		}
	}
	if set.ReasoningEffort != "" {
		if err := conn.(EffortSetter).SetReasoningEffort(s.ctx, set.ReasoningEffort); err != nil {
			return Safe(err)
		}
	}
	if set.ThinkingDisplay != "" {
		if err := conn.(ThinkingDisplayer).SetThinkingDisplay(s.ctx, set.ThinkingDisplay); err != nil {
			return Safe(err)
		}
	}
	if set.DisallowedTools != nil {
		if err := conn.(ToolDisallower).SetDisallowedTools(s.ctx, union(s.opt.ServerDisallowedTools, set.DisallowedTools)); err != nil {
			return Safe(err)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(set.Config)) {
		if err := conn.(ConfigSetter).SetConfig(s.ctx, id, set.Config[id]); err != nil {
			return Safe(err)
		}
	}
	return nil
}

func unsettable(what string) error {
	return Fail(UnsupportedCapability, "this agent cannot change the "+what+" of a live session")
}

// unlink stops the agent in the background. The session receives no more of its
// events.
func (s *Session) unlink() {
	if s.link == nil {
		return
	}
	s.link.beginClose(s)
	close(s.link.quit)
	s.endCount(&s.link.counted)
	s.gone, s.link = s.link.closed, nil
}

// AwaitExit waits until the agent that the session stopped, or whose output
// ended, has exited with all its descendants. It returns at once while an agent
// runs, or if none ever ran.
func (s *Session) AwaitExit(ctx context.Context) error {
	if err := s.take(ctx); err != nil {
		return err
	}
	exited := s.gone
	if s.link != nil && s.link.closing {
		exited = s.link.closed
	}
	s.pass()
	select {
	case <-exited:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// startConn checks the options again and starts an agent. The options may have
// been checked by another version of the server. Directories of AddDirs that
// were removed since are not an error here; the agent itself may report them.
func startConn(ctx context.Context, p Provider, opt Options) (Conn, error) {
	if err := checkTaken(p, opt, nil); err != nil {
		return nil, err
	}
	return openConn(ctx, p, opt)
}

// openConn calls Provider.Open, or Forker.Fork if Options.Fork is set. Its
// errors are safe to show.
func openConn(ctx context.Context, p Provider, opt Options) (Conn, error) {
	open := p.Open
	if opt.Fork {
		f, ok := p.(Forker)
		if !ok { // possible if p is no OptionTaker
			return nil, lacks(DisplayName(p), "fork")
		}
		open = f.Fork
	}
	conn, err := open(ctx, opt)
	if err != nil {
		return nil, startError(p, opt, Safe(filterError(opt.filter(), err)))
	}
	return conn, nil
}

// startError completes the error with which a provider failed to start its
// agent.
func startError(p Provider, opt Options, err *Error) *Error {
	if err.Code == SessionNotFound && opt.Resume != "" {
		missing := *err
		missing.Message = universal.SessionNotFound + ": " + err.Message
		return &missing
	}
	return credentialDetails(p.Name(), err)
}

// closed is a channel that is always closed.
var closed = func() <-chan struct{} { c := make(chan struct{}); close(c); return c }()
