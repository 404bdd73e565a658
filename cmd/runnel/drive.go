package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
)

// drive shows the events of a run. again says what a second Ctrl-C does. blame
// adds to an error about an option the source of the option. The exit code of
// the error depends on how the run ended.
func (a *app) drive(ctx context.Context, r promptRun, again string, blame func(error) error, out sink) error {
	stop := a.onInterrupt(
		func() {
			a.stderrf("runnel: cancelling the turn; press Ctrl-C again to %s", again)
			_ = r.Cancel(ctx)
		},
		func() { _ = r.Close() })
	defer stop()

	var denied denials
	var broken error
	for ev, err := range r.Events(ctx) {
		if err != nil {
			break // Wait returns the reason
		}
		denied.note(ev.Body)
		if broken = out.event(ev); broken != nil {
			_ = r.Close()
			break
		}
	}
	res, err := r.Wait(ctx)
	if broken == nil {
		broken = out.close()
	}
	switch {
	case isBrokenPipe(broken): // the output was closed, so the agent was stopped
		return &exitError{code: exitNotDone}
	case broken != nil:
		return fmt.Errorf("write the output: %w", broken)
	case errors.Is(err, errLeft):
		return &exitError{exitNotDone, fmt.Errorf("the turn may still run in the server; %s", follower(res.SessionID))}
	case res.Status == event.StatusCancelled:
		return &exitError{exitNotDone, errors.New("cancelled")}
	case err != nil:
		return failure(blame(err))
	case denied.n > 0:
		return &exitError{exitNotDone, fmt.Errorf("the turn completed, but %s; use --ask to answer approvals, or --permission-mode to change what needs one", denied.count())}
	}
	return nil
}

// failure gives err its exit code. A request that was refused, or that the
// agent cannot fulfil, is wrong usage.
func failure(err error) error {
	switch runnel.CodeOf(err) {
	case runnel.InvalidRequest, runnel.UnsupportedCapability, runnel.PersonaNotFound:
		return &exitError{exitUsage, err}
	}
	return err
}

// denials counts the approvals that were denied.
type denials struct {
	kinds map[string]event.ChoiceKind // by approval id and choice id
	n     int
}

func (d *denials) note(b event.Body) {
	switch b := b.(type) {
	case event.ApprovalRequested:
		if d.kinds == nil {
			d.kinds = make(map[string]event.ChoiceKind)
		}
		for _, c := range b.Approval.Choices {
			d.kinds[b.Approval.ID+"\x00"+c.ID] = c.Kind
		}
	case event.ApprovalResolved:
		kind := d.kinds[b.ApprovalID+"\x00"+b.Choice]
		if kind == event.ChoiceDeny || kind == event.ChoiceDenyStop {
			d.n++
		}
	}
}

func (d *denials) count() string {
	if d.n == 1 {
		return "one approval was denied"
	}
	return fmt.Sprintf("%d approvals were denied", d.n)
}
