package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/internal/livescreen"
	"github.com/runnel-dev/runnel/internal/turnview"
)

func (a *app) psCommand() *cobra.Command {
	var asJSON, watch bool
	cmd := &cobra.Command{
		Use:   "ps",
		Short: "List the sessions that work or wait for an answer",
		Long: `List the sessions of the running server in which a turn runs, those that wait
for an answer to an approval first. AGE is the age of the session. NOW is what
waits, or else the newest activity. Without a server no session runs.

'runnel attach ID' follows a session and answers its approvals. With --watch the
list stays on the screen and is updated every two seconds, until Ctrl-C, also
while the server restarts.`,
		Example: `  runnel ps
  runnel ps --watch
  runnel ps --json | jq -r '.[] | select(.activity == "waiting").sessionId'`,
		Args: nothing,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := loadConfig(cmd.Flags())
			if err != nil {
				return err
			}
			if watch {
				return a.watchSessions(cmd.Context(), c, asJSON)
			}
			rows, err := runningSessions(cmd.Context(), c)
			switch {
			case errors.Is(err, errNoServer) && !asJSON:
				a.stderrf("No server is running, so no session runs.")
				return nil
			case err != nil && !errors.Is(err, errNoServer):
				return err
			case asJSON:
				return a.printJSON(rows)
			case len(rows) == 0:
				a.stderrf("No session runs; 'runnel sessions list' lists all.")
				return nil
			}
			return writeRunning(a.out, rows, a.width(), time.Now())
		},
	}
	placeFlags(cmd.Flags())
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON array, as the API describes sessions; with --watch, one line for each change")
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "update the list until Ctrl-C")
	return cmd
}

// runningSessions returns the sessions of the server in which a turn runs,
// those that wait for an answer first, then newest activity first.
func runningSessions(ctx context.Context, c config) ([]gateway.Status, error) {
	rows := []gateway.Status{} // prints an empty array instead of null
	ad, err := connect(ctx, c)
	if err != nil {
		return rows, err
	}
	all, err := remoteSessions{ad}.list(ctx, gateway.Filter{Archived: true})
	for _, s := range all {
		if s.State != event.StateDead && (s.Activity == event.ActivityWorking || s.Activity == event.ActivityWaiting) {
			rows = append(rows, s)
		}
	}
	slices.SortStableFunc(rows, func(a, b gateway.Status) int { return strings.Compare(string(a.Activity), string(b.Activity)) }) // waiting, working
	return rows, err
}

// tableWidth is the minimum width of a terminal for a table of sessions. A
// narrower terminal shows each session in two lines.
const tableWidth = 70

// writeRunning prints the list of ps for a terminal of this width. A width of 0
// means no limit; ids are then printed in full.
func writeRunning(w io.Writer, rows []gateway.Status, width int, now time.Time) error {
	var ids []string
	for _, s := range rows {
		ids = append(ids, s.SessionID)
	}
	if width > 0 {
		ids = beginnings(ids)
	}
	if width > 0 && width < tableWidth {
		var b strings.Builder
		for i, s := range rows {
			head := strings.Join([]string{cell(ids[i]), cell(stateWord(s)), turnview.Elapsed(now.Sub(s.CreatedAt)), ""}, "  ")
			b.WriteString(head + livescreen.CutStart(cell(s.ProjectDir), width-cells(head)) + "\n")
			b.WriteString(livescreen.CutText("  "+cell(s.CLIType)+": "+cell(activity(s, now)), width) + "\n")
		}
		_, err := io.WriteString(w, b.String())
		return err
	}
	t := &table{columns: []column{{"ID", whole}, {"STATE", whole}, {"AGENT", cutEnd}, {"AGE", whole}, {"FOLDER", cutStart}, {"NOW", cutEnd}}}
	for i, s := range rows {
		t.add(cell(ids[i]), cell(stateWord(s)), cell(s.CLIType), turnview.Elapsed(now.Sub(s.CreatedAt)), cell(s.ProjectDir), cell(activity(s, now)))
	}
	return t.write(w, width)
}

// activity returns what a session waits for, or else its newest activity.
func activity(s gateway.Status, now time.Time) string {
	if len(s.PendingApprovals) == 0 {
		return oneLine(s.LastLine, 120)
	}
	text := "? " + turnview.DescribeApproval(s.PendingApprovals[0], s.ProjectDir)
	if more := len(s.PendingApprovals) - 1; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return oneLine(text, 120) + ", for " + turnview.Elapsed(now.Sub(s.LastActiveAt))
}

// watchTime is the time between two updates of ps --watch.
const watchTime = 2 * time.Second

// watchSessions prints the list again and again until the user interrupts it. After
// the first list, a server that does not answer or is busy counts as stopped.
func (a *app) watchSessions(ctx context.Context, c config, asJSON bool) error {
	ended, ignore := firstEndSignal()
	defer ignore()
	draw := a.listPrinter(asJSON)
	for begun := false; ; begun = true {
		rows, err := runningSessions(ctx, c)
		away := errors.Is(err, errNoServer) || begun && err != nil && (!answered(err) || busy(err))
		if err != nil && !away {
			return err
		}
		if err := draw(rows, away); err != nil {
			return err
		}
		select {
		case <-ended:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(watchTime):
		}
	}
}

// listPrinter returns a function that shows a list of sessions in the place of
// the list before it, or, if the output is no terminal, after it if it differs.
func (a *app) listPrinter(asJSON bool) func(rows []gateway.Status, away bool) error {
	if f := a.drawable(); f != nil && !asJSON {
		screen := newScreen(f)
		return func(rows []gateway.Status, away bool) error {
			width, _ := screen.Size()
			return screen.Draw(nil, append(watched(rows, away, width), livescreen.Text("Ctrl-C ends the list", livescreen.Faint), nil), nil)
		}
	}
	last := ""
	return func(rows []gateway.Status, away bool) error {
		var out bytes.Buffer
		var err error
		if asJSON {
			err = (&app{out: &out}).encoder().Encode(rows)
		} else {
			for _, l := range watched(rows, away, turnview.Unlimited) {
				out.WriteString(l.String() + "\n")
			}
		}
		if err != nil || out.String() == last {
			return err
		}
		last = out.String()
		_, err = a.out.Write(out.Bytes())
		return err
	}
}

// watched returns a list of sessions as lines. away means that no server runs.
func watched(rows []gateway.Status, away bool, width int) (out []livescreen.Line) {
	switch {
	case away:
		return []livescreen.Line{livescreen.Text("No server is running.", livescreen.Plain)}
	case len(rows) == 0:
		return []livescreen.Line{livescreen.Text("No session runs.", livescreen.Plain)}
	}
	var b strings.Builder
	limit := 0
	if width != turnview.Unlimited {
		limit = width - 1
	}
	_ = writeRunning(&b, rows, limit, time.Now()) // a strings.Builder takes everything
	for line := range strings.Lines(b.String()) {
		out = append(out, livescreen.Text(strings.TrimSuffix(line, "\n"), livescreen.Plain))
	}
	return out
}
