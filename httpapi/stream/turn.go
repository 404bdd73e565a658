package stream

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/httpapi/command"
	"github.com/runnel-dev/runnel/httpapi/reply"
)

// A TurnRequest asks to send a prompt and to stream its turn.
type TurnRequest struct {
	SessionID   string            `json:"sessionId"`
	Message     string            `json:"message" required:"false" doc:"Text of the prompt. It may be blank only if there are attachments."`
	Opts        json.RawMessage   `json:"opts,omitempty"`
	Attachments []json.RawMessage `json:"attachments,omitempty"`
	TurnID      string            `json:"turnId,omitempty" doc:"Id for the new turn, chosen by the client: a UUID in lower case. A repeated request with the same id starts no second turn. Default: the server chooses one."`
}

// Turn sends a prompt and streams its turn. If the prompt was sent before, Turn
// streams that turn from its beginning. It returns errors from before the
// stream begins, which are answered as plain JSON.
func (s *Streams) Turn(w http.ResponseWriter, r *http.Request) error {
	cancel, err := onDisconnect(r)
	if err != nil {
		return err
	}
	key, err := command.Key(r)
	if err != nil {
		return err
	}
	var in TurnRequest
	if err := reply.Decode(w, r, &in); err != nil {
		return err
	}
	if in.SessionID == "" {
		return reply.Invalid("sessionId: is missing; give the id of a session")
	}
	leave, err := s.reserve(r) // before Send: if there are too many streams, the prompt must not run
	if err != nil {
		return err
	}
	defer leave()
	sent, err := s.cfg.Commands.Send(r, in.SessionID, "message", key, command.SendRequest{
		Content: in.Message, Opts: in.Opts, Attachments: in.Attachments, TurnID: in.TurnID,
	})
	if err != nil {
		return err
	}
	if sent.Replayed {
		if sent.After, err = gateway.RequestsOf(s.cfg.Gateway).TurnAfter(r.Context(), sent.SessionID, sent.TurnID); err != nil {
			return err
		}
		w.Header().Set(command.ReplayedHeader, "true")
	}
	out, ctx, stop := s.stream(w, r, sent.SessionID, "sse-turn")
	defer stop()
	frames, after := NewTurnFrames(sent.SessionID, sent.TurnID, sent.Warnings...), sent.After
	frames.Resolved, frames.ModelID, frames.LogID = sent.Resolved, s.modelOf(ctx, sent.Sent), s.logID()
	err = s.follow(ctx, sent.SessionID, &after, out, func(ev event.Event) (bool, error) {
		if ev.Turn != sent.TurnID {
			return false, nil
		}
		for _, f := range frames.Push(ev) {
			if err := out.frame(ev.Seq, f.Name, f.Data); err != nil {
				return false, err
			}
		}
		return event.Ends(ev.Body), nil
	})
	s.turnGoodbye(out, frames, after, err)
	err = errors.Join(err, out.flush())
	left := (err != nil || r.Context().Err() != nil) && !errors.Is(context.Cause(ctx), errShutdown) // a turn outlives its server
	if left && cancel {
		s.abandon(sent.Sent)
	}
	return nil // the status of the answer was sent already
}

// firstFrame is how long the first frame of a turn waits for the agent to
// report its model, which may differ from the session's.
const firstFrame = 100 * time.Millisecond

// modelOf returns the model of a turn: the one that the agent reports as the
// turn begins, or the session's if the agent does not report one within
// firstFrame.
func (s *Streams) modelOf(ctx context.Context, sent gateway.Sent) string {
	log := runnel.NewCursor(s.cfg.Gateway.Log(), sent.SessionID, sent.After)
	for deadline := time.Now().Add(firstFrame); ; {
		evs, err := log.NextUntil(ctx, deadline)
		for _, ev := range evs {
			if b, ok := ev.Body.(event.ResponseStart); ok && ev.Turn == sent.TurnID {
				return b.ModelID
			}
		}
		if err != nil || len(evs) == 0 || slices.ContainsFunc(evs, func(ev event.Event) bool { return ev.Turn == sent.TurnID && event.Ends(ev.Body) }) {
			break
		}
	}
	st, _ := s.cfg.Gateway.Status(ctx, sent.SessionID) // on an error the model is not known
	return st.ModelID
}

// turnGoodbye writes the last frames of a stream that ended with err before its
// turn ended.
func (s *Streams) turnGoodbye(out *sse, t *TurnFrames, after int64, err error) {
	e, known := errors.AsType[*runnel.Error](err)
	if !known {
		for _, f := range t.warn(About{Seq: after, TurnID: t.turn}) {
			_ = out.frame(after, f.Name, f.Data)
		}
		s.goodbye(out, t.session, after, err)
		return
	}
	for _, f := range t.readFailed(after, s.cfg.Reply.Explain(out.ctx, e)) {
		_ = out.frame(after, f.Name, f.Data)
	}
}

// abandon cancels a turn whose client has disconnected, if the turn still runs.
func (s *Streams) abandon(sent gateway.Sent) {
	ctx, done := context.WithTimeout(context.Background(), 10*time.Second)
	defer done()
	_ = gateway.QueuesOf(s.cfg.Gateway).CancelTurn(ctx, sent.SessionID, sent.TurnID)
}

func onDisconnect(r *http.Request) (cancel bool, err error) {
	switch r.URL.Query().Get("onDisconnect") {
	case "", "detach":
		return false, nil
	case "cancel":
		return true, nil
	}
	return false, reply.Invalid("onDisconnect: want detach or cancel")
}
