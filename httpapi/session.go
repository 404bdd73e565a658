package httpapi

import (
	"context"
	"encoding/json"
	"mime"
	"net/http"
	"slices"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/attach"
	"github.com/runnel-dev/runnel/audit"
	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/httpapi/access"
	"github.com/runnel-dev/runnel/httpapi/command"
	"github.com/runnel-dev/runnel/httpapi/reply"
	"github.com/runnel-dev/runnel/httpapi/stream"
	"github.com/runnel-dev/runnel/internal/atonce"
	"github.com/runnel-dev/runnel/profile"
)

// Request and response bodies of the Session API.
type (
	createRequest struct {
		CLIType    string          `json:"cliType" doc:"Kind of agent, such as claude-code. GET /api/agents lists the kinds."`
		ProjectDir string          `json:"projectDir" doc:"Absolute path of the directory that the agent works in."`
		Options    json.RawMessage `json:"options,omitempty" doc:"Options of the session."`
	}
	createAnswer struct {
		SessionID string   `json:"sessionId"`
		CLIType   string   `json:"cliType"`
		Warnings  []string `json:"warnings,omitempty"`

		Resolved profile.Resolved         `json:"resolved,omitempty" doc:"The session's resolved options by name, each with its source."`
		Worktree *gateway.SessionWorktree `json:"worktree,omitempty" doc:"The git worktree in which the agent works. Absent if the agent works in projectDir."`
	}
	loadRequest struct {
		ViewFilePath string `json:"viewFilePath,omitempty" doc:"Path of the agent's own transcript file. The file must be in the agent's folder and of a conversation in projectDir. Default: the server searches for the file."`
		TakeOver     bool   `json:"takeOver,omitempty" doc:"Whether to accept prompts although another process has the conversation open. A Codex process is asked to exit. Another agent's process keeps running, and what it writes from then on may become a branch of the conversation. Default: false."`
	}
	listAnswer struct {
		Sessions []gateway.Status `json:"sessions" doc:"The sessions, newest activity first."`
	}
	captureRequest struct {
		On *bool `json:"on" doc:"Whether to capture. true replaces the file of an earlier capture, unless the capture is on already. false keeps the file."`
	}
	capturedLine struct {
		T      float64 `json:"t" doc:"Time at which the line passed, in milliseconds since the capture began."`
		Dir    string  `json:"dir" enum:"in,out,err,meta" doc:"Direction of the line. in: to the agent. out: from the agent. err: from the agent's standard error. meta: about the capture, such as where a turn begins."`
		Line   string  `json:"line,omitempty" doc:"The line, without its newline and without known secrets."`
		Base64 string  `json:"base64,omitempty" doc:"The line in base64, if it is not UTF-8."`
	}
	agentsAnswer struct {
		Agents []gateway.Agent `json:"agents" doc:"The kinds of agents that this server can run."`
	}
	projectsAnswer struct {
		Projects []gateway.Project `json:"projects" doc:"The projects, newest activity first."`
	}
	overviewAnswer struct {
		Sessions []gateway.Status  `json:"sessions" doc:"The sessions of all projects, ended and archived ones included, newest activity first."`
		Agents   []gateway.Agent   `json:"agents" doc:"The kinds of agents that this server can run, with the results of the checks so far. GET /api/agents waits for the first check of an agent."`
		Projects []gateway.Project `json:"projects" doc:"The projects, newest activity first."`
	}
)

// sessions holds the handlers of the Session API.
type sessions struct {
	gw       *gateway.Gateway
	visible  access.Sessions
	commands command.Commands
	streams  *stream.Streams
	limits   Limits
	refuse   func(setting string, limit int64, what string) error // counts that a limit was reached, and returns the error for it
	made     budget                                               // new sessions, by credential
	sent     budget                                               // uploaded bytes, by credential
	imports  imports
	redact   func(string) string // removes secrets from texts of files

	count     func(*http.Request) error // counts a request for files or changes
	combining chan struct{}             // has an element for each request that combines changes
	atOnce    atonce.Limit              // requests about changes, by credential
	searches  atonce.Limit              // by credential
	totals    atonce.Limit              // requests for totals of usage and of stored bytes, by credential
	lists     atonce.Limit              // requests for lists of sessions, by credential
}

func (s *sessions) routes() []route {
	return []route{
		repeatable(s.commands, route{path: "/api/session/create", scope: auth.Send, bound: true, name: "createSession", status: http.StatusCreated,
			summary: "Create a session", about: "Starts an agent in a directory, or in a new git worktree of it.", fails: agentFails(runnel.UnsupportedCLIType, runnel.GitFailed)}, s.create),
		handleJSON(route{path: "/api/session/{id}/load", scope: auth.Send, name: "loadSession",
			summary: "Open a session", about: "Reopens an ended session, and imports the turns that were added to the agent's conversation outside Runnel. The response does not contain the history; read it with GET /api/session/{id}/items or on a stream.",
			fails: agentFails(runnel.TurnInProgress, runnel.ConversationInUse)}, s.load),
		s.inList(route{method: http.MethodGet, status: http.StatusOK, out: listAnswer{}, serve: s.listSessions,
			path: "/api/session/list", scope: auth.Read, bound: true, name: "listSessions", summary: "List sessions", about: "Lists the sessions of one project or of all projects, newest activity first.",
			params: []param{
				{name: "projectId", doc: "Id of a project, or * for all projects. Either projectId or projectDir is required."},
				{name: "projectDir", doc: "Absolute path of a project's directory, instead of its id."},
				{name: "all", doc: "Whether to include ended sessions. Default: false.", flag: true},
				{name: "archived", doc: "Whether to include archived sessions, also those that have ended. Default: false.", flag: true},
			}, fails: []runnel.Code{runnel.ProjectIDRequired}}),
		handle(route{path: "/api/session/{id}/status", scope: auth.Read, name: "sessionStatus",
			summary: "Get session status"}, s.sessionStatus),
		{method: http.MethodPost, path: "/api/session/{id}/send", scope: auth.Send, name: "sendPrompt", status: http.StatusAccepted,
			summary: "Send a prompt", about: "Responds as soon as the prompt is durable. The turn continues without the client; follow it on a stream.", params: []param{keyParam()}, fails: promptFails(),
			in: command.SendRequest{}, out: command.SendAnswer{}, serve: s.send},
		handleJSON(route{path: "/api/session/{id}/cancel", scope: auth.Send, name: "cancelTurn",
			summary: "Cancel the running turn", about: "The session stays usable. Queued prompts are held until POST /api/session/{id}/queue continues the queue. If no turn runs, only the queue is held.", fails: []runnel.Code{runnel.SessionDead, runnel.InterruptFailed}}, s.cancel),
		handleJSON(route{path: "/api/session/{id}/kill", scope: auth.Send, name: "killSession",
			summary: "End a session", about: "Stops the agent and every process that it started. The events are kept; POST /api/session/{id}/load reopens the session."}, s.kill),
		handle(route{path: "/api/session/{id}/approvals/{approvalId}", scope: auth.Read, name: "getApproval",
			summary: "Get a pending approval", about: "Also returns suggested rules that would allow similar calls.",
			fails: []runnel.Code{runnel.ApprovalGone, runnel.SessionDead}}, s.approval),
		handleJSON(route{path: "/api/session/{id}/approvals/{approvalId}", scope: auth.Approve, name: "decideApproval",
			summary: "Answer an approval", about: "The first answer wins; a later one fails with APPROVAL_GONE.",
			fails: []runnel.Code{runnel.ApprovalGone, runnel.SessionDead, runnel.AgentError, runnel.ProcessCrash}}, s.decide),
		describedAs(handleJSON(route{path: "/api/session/{id}/options", scope: auth.Send, name: "setOptions",
			summary: "Change a session's options", about: "If one option is rejected, no option changes. Options that the agent reads only when it starts can be changed only while no agent runs.", fails: agentFails(runnel.TurnInProgress)}, s.setOptions), runnel.Options{}),
		handleJSON(route{path: "/api/session/{id}/capture", scope: auth.Admin, name: "setCapture",
			summary: "Switch a session's debug capture on or off", about: "While the capture is on, the server writes every raw line between itself and the session's agent, in both directions, to a private file in its data directory. Known secrets are removed from the lines. A running agent is captured at once. The file is deleted with the session. The server stops the capture when the file has 32 MiB, less than 64 MiB of the disk is free, or the file cannot be written; turns continue, and a notice (DEBUG_CAPTURE_STOPPED) reports the stop.",
			fails: []runnel.Code{runnel.SessionDead, runnel.Overloaded}}, s.setCapture),
		handle(route{path: "/api/session/{id}/egress", scope: auth.Read, name: "getEgress",
			summary: "Get what a session's sandbox reached", about: "Returns every attempt of programs in the session's sandbox to reach the network. The record is empty if the session has no sandbox."}, s.egress),
		handle(route{path: "/api/session/{id}/denials", scope: auth.Approve, name: "getDenials",
			summary: "Get what a session's sandbox seems to need", about: "Returns the existing paths outside of the session's sandbox that programs in it could not read or write, as the outputs of tools say. A program can print anything, so these are suggestions; POST /api/rules with kind sandbox_read or sandbox_write allows a path. Protected paths are never listed. A credential for one project gets FORBIDDEN. The record is empty if the session has no sandbox."}, s.denials),
		repeatable(s.commands, route{path: "/api/session/{id}/fork", scope: auth.Send, name: "forkSession", status: http.StatusCreated,
			summary: "Fork a session", about: "Creates a session that continues from a copy of this one. Fails with TURN_IN_PROGRESS while a turn runs. With turnId, the session continues after that turn: if the agent cannot go back to it, the session is empty, and the response has a draft for its first prompt.", fails: agentFails(runnel.TurnInProgress)}, s.fork),
		{method: http.MethodPost, path: "/api/uploads", scope: auth.Send, bound: true, name: "upload", summary: "Upload a file", about: "Prompts can attach the file by its uploadId. The file may have at most 10 MiB. The server deletes it after 24 hours.",
			params: []param{{name: "name", doc: "Name of the file. Its extension determines the media type: png, jpg, jpeg, gif, webp, pdf, txt, md and csv have their own, and a file with any other extension must be UTF-8 text. The server shortens a name of more than 200 bytes.", required: true}},
			status: http.StatusCreated, out: attach.Upload{}, upload: true, fails: []runnel.Code{runnel.AttachmentFailure}, serve: s.upload},
		handle(route{path: "/api/agents", scope: auth.Read, bound: true, name: "listAgents", summary: "List the kinds of agents", about: "Returns whether each agent is installed and logged in on the server's machine, and which models it offers.",
			params: []param{{name: "refresh", flag: true, doc: "Whether to check every agent now, which takes at most 21 seconds. Agents that need longer have checking: true. Default: false, which returns cached results."}}}, s.agents),
		handle(route{path: "/api/projects", scope: auth.Read, bound: true, name: "listProjects",
			summary: "List projects", about: "A project is a directory that has sessions."}, s.projects),
		s.inList(route{method: http.MethodGet, status: http.StatusOK, out: overviewAnswer{}, serve: s.overview,
			path: "/api/overview", scope: auth.Read, bound: true, name: "overview",
			summary: "Get sessions, agents and projects", about: "Returns in one response what a page shows first. Does not wait for the checks of agents: an agent that is still being checked has checking: true."}),
	}
}

// inList returns rt so that few of the caller's lists of sessions are made at
// the same time.
func (s *sessions) inList(rt route) route { return inTurn(&s.lists, []route{rt})[0] }

func (s *sessions) create(r *http.Request, in createRequest) (createAnswer, error) {
	if in.CLIType == "" {
		return createAnswer{}, runnel.Fail(runnel.UnsupportedCLIType, "cliType: is missing; GET /api/agents lists the kinds of agents")
	}
	opt, err := command.CallersOptions(r, "options", in.Options)
	if err != nil {
		return createAnswer{}, err
	}
	dir, err := access.Home(r.Context(), in.ProjectDir)
	if err != nil {
		return createAnswer{}, err
	}
	if err := s.maySession(r); err != nil {
		return createAnswer{}, err
	}
	if err := opt.RecordCreation(r.Context(), in.CLIType, dir); err != nil {
		return createAnswer{}, err
	}
	st, err := s.gw.CreateWith(r.Context(), in.CLIType, dir, opt.Options, opt.Choice)
	return createAnswer{st.SessionID, st.CLIType, opt.Warnings, st.Resolved, st.Worktree}, err
}

func (s *sessions) load(r *http.Request, in loadRequest) (createAnswer, error) {
	load := s.gw.Load
	if in.TakeOver {
		load = gateway.TakeoversOf(s.gw).Take
	}
	st, err := load(r.Context(), r.PathValue("id"), in.ViewFilePath)
	return createAnswer{SessionID: st.SessionID, CLIType: st.CLIType, Resolved: st.Resolved, Worktree: st.Worktree}, err
}

func (s *sessions) listSessions(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	all, err := reply.Flag(r, "all")
	if err != nil {
		return err
	}
	archived, err := reply.Flag(r, "archived")
	if err != nil {
		return err
	}
	f := gateway.Filter{ProjectID: q.Get("projectId"), ProjectDir: q.Get("projectDir"), Dead: all, Archived: archived}
	switch {
	case f.ProjectID == "" && f.ProjectDir == "":
		return runnel.Fail(runnel.ProjectIDRequired, "projectId: is missing; give projectId, projectDir, or projectId=* for all projects")
	case f.ProjectID == "*":
		f.ProjectID = ""
	}
	list, err := s.visible.Listed(r.Context(), f)
	if err != nil {
		return err
	}
	reply.Raw(w, http.StatusOK, append(appendSessions(nil, list), '}'))
	return nil
}

// appendSessions appends the beginning of a [listAnswer], up to the end of its
// sessions. It copies the JSON of the entries, because encoding a long list
// takes long.
func appendSessions(b []byte, list []gateway.Listed) []byte {
	const spare = 1024 // bytes for the rest of the answer
	size := spare
	for _, l := range list {
		size += len(l.JSON) + 1
	}
	b = append(slices.Grow(b, size), `{"sessions":[`...)
	for i, l := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, l.JSON...)
	}
	return append(b, ']')
}

func (s *sessions) sessionStatus(r *http.Request) (gateway.Status, error) {
	return s.gw.Status(r.Context(), r.PathValue("id"))
}

func (s *sessions) send(w http.ResponseWriter, r *http.Request) error {
	key, err := command.Key(r)
	if err != nil {
		return err
	}
	var in command.SendRequest
	if err := reply.Decode(w, r, &in); err != nil {
		return err
	}
	sent, err := s.commands.Send(r, r.PathValue("id"), "content", key, in)
	if err != nil {
		return err
	}
	if sent.Replayed {
		w.Header().Set(command.ReplayedHeader, "true")
	}
	reply.Raw(w, http.StatusAccepted, sent.Body)
	return nil
}

func (s *sessions) cancel(r *http.Request, in command.CancelRequest) (reply.Empty, error) {
	return reply.Empty{}, s.commands.Cancel(r.Context(), r.PathValue("id"), in)
}

func (s *sessions) kill(r *http.Request, _ reply.Empty) (reply.Empty, error) {
	return reply.Empty{}, s.gw.Kill(r.Context(), r.PathValue("id"))
}

func (s *sessions) approval(r *http.Request) (command.ApprovalAnswer, error) {
	return s.commands.Approval(r, r.PathValue("id"), r.PathValue("approvalId"))
}

func (s *sessions) decide(r *http.Request, in command.DecideRequest) (command.DecideAnswer, error) {
	return s.commands.Decide(r, r.PathValue("id"), r.PathValue("approvalId"), in)
}

func (s *sessions) setOptions(r *http.Request, in json.RawMessage) (command.OptionsAnswer, error) {
	return s.commands.SetOptions(r, r.PathValue("id"), in)
}

func (s *sessions) setCapture(r *http.Request, in captureRequest) (gateway.Capture, error) {
	if in.On == nil {
		return gateway.Capture{}, reply.Invalid("on: is missing; want true or false")
	}
	what := "off"
	if *in.On {
		what = "on"
	}
	if err := access.Record(r.Context(), audit.Record{Kind: audit.CaptureChanged, Session: r.PathValue("id"), What: what}); err != nil {
		return gateway.Capture{}, err
	}
	return gateway.CapturesOf(s.gw).Set(r.Context(), r.PathValue("id"), *in.On)
}

func (s *sessions) egress(r *http.Request) (gateway.EgressRecord, error) {
	return gateway.EgressOf(s.gw).Record(r.Context(), r.PathValue("id"))
}

func (s *sessions) denials(r *http.Request) (gateway.DenialRecord, error) {
	return gateway.DenialsOf(s.gw).Record(r.Context(), r.PathValue("id"))
}

func (s *sessions) agents(r *http.Request) (agentsAnswer, error) {
	refresh, err := reply.Flag(r, "refresh")
	if err != nil {
		return agentsAnswer{}, err
	}
	return agentsAnswer{s.gw.Agents(r.Context(), refresh)}, nil
}

func (s *sessions) projects(r *http.Request) (projectsAnswer, error) {
	list, err := s.visible.Listed(r.Context(), gateway.Filter{Dead: true, Archived: true})
	return projectsAnswer{gateway.ProjectsOf(list)}, err
}

// overview returns everything that the page's first view shows. It waits for no
// probe of an agent: the sessions are shown at once.
func (s *sessions) overview(w http.ResponseWriter, r *http.Request) error {
	list, err := s.visible.Listed(r.Context(), gateway.Filter{Dead: true, Archived: true})
	if err != nil {
		return err
	}
	at, done := context.WithCancel(r.Context())
	done() // Agents returns once its context is done
	rest, err := json.Marshal(overviewAnswer{Agents: s.gw.Agents(at, false), Projects: gateway.ProjectsOf(list)})
	if err != nil {
		return err
	}
	const without = `{"sessions":null`
	reply.Raw(w, http.StatusOK, append(appendSessions(nil, list), rest[len(without):]...))
	return nil
}

const (
	maxUpload     = 19 << 20 // most bytes that are read of a body; attach.MaxFile limits the file
	uploadTimeout = 5 * time.Minute
)

// upload stores the body as a file. It accepts only a media type that no HTML
// form and no beacon can send.
func (s *sessions) upload(w http.ResponseWriter, r *http.Request) error {
	if mt, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || mt != "application/octet-stream" {
		return reply.NewError(http.StatusUnsupportedMediaType, "send the file as it is, with Content-Type: application/octet-stream")
	}
	if r.ContentLength > maxUpload {
		return runnel.Fail(runnel.PayloadTooLarge, "a file may have at most 10 MiB")
	}
	id := access.Caller(r.Context()).ID
	const largest = attach.MaxFile + attach.PerUpload
	if !s.sent.spend(id, largest, s.limits.UploadBytes, uploadDay) { // counts as the largest file until its size is known
		return s.refuse("max-upload-mib-per-credential", s.limits.UploadBytes>>20, "this credential has uploaded as much as allowed in a day")
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(uploadTimeout))
	up, err := s.gw.Upload(http.MaxBytesReader(w, r.Body, maxUpload), r.URL.Query().Get("name"))
	if err != nil {
		s.sent.refund(id, largest)
		return err
	}
	s.sent.refund(id, attach.MaxFile-up.Size)
	return reply.JSON(w, http.StatusCreated, up)
}

const uploadDay = 24 * time.Hour

// maySession counts a session that the caller is about to create, or fails if
// the caller has created too many.
func (s *sessions) maySession(r *http.Request) error {
	if !s.made.spend(access.Caller(r.Context()).ID, 1, int64(s.limits.Sessions), time.Minute) {
		return s.refuse("max-new-sessions-per-credential", int64(s.limits.Sessions), "this credential has created too many sessions in a minute; wait a little")
	}
	return nil
}
