package acp

import (
	"slices"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/jsonrpc"
	"github.com/runnel-dev/runnel/internal/text"
	"github.com/runnel-dev/runnel/internal/translate"
)

// session holds what is known about the agent and the conversation. Turns only
// read it.
type session struct {
	agent   Agent
	q       *quirks
	release string // version of the program, as reported by the agent
	version int    // negotiated protocol version
	caps    caps

	id       string // the agent's id of the conversation
	named    bool   // the agent has sent a message with an id
	title    string
	untitled bool // Runnel sets the title with the next prompt; see startupQuirks.titles
	commands []event.AgentCommand
	settings settings

	asksEach bool // the agent asks before each command, also if it was allowed for the session
}

func newSession(a Agent) session {
	q := a.quirks()
	return session{agent: a, q: q, version: 1, settings: settings{q: q, agent: a.conn().Name}}
}

// starts records how Runnel starts the agent: in which mode, and whether the agent
// asks before each command.
func (s *session) starts(mode runnel.PermissionMode, asksEach bool) {
	s.asksEach = asksEach
	if slices.Contains(s.q.startup.startModes, mode) {
		s.settings.began = mode
	}
}

// effective returns the options of a permission request that have the effect that
// they promise.
func (s *session) effective(options []permissionOption, tc toolCall) []permissionOption {
	if !s.asksEach || tc.ToolKind != "execute" {
		return options
	}
	return slices.DeleteFunc(slices.Clone(options), func(o permissionOption) bool { return slices.Contains(s.q.live.forSession, o.ID) })
}

// request is a request to the agent that it has not answered yet.
type request struct {
	Method  string
	Session string `json:",omitzero"` // id of the conversation
	Option  string `json:",omitzero"` // id of the option to change
	Value   string `json:",omitzero"` // new value of the option, or new title
}

// requestOf returns the fields of a request to the agent, and whether the
// request makes the agent replay the conversation.
func requestOf(m jsonrpc.Message) (r request, replays bool) {
	p := translate.DecodeLenient[struct {
		SessionID  string `json:"sessionId"`
		ModeID     string `json:"modeId"`
		ModelID    string `json:"modelId"`
		ConfigID   string `json:"configId"`
		Value      any    `json:"value"`
		Title      string `json:"title"`
		ReplayFrom any    `json:"replayFrom"`
	}](m.Params)
	r = request{Method: m.Method, Session: p.SessionID}
	switch m.Method {
	case methodLoad, methodFork: // opencode replays the end of the copied conversation (recording fork)
		return r, true
	case methodResume:
		return r, p.ReplayFrom != nil
	case methodSetMode:
		r.Option, r.Value = "mode", p.ModeID
	case methodSetModel:
		r.Option, r.Value = "model", p.ModelID
	case methodSetConfig:
		r.Option, r.Value = p.ConfigID, configText(p.Value)
	case methodTitle:
		r.Value = p.Title
	}
	return r, false
}

// isOther reports whether id is the id of another conversation.
func (s *session) isOther(id string) bool { return id != "" && id != s.id }

// initialized handles the answer to the request initialize.
func (s *session) initialized(m jsonrpc.Message) {
	in := translate.DecodeLenient[initialized](m.Result)
	s.version, s.caps, s.release = in.ProtocolVersion, in.caps(), in.AgentInfo.Version+in.Info.Version
}

// opened handles the answer to a request that opens a conversation.
func (s *session) opened(out translate.TurnEmitter, r request, m jsonrpc.Message) {
	if m.Error != nil {
		return
	}
	o := translate.DecodeLenient[opened](m.Result)
	if r.Method == methodLoad || r.Method == methodResume || o.SessionID == "" {
		o.SessionID = r.Session
	}
	if s.id = o.SessionID; s.id != "" {
		out.Emit(event.SessionUpdated{AgentSessionID: s.id})
	}
	s.settings.offered(out, o)
}

func (s *session) setTitle(out translate.TurnEmitter, native string) {
	title := text.OneLine(runnel.TitleOf(native), maxTitle)
	if s.q.startup.titles && title == untitled {
		return
	}
	if title != "" && title != s.title {
		s.title = title
		out.Emit(event.SessionUpdated{Title: title})
	}
}

// setCommands replaces the commands that a user can send by name, and emits
// them if they changed. It ignores an empty list.
func (s *session) setCommands(out translate.TurnEmitter, native []command) {
	var commands []event.AgentCommand
	for _, c := range native[:min(len(native), 500)] {
		if c.Name == "" {
			continue
		}
		cmd := event.AgentCommand{Name: text.OneLine(c.Name, 100), Description: text.OneLine(c.Description, 300)}
		if c.Input != nil {
			cmd.Hint = text.OneLine(c.Input.Hint, 200)
		}
		commands = append(commands, cmd)
	}
	if len(commands) > 0 && !slices.Equal(commands, s.commands) {
		s.commands = commands
		out.Emit(event.SessionUpdated{Commands: commands})
	}
}

// isCommand reports whether the agent has a command of this name.
func (s *session) isCommand(name string) bool {
	return slices.ContainsFunc(s.commands, func(c event.AgentCommand) bool { return c.Name == name })
}

// isCommandOf reports whether a prompt is a command of the agent.
func (s *session) isCommandOf(prompt []block) bool {
	if len(prompt) == 0 {
		return false
	}
	name, slash := strings.CutPrefix(strings.TrimSpace(prompt[0].Text), "/")
	name, _, _ = strings.Cut(name, " ")
	return slash && s.isCommand(name)
}

// change returns the request that changes a setting. The method is "" if the
// setting already has the value. change fails with InvalidRequest if the agent
// does not offer the value. It also fails if the value makes tools run without
// asking, unless bypass is true.
func (s *session) change(want settingRequest, bypass bool) (method string, params map[string]any, err error) {
	o, err := s.settings.allow(want, bypass)
	if err != nil || o.Value == want.value {
		return "", nil, err
	}
	params = map[string]any{"sessionId": s.id}
	switch method = s.settings.legacy[o.ID]; method {
	case methodSetMode:
		params["modeId"] = want.value
	case methodSetModel:
		params["modelId"] = want.value
	default:
		method = methodSetConfig
		params["configId"], params["value"] = o.ID, want.value
		if s.version >= 2 {
			params["type"] = "id"
		}
		if o.Type == event.ConfigBoolean {
			params["type"], params["value"] = "boolean", want.value == "true"
		}
	}
	return method, params, nil
}
