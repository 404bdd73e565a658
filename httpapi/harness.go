package httpapi

import (
	"cmp"
	"encoding/json"
	"net/http"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/httpapi/access"
	"github.com/runnel-dev/runnel/httpapi/command"
	"github.com/runnel-dev/runnel/httpapi/stream"
)

// Request and response bodies of the harness routes, which are a second API to
// the same sessions.
type (
	harnessCreateRequest struct {
		ProjectRoot string          `json:"projectRoot" doc:"Absolute path of the directory that the agent works in."`
		CLIType     string          `json:"cliType,omitempty" doc:"Kind of agent. Default: the first kind that the server has."`
		Persona     string          `json:"persona,omitempty" doc:"Name of a profile; GET /api/profiles lists them."`
		Mode        string          `json:"mode,omitempty" hidden:"true"`
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
		Force     bool   `json:"force,omitempty" doc:"Start a new conversation instead of resuming the previous one. Default: false."`
	}
	bootAnswer struct {
		Session gateway.Status `json:"session"`
		Boot    gateway.Boot   `json:"boot"`
	}
	okAnswer struct {
		OK bool `json:"ok"`
	}
)

// harness holds the handlers of the harness routes.
type harness struct {
	gw       *gateway.Gateway
	visible  access.Sessions
	commands command.Commands
	sessions *sessions
	streams  *stream.Streams
}

func (h *harness) routes() []route {
	return []route{
		{method: http.MethodPost, path: "/api/harness/turn", scope: auth.Send, bound: true, name: "streamTurn", summary: "Send a prompt and stream its turn", about: "A repeated request streams the same turn from its beginning.",
			params: []param{{name: "onDisconnect", doc: "What happens to the turn when the client disconnects. detach: the turn continues. cancel: the turn is cancelled. Default: detach.", values: []string{"detach", "cancel"}}, keyParam()},
			status: http.StatusOK, in: stream.TurnRequest{}, media: []string{"text/event-stream"}, stream: true, fails: promptFails(sessionFails()...), serve: h.streams.Turn},
		repeatable(h.commands, route{path: "/api/harness/session/create", scope: auth.Send, bound: true, name: "harnessCreate", summary: "Create a session", about: "Starts an agent in a directory, or in a new git worktree of it.",
			fails: agentFails(runnel.UnsupportedCLIType, runnel.GitFailed)}, h.create),
		handleJSON(route{path: "/api/harness/session/boot", scope: auth.Send, bound: true, name: "harnessBoot", summary: "Start or resume a session's agent", about: "Starts the agent now, so that the next prompt does not wait for the start. Without force, a running agent restarts only if its options have changed and no turn runs. With force, the request fails with TURN_IN_PROGRESS while a turn runs.",
			fails: agentFails(sessionFails(runnel.TurnInProgress, runnel.ConversationInUse)...)}, h.boot),
		h.sessions.inList(handle(route{path: "/api/harness/session/list", scope: auth.Read, bound: true, name: "harnessList", summary: "List sessions", about: "Lists the sessions that have not been ended, of one directory or of all directories, newest activity first.",
			params: []param{{name: "projectRoot", doc: "Absolute path of the directory. Default: all directories."}}, fails: []runnel.Code{runnel.WorkingRootInaccessible}}, h.list)),
		handle(route{path: "/api/harness/session/{id}", scope: auth.Read, name: "harnessStatus", summary: "Get session status"}, h.status),
		handle(route{method: http.MethodDelete, path: "/api/harness/session/{id}", scope: auth.Send, name: "harnessDelete",
			summary: "Delete a session and its events", about: "Fails with TURN_IN_PROGRESS while a turn runs.", fails: []runnel.Code{runnel.TurnInProgress}}, h.delete),
		handleJSON(route{path: "/api/harness/interrupt", scope: auth.Send, bound: true, name: "harnessInterrupt", summary: "Cancel the running turn", about: "The session stays usable. Queued prompts are held, as POST /api/session/{id}/cancel does. If no turn runs, only the queue is held.",
			fails: sessionFails(runnel.SessionDead, runnel.InterruptFailed)}, h.interrupt),
	}
}

func (h *harness) create(r *http.Request, in harnessCreateRequest) (harnessSession, error) {
	opt, err := command.CallersOptions(r, "opts", in.Opts)
	if err != nil {
		return harnessSession{}, err
	}
	if in.Persona != "" {
		opt.Choice.Persona = in.Persona
	}
	if err := command.CheckMode("mode", in.Mode); err != nil {
		return harnessSession{}, err
	}
	dir, err := access.Home(r.Context(), in.ProjectRoot)
	if err != nil {
		return harnessSession{}, err
	}
	if err := h.sessions.maySession(r); err != nil {
		return harnessSession{}, err
	}
	if err := opt.RecordCreation(r.Context(), in.CLIType, dir); err != nil {
		return harnessSession{}, err
	}
	opt.Choice.Delegation = cmp.Or(opt.Choice.Delegation, gateway.Governed)
	st, err := h.gw.CreateWith(r.Context(), in.CLIType, dir, opt.Options, opt.Choice)
	return harnessSession{st, opt.Warnings}, err
}

func (h *harness) boot(r *http.Request, in bootRequest) (bootAnswer, error) {
	id, err := h.visible.VisibleRef(r.Context(), in.SessionID)
	if err != nil {
		return bootAnswer{}, err
	}
	st, boot, err := h.gw.Boot(r.Context(), id, in.Force)
	return bootAnswer{st, boot}, err
}

func (h *harness) list(r *http.Request) (listAnswer, error) {
	list, err := h.visible.List(r.Context(), gateway.Filter{ProjectDir: r.URL.Query().Get("projectRoot")})
	return listAnswer{list}, err
}

func (h *harness) status(r *http.Request) (harnessSession, error) {
	st, err := h.gw.Status(r.Context(), r.PathValue("id"))
	return harnessSession{Session: st}, err
}

func (h *harness) delete(r *http.Request) (okAnswer, error) {
	id, err := h.visible.Resolve(r.Context(), r.PathValue("id"))
	if err == nil {
		_, err = gateway.HousekeepingOf(h.gw).Recorded(recordsDeletion(r.Context())).DeleteIdle(r.Context(), id)
	}
	if err == nil {
		h.streams.Deleted(id)
	}
	return okAnswer{true}, err
}

func (h *harness) interrupt(r *http.Request, in sessionRequest) (okAnswer, error) {
	id, err := h.visible.VisibleRef(r.Context(), in.SessionID)
	if err != nil {
		return okAnswer{}, err
	}
	return okAnswer{true}, h.gw.Cancel(r.Context(), id)
}
