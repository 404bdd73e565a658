package acp

import (
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/agentconn"
	"github.com/runnel-dev/runnel/internal/jsonrpc"
	"github.com/runnel-dev/runnel/internal/text"
	"github.com/runnel-dev/runnel/internal/translate"
)

// opening is the request that opens a conversation.
type opening struct {
	method   string            // one of session/new, resume, load, fork; "" for none
	session  string            // the agent's id of the conversation to continue
	show     bool              // replay the conversation, for History
	pictures func(data []byte) // of the replay; see runnel.Conversation
}

// sessionID matches the conversation ids that users may pass. Agents put these
// ids on command lines and into file names.
var sessionID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/@=+~-]*$`)

// check rejects option values that are not safe to pass to the agent. It runs
// before the agent starts. runnel.CheckOptions has already rejected options
// that the agent does not support.
func (p *provider) check(opt runnel.Options, begin opening) error {
	if opt.PermissionMode == runnel.ModeBypass && !opt.AllowBypass {
		return agentconn.ErrBypass()
	}
	if opt.PermissionMode != "" && !slices.Contains(p.modes(), opt.PermissionMode) {
		return agentconn.NoMode(p.DisplayName(), opt.PermissionMode)
	}
	if begin.session != "" && (len(begin.session) > 500 || !sessionID.MatchString(begin.session) || strings.Contains(begin.session, "..")) {
		return runnel.Fail(runnel.InvalidRequest, "resume: not a valid conversation id of "+p.DisplayName())
	}
	return nil
}

// handshake initializes a new agent, opens a conversation, and applies the
// requested settings.
type handshake struct {
	p    *provider
	c    *conn
	opt  runnel.Options
	next func() ([]byte, error)
	opening
}

func (h *handshake) run(next func() ([]byte, error)) error {
	h.next = next
	if err := h.initialize(); err != nil || h.method == "" {
		return err
	}
	if err := h.begin(); err != nil {
		return err
	}
	for _, s := range h.settings() {
		if err := h.set(s); err != nil {
			return err
		}
	}
	return h.title()
}

// call sends a request and waits for its answer. If id is zero, call uses a new
// id.
func (h *handshake) call(id jsonrpc.ID, method string, params any) (jsonrpc.Message, error) {
	err := h.c.Do(func(send func(any) error) error {
		var err error
		if id.IsZero() {
			if id, err = h.c.tr.peer.NextID(); err != nil {
				return err
			}
		}
		line, err := encode(jsonrpc.NewRequest(id, method, params))
		if err != nil {
			return err
		}
		return send(line)
	})
	if err != nil {
		return jsonrpc.Message{}, h.exited(err)
	}
	for {
		line, err := h.next()
		if err != nil {
			return jsonrpc.Message{}, h.exited(err)
		}
		if m, err := jsonrpc.Decode(line); err == nil && m.Kind() == jsonrpc.Response && m.ID.Same(id) {
			return m, nil
		}
	}
}

// exited returns the error for an agent that exited during the handshake. The
// message does not include the agent's stderr, which may contain secrets.
func (h *handshake) exited(cause error) error {
	end := h.c.Ended()
	cause = errors.Join(cause, end.Err)
	agent := h.p.agent.conn()
	if strings.Contains(end.Stderr, "nknown argument") || strings.Contains(end.Stderr, "nknown option") {
		return runnel.Fail(runnel.SessionCreateFailed, "This version of "+agent.Name+" does not support the Agent Client Protocol. Update it: "+agent.Install, cause)
	}
	return runnel.Fail(runnel.SessionCreateFailed, end.Says(agent.Name)+". Try it in a terminal: "+agent.Try, cause)
}

func (h *handshake) initialize() error {
	want := max(h.p.agent.Version, 1)
	us := map[string]any{"name": "runnel", "title": "Runnel", "version": "1"}
	elicit := map[string]any{"form": map[string]any{}, "url": map[string]any{}}
	caps := map[string]any{
		"fs": map[string]any{"readTextFile": false, "writeTextFile": false}, "terminal": false, "elicitation": elicit,
	}
	if h.c.tr.session.q.startup.notices {
		caps["session"] = map[string]any{"notices": map[string]any{}}
	}
	params := map[string]any{"protocolVersion": want, "clientInfo": us, "clientCapabilities": caps}
	if want >= 2 {
		params = map[string]any{"protocolVersion": want, "info": us, "capabilities": map[string]any{"elicitation": elicit}}
	}
	m, err := h.call(jsonrpc.ID{}, methodInitialize, params)
	if err != nil {
		return err
	}
	if v := h.c.tr.session.version; m.Error != nil || v < 1 || v > 2 {
		agent := h.p.agent.conn()
		return runnel.Fail(runnel.ProtocolError, agent.Name+" does not support version 1 or 2 of the Agent Client Protocol. Update it: "+agent.Install)
	}
	if path, _, err := h.p.command(h.opt); err == nil {
		h.p.knownCaps.set(path, h.c.tr.session.caps)
	}
	return nil
}

// begin opens the conversation.
func (h *handshake) begin() error {
	tr, caps := h.c.tr, h.c.tr.session.caps
	tr.out.Pictures = h.pictures
	params, err := h.params()
	if err != nil {
		return err
	}
	var id jsonrpc.ID
	switch {
	case h.method == methodFork && !caps.Fork:
		return h.cannot("cannot continue a copy of a conversation")
	case h.show && tr.session.version >= 2: // version 2 replays with session/resume
		h.method, params["replayFrom"] = methodResume, map[string]any{"type": "start"}
		id = jsonrpc.String(historyID)
	case h.method == methodLoad && !caps.Load, h.method == methodResume && !caps.Resume && !caps.Load:
		return h.cannot("cannot continue stored conversations")
	case h.show:
		id = jsonrpc.String(historyID)
	case h.method == methodResume && !caps.Resume:
		h.method = methodLoad // the translator drops the replay: the event log has the conversation
	}
	m, err := h.call(id, h.method, params)
	if err != nil {
		return err
	}
	if m.Error != nil {
		return h.refused(m.Error)
	}
	if tr.session.id == "" {
		return runnel.Fail(runnel.ProtocolError, h.p.DisplayName()+" opened a conversation without an id")
	}
	for tr.replay != nil { // some agents replay after their answer
		if _, err := h.next(); err != nil {
			return h.exited(err)
		}
	}
	return nil
}

func (h *handshake) cannot(what string) error {
	return runnel.Fail(runnel.UnsupportedCapability, h.p.DisplayName()+" "+what)
}

// refused returns the error for a failed request to open a conversation.
func (h *handshake) refused(e *jsonrpc.Error) error {
	cause := error(e)
	agent := h.p.agent.conn()
	why := reasonOf(e.Message)
	if details := translate.DecodeLenient[struct {
		Details string `json:"details"`
	}](e.Data).Details; details != "" {
		why = reasonOf(details)
	}
	switch {
	case e.Code == codeAuthRequired:
		return runnel.Fail(runnel.AgentNotLoggedIn, agent.Name+" is not logged in."+h.p.agent.howToLogIn(), cause)
	case h.session != "" && (e.Code == codeNotFound || e.Code == jsonrpc.CodeInvalidParams || isNotFound(why) || why == h.c.tr.session.q.startup.notFoundText):
		return runnel.Fail(runnel.SessionNotFound, agent.Name+" has no such conversation.", cause)
	}
	return runnel.Fail(runnel.SessionCreateFailed, agent.Name+" did not open a conversation: "+why, cause)
}

// isNotFound reports whether a reason means that the conversation does not
// exist.
func isNotFound(why string) bool {
	why = strings.ToLower(why)
	return strings.Contains(why, "not found") || strings.Contains(why, "no such") || strings.Contains(why, "no rollout") || strings.Contains(why, "no previous") || strings.Contains(why, "invalid session")
}

// params returns the parameters of the request that opens the conversation.
func (h *handshake) params() (map[string]any, error) {
	dir := h.opt.Dir
	if dir == "" {
		var err error
		if dir, err = os.Getwd(); err != nil {
			return nil, runnel.Fail(runnel.WorkingRootInaccessible, "the current directory is not accessible", err)
		}
	}
	servers, err := h.c.tr.session.mcpServers(h.opt.MCPServers)
	if err != nil {
		return nil, err
	}
	params := map[string]any{"cwd": dir, "mcpServers": servers}
	if h.session != "" {
		params["sessionId"] = h.session
	}
	if len(h.opt.AddDirs) > 0 {
		if !h.c.tr.session.caps.AddDirs {
			return nil, h.cannot("does not support additional directories (addDirs)")
		}
		params["additionalDirectories"] = h.opt.AddDirs
	}
	if f := h.c.tr.session.q.startup.prepare; f != nil {
		if err := f(h.p.environ(os.Environ(), h.opt), h.opt, params); err != nil {
			return nil, err
		}
	}
	return params, nil
}

// mcpServers converts MCP servers, given as an object by name, to the list that
// the protocol requires.
func (s *session) mcpServers(given json.RawMessage) ([]any, error) {
	out := []any{}
	if len(given) == 0 {
		return out, nil
	}
	servers, err := agentconn.MCPServers[struct {
		Type    string            `json:"type"`
		Command string            `json:"command"`
		Args    []string          `json:"args"`
		Env     map[string]string `json:"env"`
		URL     string            `json:"url"`
		Headers map[string]string `json:"headers"`
	}](given)
	if err != nil {
		return nil, err
	}
	pairs := func(m map[string]string) []any {
		list := []any{}
		for _, name := range slices.Sorted(maps.Keys(m)) {
			list = append(list, map[string]any{"name": name, "value": m[name]})
		}
		return list
	}
	for _, name := range slices.Sorted(maps.Keys(servers)) {
		given := servers[name]
		switch {
		case given.Command != "" && !s.q.startup.noStdioServers:
			server := map[string]any{"name": name, "command": given.Command, "args": append([]string{}, given.Args...), "env": pairs(given.Env)}
			if s.version >= 2 {
				server["type"] = "stdio"
			}
			out = append(out, server)
		case given.URL != "" && (given.Type == "sse" && s.caps.SSE || given.Type != "sse" && s.caps.HTTP):
			kind := "http"
			if given.Type == "sse" {
				kind = "sse"
			}
			out = append(out, map[string]any{"type": kind, "name": name, "url": given.URL, "headers": pairs(given.Headers)})
		default:
			return nil, runnel.Fail(runnel.InvalidRequest, "mcpServers: "+s.agent.conn().Name+" does not support the transport of the server "+text.OneLine(name, 100))
		}
	}
	return out, nil
}

// settings returns the settings to apply before the first prompt. They always
// include the permission mode, because the user's own settings may start the
// agent in a mode in which tools run without asking.
func (h *handshake) settings() []settingRequest {
	if h.show {
		return nil
	}
	s := &h.c.tr.session
	mode := s.q.startup.modes[cmp.Or(h.opt.PermissionMode, runnel.ModeDefault)]
	if s.settings.began != "" {
		mode = s.q.startup.modes[runnel.ModeDefault]
	}
	set := runnel.Settings{Model: h.opt.Model, ReasoningEffort: h.opt.ReasoningEffort, Config: h.opt.Config}
	if s.q.startup.startModel != nil && find(s.settings.config, "model") == nil {
		set.Model = "" // the agent started with it
	}
	return settingRequests(mode, set)
}

// set changes one setting.
func (h *handshake) set(want settingRequest) error {
	method, params, err := h.c.tr.session.change(want, h.opt.AllowBypass)
	if err != nil || method == "" {
		return err
	}
	m, err := h.call(jsonrpc.ID{}, method, params)
	if err != nil {
		return err
	}
	if m.Error != nil {
		return runnel.Fail(runnel.InvalidRequest, want.name()+": "+h.p.DisplayName()+" does not accept "+text.OneLine(want.value, 100), m.Error)
	}
	return nil
}
