package runnel

import (
	"context"
	"maps"
	"slices"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/universal"
)

// A link is the session's tie to one running agent. Its goroutine read owns
// the calls of Conn.Next and ends when the agent does, or when quit is closed.
type link struct {
	conn    Conn
	in      chan arrival
	quit    chan struct{} // closed by unlink: nobody takes from in any more
	leaving bool          // Close was called; belongs to loop
	filter  Filter        // of what the agent says; belongs to read
	out     []arrival     // likewise
	closed  chan struct{} // closed once Conn.Close has returned
	release func()        // counts the agent out; see Config.Reserve
}

type arrival struct {
	ev  event.Event
	err error
}

// newLink starts to read from conn.
func newLink(s *Session, conn Conn, release func()) *link {
	l := makeLink(s, conn, release)
	l.start(s)
	return l
}

// makeLink is newLink before it starts to read.
func makeLink(s *Session, conn Conn, release func()) *link {
	return &link{conn: conn, release: release, in: make(chan arrival, 256), quit: make(chan struct{}), closed: make(chan struct{}), filter: s.opt.filter()}
}

func (l *link) start(s *Session) { s.helpers.Go(func() { l.read(s.ctx) }) }

func (l *link) read(ctx context.Context) {
	for {
		ev, err := l.conn.Next(ctx)
		for _, a := range l.screened(ev, err) {
			select {
			case l.in <- a:
			case <-l.quit:
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// leave begins to close the connection. What the agent still says is heard.
func (l *link) leave(s *Session) {
	if l.leaving {
		return
	}
	l.leaving = true
	s.helpers.Go(func() {
		_ = l.conn.Close()
		s.noteExit(l.conn)
		l.release()
		close(l.closed)
	})
}

// noteExit remembers how an agent's process ended, and returns it, once that is
// known: with its output's end, or when all that held it is gone.
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

type openedMsg struct {
	conn    Conn
	release func()  // see Config.Reserve
	opt     Options // it was started with
	afresh  bool    // although there was a conversation
	err     error
}

// open starts an agent for the prompt that waits. It comes back through
// opened; only one is under way at a time, and only after the agent before it
// has gone: a conversation has one writer.
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
	opt.Fork = opt.Fork && opt.Resume == s.first.Resume // until the copy has an id
	s.helpers.Go(func() {
		defer cancel()
		<-before
		release, err := s.cfg.Reserve(false)
		if err != nil {
			s.opened <- openedMsg{opt: opt, err: err}
			return
		}
		conn, err := startConn(ctx, s.provider, opt)
		afresh := opt.Resume != "" && CodeOf(err) == UnsupportedCapability && !opt.OneTurn && !opt.Fork
		if afresh { // else the session could never go on
			opt.Resume = ""
			conn, err = startConn(ctx, s.provider, opt)
		}
		if err != nil {
			release()
		}
		s.opened <- openedMsg{conn, release, opt, afresh, err}
	})
}

// attach takes the agent that open started.
func (s *Session) attach(o openedMsg) {
	s.opening = nil
	defer func() {
		for _, reply := range s.departing {
			reply <- answer[bool]{value: s.detach()}
		}
		s.departing = nil
		s.tellStarted(o.err)
	}()
	// What the agent before it still had to say has been overtaken.
	s.dismiss(Fail(ProcessCrash, "the agent was ended in the middle of the turn; send again to resume the conversation"))
	if o.err == nil {
		s.link, s.returned, s.given = newLink(s, o.conn, o.release), Settings{}, startedWith(o.opt)
		if len(s.closing) > 0 {
			s.link.leave(s)
			return
		}
		if s.cfg.Booted != nil {
			s.cfg.Booted(s.opt)
		}
		if o.afresh {
			s.facts.agentSessionID = ""
			s.between(forgotten("This agent cannot go on with a conversation after its process has ended."))
			if s.flush() != nil {
				return
			}
		}
		if s.catchUp(o.opt) != nil {
			s.link.leave(s) // no prompt has reached it: another takes its place
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

// catchUp tells the agent of settings that changed while it started with opt.
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

// checkLive returns the error with which the running agent would refuse one of
// the settings. It changes nothing.
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

// setLive tells the running agent of those settings that it does not have yet.
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
		if err := conn.(ToolDisallower).SetDisallowedTools(s.ctx, union(s.opt.Disallowed, set.DisallowedTools)); err != nil {
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

// unlink forgets the agent; its end goes on in the background.
func (s *Session) unlink() {
	if s.link == nil {
		return
	}
	s.link.leave(s)
	close(s.link.quit)
	s.gone, s.link = s.link.closed, nil
}

// startConn is openConn for options that were checked when the session began, by
// another version of the server perhaps. A further directory may have gone
// since, which is the agent's to notice.
func startConn(ctx context.Context, p Provider, opt Options) (Conn, error) {
	if err := checkTaken(p, opt, nil); err != nil {
		return nil, err
	}
	return openConn(ctx, p, opt)
}

// openConn is Provider.Open, or Forker.Fork where the options want a copy, with
// errors that are safe.
func openConn(ctx context.Context, p Provider, opt Options) (Conn, error) {
	open := p.Open
	if opt.Fork {
		f, ok := p.(Forker)
		if !ok { // which declares no options
			return nil, lacks(nameOf(p), "fork")
		}
		open = f.Fork
	}
	conn, err := open(ctx, opt)
	if err != nil {
		return nil, startError(p, opt, Safe(filterError(opt.filter(), err)))
	}
	return conn, nil
}

// startError completes the error of a provider that did not start its agent.
func startError(p Provider, opt Options, err *Error) *Error {
	if err.Code == SessionNotFound && opt.Resume != "" {
		missing := *err
		missing.Message = universal.SessionNotFound + ": " + err.Message
		return &missing
	}
	return credentialDetails(p.Name(), err)
}

// closed is a channel that is closed from the beginning.
var closed = func() <-chan struct{} { c := make(chan struct{}); close(c); return c }()
