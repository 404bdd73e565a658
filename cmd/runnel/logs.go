package main

import (
	"context"
	"errors"
	"io"
	"iter"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/internal/livescreen"
	"github.com/runnel-dev/runnel/internal/turnview"
)

// logFlags are the flags of `logs`.
type logFlags struct {
	follow, verbose bool
	since           string
	lines           int
}

func (a *app) logsCommand() *cobra.Command {
	var f logFlags
	cmd := &cobra.Command{
		Use:   "logs [-f] [--since TIME] [-n N] ID",
		Short: "Print what happened in a session, as text",
		Long: `Print the history of a session as text: prompts, answers, one row for each call
of a tool, diffs, plans, and how each turn ended. ID may be the beginning of an
id. With -f, the command also prints what happens from then on, until Ctrl-C; it
continues when the server restarts. -f needs the running server.`,
		Example: `  runnel logs 0192f0c1
  runnel logs -f -n 20 0192f0c1
  runnel logs --since 2h 0192f0c1 | less`,
		Args: exactly(1, "the id of a session is needed; 'runnel sessions list' shows them"),
		RunE: func(cmd *cobra.Command, args []string) error {
			since, err := f.from(time.Now())
			if err != nil {
				return err
			}
			return a.withSessions(cmd, func(s sessions) error {
				row, err := pick(cmd.Context(), s, args[0])
				if err != nil {
					return err
				}
				keep := allLines
				if cmd.Flags().Changed("lines") {
					keep = f.lines
				}
				cfg := turnview.Config{Dir: row.ProjectDir, Verbose: f.verbose, Prompts: true, Times: true, Hint: "Ctrl-C ends"}
				l := sessionLog{app: a, session: row, since: since, printer: newLogPrinter(a, cfg, keep)}
				remote, ok := s.(remoteSessions)
				switch {
				case !f.follow:
					return errors.Join(l.history(cmd.Context(), s), l.printer.rest())
				case !ok:
					return errStartServer
				}
				if err := l.history(cmd.Context(), s); err != nil {
					return err
				}
				return l.follow(cmd.Context(), remote.ad)
			})
		},
	}
	placeFlags(cmd.Flags())
	cmd.Flags().BoolVarP(&f.follow, "follow", "f", false, "also print what happens from now on")
	cmd.Flags().BoolVarP(&f.verbose, "verbose", "v", false, "also print reasoning and the output of tools")
	cmd.Flags().StringVar(&f.since, "since", "", "only what happened from this `TIME` on: a date, a time such as 2026-01-31T12:00:00Z, or an age such as 2h")
	cmd.Flags().IntVarP(&f.lines, "lines", "n", 0, "only the last `N` lines of the history; default: all")
	return cmd
}

// from returns the time of --since; zero if it is not set.
func (f logFlags) from(now time.Time) (time.Time, error) {
	if f.lines < 0 {
		return time.Time{}, usage("--lines must not be negative")
	}
	if f.since == "" {
		return time.Time{}, nil
	}
	at, err := timeOf(f.since, now)
	if err != nil {
		return at, usage("--since: %s", err)
	}
	return at, nil
}

// A sessionLog prints the history of a session and what follows.
type sessionLog struct {
	*app
	printer *logPrinter
	session gateway.Status
	since   time.Time // prints nothing that happened before
	ask     bool      // asks about approvals in this terminal
	hello   string    // what follow says first. Default: nothing

	last int64         // the position of the last event of the history
	open []event.Event // approvals that wait at the end of the history
}

// history prints the history.
func (l *sessionLog) history(ctx context.Context, s sessions) error {
	for ev, err := range s.events(ctx, l.session) {
		if err != nil {
			return err
		}
		l.last = ev.Seq
		l.wait(ev)
		if ev.At.Before(l.since) {
			continue
		}
		if err := l.printer.event(ev); err != nil {
			return err
		}
	}
	return l.printer.flush()
}

// wait applies an event to the approvals that wait.
func (l *sessionLog) wait(ev event.Event) {
	switch b := ev.Body.(type) {
	case event.ApprovalRequested:
		l.open = append(l.open, ev)
	case event.ApprovalResolved:
		l.open = slices.DeleteFunc(l.open, func(o event.Event) bool {
			return o.Body.(event.ApprovalRequested).Approval.ID == b.ApprovalID
		})
	}
	if event.Ends(ev.Body) {
		l.open = slices.DeleteFunc(l.open, func(o event.Event) bool { return o.Turn == ev.Turn })
	}
}

// follow prints the events after the history, until the user interrupts it.
func (l *sessionLog) follow(ctx context.Context, ad *admin) error {
	ctx, leave := untilInterrupted(ctx)
	defer leave()
	link := &serverLink{ad: ad, say: l.stderrf}
	out := l.printer.live(l.app)
	if l.hello != "" {
		l.stderrf("%s", l.hello)
	}
	n := &answerer{serverLink: link, session: l.session.SessionID, optional: true}
	note := func(event.Event) {}
	if l.ask {
		var k *asker
		out, k = l.asks(out)
		k.unanswered = stillWaits
		n.approve = k.approve
		note = func(ev event.Event) { n.note(ctx, ev) }
		for _, ev := range l.open {
			k.seen.note(ev.Body.(event.ApprovalRequested).Approval.ID)
			note(ev)
		}
	}
	err := l.print(ctx, link, out, note)
	leave()
	n.wait()
	return errors.Join(err, out.close())
}

// print prints events until ctx ends. It calls note after it has printed one.
func (l *sessionLog) print(ctx context.Context, link *serverLink, out sink, note func(event.Event)) error {
	for ev, err := range link.events(ctx, l.session.SessionID, l.last) {
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		if err := out.event(ev); err != nil {
			return err
		}
		note(ev)
	}
	return nil
}

// A logPrinter prints the lines of a view.
type logPrinter struct {
	out    io.Writer
	screen *livescreen.Screen // nil if the output is no terminal
	view   *turnview.View
	width  int
	keep   int               // how many of the last lines are printed, or allLines
	kept   []livescreen.Line // at most keep lines, until flush
}

// allLines means that every line is printed.
const allLines = -1

func newLogPrinter(a *app, cfg turnview.Config, keep int) *logPrinter {
	p := &logPrinter{out: a.out, width: turnview.Unlimited, keep: keep}
	if f := a.drawable(); f != nil {
		p.screen = newScreen(f)
		p.width, _ = p.screen.Size()
		cfg.Styled = p.screen.Colours()
	}
	p.view = turnview.New(cfg)
	return p
}

func (p *logPrinter) event(ev event.Event) error {
	p.view.Apply(ev, ev.At)
	return p.print(p.view.Done(p.width))
}

// print prints lines, or keeps the last ones until flush.
func (p *logPrinter) print(lines []livescreen.Line) error {
	if p.keep != allLines {
		p.kept = append(p.kept, lines...)
		if more := len(p.kept) - p.keep; more > 0 {
			p.kept = append(p.kept[:0:0], p.kept[more:]...)
		}
		return nil
	}
	if p.screen != nil {
		return p.screen.Draw(lines, nil, nil)
	}
	for _, l := range lines {
		if _, err := io.WriteString(p.out, l.String()+"\n"); err != nil {
			return err
		}
	}
	return nil
}

// flush prints the lines that print has kept.
func (p *logPrinter) flush() error {
	lines := p.kept
	p.keep, p.kept = allLines, nil
	return p.print(lines)
}

// rest prints the state of a turn that still runs, after the end of the history.
func (p *logPrinter) rest() error {
	_, live := p.view.Frame(p.width, 1<<10, time.Now())
	return p.print(live)
}

// live returns a sink that continues to print: on a terminal with live lines.
func (p *logPrinter) live(a *app) sink {
	if p.screen != nil {
		v := newLiveView(a, fileOf(a.out), turnview.Config{})
		v.view, v.goes = p.view, true
		return v
	}
	return plainLog{p}
}

// plainLog prints finished lines.
type plainLog struct{ p *logPrinter }

func (l plainLog) event(ev event.Event) error { return l.p.event(ev) }

func (l plainLog) close() error { return nil }

// events returns the history of a session.
func (r remoteSessions) events(ctx context.Context, row gateway.Status) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		st, err := r.whole(ctx, row)
		if err != nil {
			yield(event.Event{}, err)
			return
		}
		if st.LastSeq == 0 {
			return
		}
		l := &serverLink{ad: r.ad, wait: restartWait, say: func(string, ...any) {}}
		for ev, err := range l.events(ctx, row.SessionID, 0) {
			if !yield(ev, err) || err != nil || ev.Seq >= st.LastSeq {
				return
			}
		}
	}
}

func (noSessions) events(context.Context, gateway.Status) iter.Seq2[event.Event, error] {
	return func(func(event.Event, error) bool) {}
}

func (l localSessions) events(ctx context.Context, row gateway.Status) iter.Seq2[event.Event, error] {
	return l.st.Read(ctx, row.SessionID, 0)
}
