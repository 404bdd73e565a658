package httpapi

import (
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/attach"
	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/gateway"
)

// The bodies of the Session API.
type (
	createRequest struct {
		CLIType    string          `json:"cliType" doc:"kind of agent, such as claude-code; GET /api/agents lists them"`
		ProjectDir string          `json:"projectDir" doc:"absolute path of the directory the agent works in"`
		Options    json.RawMessage `json:"options,omitempty"`
	}
	createAnswer struct {
		SessionID string   `json:"sessionId"`
		CLIType   string   `json:"cliType"`
		Warnings  []string `json:"warnings,omitempty"`
	}
	loadRequest struct {
		ViewFilePath string `json:"viewFilePath,omitempty" doc:"which transcript file of the agent's own to load from"`
	}
	listAnswer struct {
		Sessions []gateway.Status `json:"sessions"`
	}
	sendRequest struct {
		Content     string            `json:"content"`
		Attachments []json.RawMessage `json:"attachments,omitempty"`
		Opts        json.RawMessage   `json:"opts,omitempty"`
		Queue       bool              `json:"queue,omitempty" doc:"wait for the running turn instead of failing"`
	}
	sendAnswer struct {
		TurnID   string   `json:"turnId"`
		Queued   bool     `json:"queued,omitempty"`
		Warnings []string `json:"warnings,omitempty"`
	}
	decideRequest struct {
		Choice           string          `json:"choice" doc:"id of one of the approval's choices"`
		UpdatedArguments json.RawMessage `json:"updatedArguments,omitempty"`
		Reason           string          `json:"reason,omitempty"`
		ArgumentsDigest  string          `json:"argumentsDigest,omitempty" doc:"of the arguments this answer is about"`
	}
	optionsAnswer struct {
		gateway.Status
		Warnings []string `json:"warnings,omitempty"`
	}
	agentsAnswer struct {
		Agents []gateway.Agent `json:"agents"`
	}
	projectsAnswer struct {
		Projects []gateway.Project `json:"projects"`
	}
)

func (s *Server) sessionRoutes() []route {
	return []route{
		take(s, route{path: "/api/session/create", scope: auth.Send, bound: true, name: "createSession", status: http.StatusCreated,
			summary: "Start an agent in a directory"}, s.create),
		take(s, route{path: "/api/session/{id}/load", scope: auth.Send, name: "loadSession",
			summary: "Open a session; its history follows on the WebSocket"}, s.load),
		give(s, route{path: "/api/session/list", scope: auth.Read, bound: true, name: "listSessions", summary: "List the sessions of a project",
			params: []param{
				{name: "projectId", doc: "id of a project; * for all of them"},
				{name: "projectDir", doc: "directory of a project, instead of its id"},
				{name: "all", doc: "1: ended ones too"},
			}}, s.listSessions),
		give(s, route{path: "/api/session/{id}/status", scope: auth.Read, name: "sessionStatus",
			summary: "Tell how a session is"}, s.sessionStatus),
		take(s, route{path: "/api/session/{id}/send", scope: auth.Send, name: "sendPrompt", status: http.StatusAccepted,
			summary: "Begin a turn; answers once the prompt is durable"}, s.send),
		take(s, route{path: "/api/session/{id}/cancel", scope: auth.Send, name: "cancelTurn",
			summary: "End the running turn; the session stays usable"}, s.cancel),
		take(s, route{path: "/api/session/{id}/kill", scope: auth.Send, name: "killSession",
			summary: "End the session and everything it started; the transcript stays"}, s.kill),
		take(s, route{path: "/api/session/{id}/approvals/{approvalId}", scope: auth.Approve, name: "decideApproval",
			summary: "Answer what the agent asked; the first answer wins"}, s.decide),
		take(s, route{path: "/api/session/{id}/options", scope: auth.Send, name: "setOptions",
			summary: "Change settings of the live session: model, permissionMode, reasoningEffort, or the agent's own under config"}, s.setOptions),
		take(s, route{path: "/api/session/{id}/fork", scope: auth.Send, name: "forkSession", status: http.StatusCreated,
			summary: "Continue from a copy of the session"}, s.fork),
		{method: http.MethodPost, path: "/api/uploads", scope: auth.Send, bound: true, name: "upload", summary: "Keep a file for a prompt to come",
			params: []param{{name: "name", doc: "its file name; the extension says what it is"}},
			status: http.StatusCreated, out: attach.Upload{}, upload: true, serve: s.upload},
		give(s, route{path: "/api/agents", scope: auth.Read, bound: true, name: "listAgents", summary: "List the kinds of agents and what is known of them here",
			params: []param{{name: "refresh", doc: "1: look again now, for up to ten seconds; what is still looked at then says so (checking)"}}}, s.agents),
		give(s, route{path: "/api/projects", scope: auth.Read, bound: true, name: "listProjects",
			summary: "List the directories with sessions"}, s.projects),
	}
}

func (s *Server) create(r *http.Request, in createRequest) (createAnswer, error) {
	if in.CLIType == "" {
		return createAnswer{}, runnel.Fail(runnel.UnsupportedCLIType, "cliType: say which kind of agent; GET /api/agents lists them")
	}
	opt, err := callersOptions(r, in.Options)
	if err != nil {
		return createAnswer{}, err
	}
	dir, err := home(r.Context(), in.ProjectDir)
	if err != nil {
		return createAnswer{}, err
	}
	if err := s.maySession(r); err != nil {
		return createAnswer{}, err
	}
	st, err := s.gw.Create(r.Context(), in.CLIType, dir, opt.Options, opt.persona)
	return createAnswer{st.SessionID, st.CLIType, opt.warnings}, err
}

func (s *Server) load(r *http.Request, in loadRequest) (createAnswer, error) {
	st, err := s.gw.Load(r.Context(), r.PathValue("id"), in.ViewFilePath)
	return createAnswer{SessionID: st.SessionID, CLIType: st.CLIType}, err
}

func (s *Server) listSessions(r *http.Request) (listAnswer, error) {
	q := r.URL.Query()
	f := gateway.Filter{ProjectID: q.Get("projectId"), ProjectDir: q.Get("projectDir"), Dead: q.Get("all") == "1"}
	switch {
	case f.ProjectID == "" && f.ProjectDir == "":
		return listAnswer{}, runnel.Fail(runnel.ProjectIDRequired, "say which project: projectId, projectDir, or projectId=* for all of them")
	case f.ProjectID == "*":
		f.ProjectID = ""
	}
	list, err := s.listed(r.Context(), f)
	return listAnswer{list}, err
}

func (s *Server) sessionStatus(r *http.Request) (gateway.Status, error) {
	return s.gw.Status(r.Context(), r.PathValue("id"))
}

func (s *Server) send(r *http.Request, in sendRequest) (sendAnswer, error) {
	sent, warnings, err := s.prompt(r, r.PathValue("id"), in)
	return sendAnswer{sent.TurnID, sent.Queued, warnings}, err
}

// prompt is what every way of sending comes down to.
func (s *Server) prompt(r *http.Request, id string, in sendRequest) (gateway.Sent, []string, error) {
	id, err := s.mine(r.Context(), id)
	if err != nil {
		return gateway.Sent{}, nil, err
	}
	opt, err := callersOptions(r, in.Opts)
	if err != nil {
		return gateway.Sent{}, nil, err
	}
	refs := make([]attach.Ref, len(in.Attachments))
	for i, a := range in.Attachments {
		if err := json.Unmarshal(a, &refs[i]); err != nil {
			return gateway.Sent{}, nil, invalid(fmt.Sprintf("attachments.%d: needs either path or uploadId", i))
		}
	}
	sent, err := s.gw.Send(r.Context(), id, gateway.Prompt{
		Text: in.Content, Attachments: refs, Settings: opt.settings(), Persona: opt.persona, Queue: in.Queue,
	})
	if sent.Warning != "" {
		opt.warnings = append(opt.warnings, sent.Warning)
	}
	return sent, opt.warnings, err
}

func (s *Server) cancel(r *http.Request, _ empty) (empty, error) {
	return empty{}, s.gw.Cancel(r.Context(), r.PathValue("id"))
}

func (s *Server) kill(r *http.Request, _ empty) (empty, error) {
	return empty{}, s.gw.Kill(r.Context(), r.PathValue("id"))
}

func (s *Server) decide(r *http.Request, in decideRequest) (empty, error) {
	return empty{}, s.answerApproval(r, r.PathValue("id"), r.PathValue("approvalId"), in)
}

func (s *Server) answerApproval(r *http.Request, id, approval string, in decideRequest) error {
	if in.Choice == "" {
		return invalid("choice: say which of the approval's choices it is")
	}
	id, err := s.mine(r.Context(), id)
	if err != nil {
		return err
	}
	return s.gw.Decide(r.Context(), id, approval, runnel.Decision{
		Choice: in.Choice, UpdatedArguments: in.UpdatedArguments, Reason: bounded(in.Reason), ArgumentsDigest: in.ArgumentsDigest,
	})
}

func (s *Server) setOptions(r *http.Request, in json.RawMessage) (optionsAnswer, error) {
	return s.changeOptions(r, r.PathValue("id"), in)
}

func (s *Server) changeOptions(r *http.Request, id string, in json.RawMessage) (optionsAnswer, error) {
	opt, err := callersOptions(r, in)
	if err != nil {
		return optionsAnswer{}, err
	}
	set := opt.settings()
	if set.IsZero() {
		return optionsAnswer{}, invalid("nothing to change: give model, permissionMode, reasoningEffort or config")
	}
	if id, err = s.mine(r.Context(), id); err != nil {
		return optionsAnswer{}, err
	}
	st, err := s.gw.Set(r.Context(), id, set)
	return optionsAnswer{st, opt.warnings}, err
}

func (s *Server) fork(r *http.Request, _ empty) (createAnswer, error) {
	if err := s.maySession(r); err != nil {
		return createAnswer{}, err
	}
	st, err := s.gw.Fork(r.Context(), r.PathValue("id"))
	return createAnswer{SessionID: st.SessionID, CLIType: st.CLIType}, err
}

func (s *Server) agents(r *http.Request) (agentsAnswer, error) {
	return agentsAnswer{s.gw.Agents(r.Context(), r.URL.Query().Get("refresh") == "1")}, nil
}

func (s *Server) projects(r *http.Request) (projectsAnswer, error) {
	list, err := s.gw.Projects(r.Context())
	if own := caller(r.Context()).Project; own != "" {
		list = slices.DeleteFunc(list, func(p gateway.Project) bool { return p.ProjectDir != own })
	}
	return projectsAnswer{list}, err
}

const (
	maxUpload     = 19 << 20 // bytes of an upload's body, whatever is allowed of them
	uploadTimeout = 5 * time.Minute
)

// upload keeps the body as a file. Its media type is one that no form and no
// beacon can send.
func (s *Server) upload(w http.ResponseWriter, r *http.Request) error {
	if mt, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || mt != "application/octet-stream" {
		return refuse(http.StatusUnsupportedMediaType, "send the file as it is, with Content-Type: application/octet-stream")
	}
	if r.ContentLength > maxUpload {
		return runnel.Fail(runnel.PayloadTooLarge, "a file may have at most 10 MiB")
	}
	id := caller(r.Context()).ID
	if !s.sent.spend(id, attach.MaxFile, s.cfg.Limits.UploadBytes, uploadDay) { // as large as it may be
		return runnel.Fail(runnel.RateLimited, "this credential has uploaded as much as it may in a day")
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(uploadTimeout))
	up, err := s.gw.Upload(http.MaxBytesReader(w, r.Body, maxUpload), r.URL.Query().Get("name"))
	s.sent.refund(id, attach.MaxFile-up.Size)
	if err != nil {
		return err
	}
	s.answer(w, http.StatusCreated, up)
	return nil
}

// number reads a query parameter that is a whole number of zero or more.
func number(r *http.Request, name string, absent int64) (int64, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return absent, nil
	}
	return parseNumber(name, text)
}

func parseNumber(name, text string) (int64, error) {
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return 0, invalid(name + ": must be a whole number of zero or more")
	}
	return int64(n), nil
}
