package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/gateway"
)

// The bodies of the harness routes: another face of the same sessions.
type (
	turnRequest struct {
		SessionID   string            `json:"sessionId"`
		Message     string            `json:"message"`
		Opts        json.RawMessage   `json:"opts,omitempty"`
		Attachments []json.RawMessage `json:"attachments,omitempty"`
	}
	harnessCreateRequest struct {
		ProjectRoot string          `json:"projectRoot" doc:"absolute path of the directory the agent works in"`
		CLIType     string          `json:"cliType,omitempty" doc:"kind of agent; the server's first one if absent"`
		Persona     string          `json:"persona,omitempty"`
		Mode        string          `json:"mode,omitempty"`
		Opts        json.RawMessage `json:"opts,omitempty"`
	}
	harnessSession struct {
		Session  gateway.Status `json:"session"`
		Warnings []string       `json:"warnings,omitempty"`
	}
	sessionRequest struct {
		SessionID string `json:"sessionId"`
	}
	bootRequest struct {
		SessionID string `json:"sessionId"`
		Force     bool   `json:"force,omitempty" doc:"begin a new conversation instead of resuming"`
	}
	bootAnswer struct {
		Session gateway.Status `json:"session"`
		Boot    gateway.Boot   `json:"boot"`
	}
	okAnswer struct {
		OK bool `json:"ok"`
	}
)

func (s *Server) harnessRoutes() []route {
	return []route{
		{method: http.MethodPost, path: "/api/harness/turn", scope: auth.Send, bound: true, name: "streamTurn", summary: "Send a prompt and stream its turn",
			params: []param{{name: "onDisconnect", doc: "detach, the default: the turn goes on; or cancel"}},
			status: http.StatusOK, in: turnRequest{}, stream: "text/event-stream", serve: s.streamTurn},
		take(s, route{path: "/api/harness/session/create", scope: auth.Send, bound: true, name: "harnessCreate", summary: "Start an agent in a directory"}, s.harnessCreate),
		take(s, route{path: "/api/harness/session/boot", scope: auth.Send, bound: true, name: "harnessBoot", summary: "Start or resume the session's agent"}, s.harnessBoot),
		give(s, route{path: "/api/harness/session/list", scope: auth.Read, bound: true, name: "harnessList", summary: "List the sessions of a directory",
			params: []param{{name: "projectRoot", doc: "the directory; all if absent"}}}, s.harnessList),
		give(s, route{path: "/api/harness/session/{id}", scope: auth.Read, name: "harnessStatus", summary: "Tell how a session is"}, s.harnessStatus),
		give(s, route{method: http.MethodDelete, path: "/api/harness/session/{id}", scope: auth.Send, name: "harnessDelete",
			summary: "Delete a session and its events"}, s.harnessDelete),
		take(s, route{path: "/api/harness/interrupt", scope: auth.Send, bound: true, name: "harnessInterrupt", summary: "End the running turn"}, s.harnessInterrupt),
	}
}

// streamTurn sends a prompt and streams what becomes of it. Whatever can fail
// fails before the stream opens, as plain JSON.
func (s *Server) streamTurn(w http.ResponseWriter, r *http.Request) error {
	cancel, err := onDisconnect(r)
	if err != nil {
		return err
	}
	var in turnRequest
	if err := s.decode(w, r, &in); err != nil {
		return err
	}
	if in.SessionID == "" {
		return invalid("sessionId: say which session")
	}
	if in.Message == "" && len(in.Attachments) == 0 {
		return invalid("message: the prompt is empty")
	}
	leave, err := s.place(r) // first: a prompt that is refused must not run
	if err != nil {
		return err
	}
	defer leave()
	sent, warnings, err := s.prompt(r, in.SessionID, sendRequest{Content: in.Message, Opts: in.Opts, Attachments: in.Attachments})
	if err != nil {
		return err
	}
	out, ctx, stop := s.stream(w, r, sent.SessionID, "sse-turn")
	defer stop()
	frames, after := newTurnFrames(sent.SessionID, sent.TurnID), sent.After
	err = s.follow(ctx, sent.SessionID, &after, out, func(ev event.Event) (bool, error) {
		if ev.Turn != sent.TurnID {
			return false, nil
		}
		for _, f := range frames.push(ev) {
			if err := out.frame(ev.Seq, f.name, f.data); err != nil {
				return false, err
			}
			if f.name == "session:init" {
				s.warn(out, frames, ev, warnings)
			}
		}
		return event.Ends(ev.Body), nil
	})
	s.turnFarewell(out, frames, after, err)
	if err = errors.Join(err, out.flush()); (err != nil || r.Context().Err() != nil) && cancel {
		s.abandon(sent)
	}
	return nil // how it ended can no longer be told
}

// turnFarewell ends the stream of a turn whose end cannot be told.
func (s *Server) turnFarewell(out *sse, t *turnFrames, after int64, err error) {
	e, known := errors.AsType[*runnel.Error](err)
	if !known {
		s.farewell(out, t.session, after, err)
		return
	}
	p := s.explain(out.ctx, e)
	for _, f := range t.failed(about{Seq: after, TurnID: t.turn}, event.Fault{Code: string(p.Type), Message: p.Message}) {
		_ = out.frame(after, f.name, f.data)
	}
}

func (s *Server) warn(out *sse, t *turnFrames, ev event.Event, warnings []string) {
	for _, warning := range warnings {
		_ = out.frame(ev.Seq, "notice", noticeFrame{about{Seq: ev.Seq, TurnID: t.turn},
			event.Notice{Level: event.LevelWarning, Code: "OPTION_IGNORED", Message: warning}})
	}
}

// abandon cancels a turn whose reader has gone, if it still runs.
func (s *Server) abandon(sent gateway.Sent) {
	ctx, done := context.WithTimeout(context.Background(), 10*time.Second)
	defer done()
	if st, err := s.gw.Status(ctx, sent.SessionID); err == nil && st.TurnID == sent.TurnID {
		_ = s.gw.Cancel(ctx, sent.SessionID)
	}
}

func onDisconnect(r *http.Request) (cancel bool, err error) {
	switch r.URL.Query().Get("onDisconnect") {
	case "", "detach":
		return false, nil
	case "cancel":
		return true, nil
	}
	return false, invalid("onDisconnect: detach or cancel")
}

func (s *Server) harnessCreate(r *http.Request, in harnessCreateRequest) (harnessSession, error) {
	opt, err := callersOptions(r, in.Opts)
	if err != nil {
		return harnessSession{}, err
	}
	if in.Persona != "" {
		opt.persona = in.Persona
	}
	if in.Mode != "" {
		opt.warnings = append(opt.warnings, "mode: has a meaning only with a profile, ignored")
	}
	dir, err := home(r.Context(), in.ProjectRoot)
	if err != nil {
		return harnessSession{}, err
	}
	if err := s.maySession(r); err != nil {
		return harnessSession{}, err
	}
	st, err := s.gw.Create(r.Context(), in.CLIType, dir, opt.Options, opt.persona)
	return harnessSession{st, opt.warnings}, err
}

func (s *Server) harnessBoot(r *http.Request, in bootRequest) (bootAnswer, error) {
	id, err := s.mine(r.Context(), in.SessionID)
	if err != nil {
		return bootAnswer{}, err
	}
	st, boot, err := s.gw.Boot(r.Context(), id, in.Force)
	return bootAnswer{st, boot}, err
}

func (s *Server) harnessList(r *http.Request) (listAnswer, error) {
	list, err := s.listed(r.Context(), gateway.Filter{ProjectDir: r.URL.Query().Get("projectRoot")})
	return listAnswer{list}, err
}

func (s *Server) harnessStatus(r *http.Request) (harnessSession, error) {
	st, err := s.gw.Status(r.Context(), r.PathValue("id"))
	return harnessSession{Session: st}, err
}

func (s *Server) harnessDelete(r *http.Request) (okAnswer, error) {
	id, err := s.session(r.Context(), r.PathValue("id"))
	if err == nil {
		err = s.gw.Delete(r.Context(), id)
	}
	if err == nil {
		s.endings.deleted(id)
	}
	return okAnswer{true}, err
}

func (s *Server) harnessInterrupt(r *http.Request, in sessionRequest) (okAnswer, error) {
	id, err := s.mine(r.Context(), in.SessionID)
	if err != nil {
		return okAnswer{}, err
	}
	return okAnswer{true}, s.gw.Cancel(r.Context(), id)
}
