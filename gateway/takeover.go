package gateway

import (
	"context"

	"github.com/runnel-dev/runnel"
)

// Takeovers lets a user continue a conversation in Runnel that another process
// has open.
type Takeovers struct{ g *Gateway }

// TakeoversOf returns the takeovers of g.
func TakeoversOf(g *Gateway) Takeovers { return Takeovers{g} }

// Take is like [Gateway.Load], and prompts are then accepted although another
// process has the conversation open. If that process holds the agent's lock of
// the conversation, Take asks it to exit. Otherwise the process keeps running:
// what it writes from then on may become a branch of the conversation. Take
// fails with CONVERSATION_IN_USE if the conversation is one of another project,
// whose id the session's agent has reported.
func (t Takeovers) Take(ctx context.Context, ref, file string) (Status, error) {
	st, err := t.g.Load(ctx, ref, file)
	if err != nil {
		return Status{}, err
	}
	e, err := t.g.lock(ctx, st.SessionID)
	if err != nil {
		return Status{}, err
	}
	defer t.g.unlock(e)
	list, err := t.g.writers.of(ctx, e)
	if err != nil {
		return Status{}, err
	}
	if err := t.checkOwn(ctx, e, list); err != nil {
		return Status{}, err
	}
	for _, w := range list {
		s, ok := t.g.writers.finder(st.CLIType).(runnel.WriterStopper)
		if !ok || w.Source != runnel.WriterDescriptors {
			continue
		}
		if err := s.StopWriter(ctx, w); err != nil {
			return Status{}, err
		}
	}
	left, err := t.g.writers.of(ctx, e)
	if err != nil {
		return Status{}, err
	}
	t.g.follows.finish(ctx, e, len(left) > 0)
	t.g.writers.take(e.session.ID(), list)
	return e.status(), nil
}

// checkOwn fails if the writers in list have a conversation of another project
// open; see [importer.isForeign].
func (t Takeovers) checkOwn(ctx context.Context, e *entry, list []runnel.Writer) error {
	if len(list) == 0 {
		return nil
	}
	rec, _ := e.snapshot()
	foreign, err := t.g.importer.isForeign(ctx, rec)
	if err == nil && foreign {
		err = runnel.Fail(runnel.ConversationInUse, "the conversation is one of another project, in which a process has it open; take it over there, or create a new session")
	}
	return err
}
