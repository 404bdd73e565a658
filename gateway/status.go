package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/profile"
	"github.com/runnel-dev/runnel/store"
)

// Status describes a session to clients.
type Status struct {
	SessionID      string             `json:"sessionId"`
	CLIType        string             `json:"cliType"`
	ProjectID      string             `json:"projectId"`
	ProjectDir     string             `json:"projectDir" doc:"Absolute path of the session's project. The agent works in this directory, unless the session has a worktree."`
	Title          string             `json:"title" doc:"The title that a client chose, else the one that the agent reported, else the beginning of the first prompt."`
	Deleted        bool               `json:"deleted,omitempty" doc:"The session was deleted; nothing else about it is known. Only in a last session:status of the WebSocket."`
	Archived       bool               `json:"archived,omitempty" doc:"Whether the session is archived. Lists leave it out unless they are asked for archived sessions."`
	State          event.SessionState `json:"state" enum:"open,loading,dead" doc:"open: the session accepts prompts. loading: its history is being imported. dead: the session was ended; load it to reopen it."`
	Status         event.SessionState `json:"status" enum:"open,loading,dead" doc:"Same as state."`
	IsAlive        bool               `json:"isAlive" doc:"Whether the agent's process runs."`
	Activity       event.Activity     `json:"activity" enum:"idle,working,waiting" doc:"waiting: the agent waits for an answer to an approval."`
	TurnID         string             `json:"turnId,omitempty" doc:"Id of the running turn. Absent if no turn runs."`
	LastSeq        int64              `json:"lastSeq" doc:"Position of the newest event in the session's log. 0: the log is empty."`
	ModelID        string             `json:"modelId,omitempty" doc:"The model in use, as the agent reported it."`
	PermissionMode string             `json:"permissionMode,omitempty" doc:"The permission mode in use."`
	AgentSessionID string             `json:"agentSessionId,omitempty"`

	Config []event.ConfigOption `json:"config,omitempty" doc:"The agent's own settings with their current values, as the agent last reported them. Absent in lists."`
	Given  runnel.Values        `json:"given,omitempty" doc:"Values of config that clients have set, by id. They stay in force when the agent restarts."`

	Persona    string `json:"persona,omitempty" doc:"Name of the session's profile."`
	Delegation string `json:"delegation,omitempty" enum:"governed,agent" doc:"Who decides whether the agent may start subagents: the gates (governed) or the agent itself."`

	Resolved profile.Resolved `json:"resolved,omitempty" doc:"The resolved options by name, each with its source: those of the running agent, or those that the next agent would start with. Absent in lists."`

	Commands []event.AgentCommand `json:"commands,omitzero" doc:"Commands that the agent offers, as it last reported them. A prompt that begins with / and a name runs the command. Absent in lists, and in a session:status of the WebSocket if the connection has received the same commands of this session."`

	Files []event.AgentFile `json:"files,omitempty" doc:"Files that the agent reported, such as its plan. Absent in lists."`

	Capture *Capture `json:"capture,omitempty" doc:"The session's debug capture. Absent in lists, and if the session never had one."`

	Worktree *SessionWorktree `json:"worktree,omitempty" doc:"The git worktree in which the agent works. Absent if the agent works in the project itself."`

	Writer *runnel.Writer `json:"writer,omitempty" doc:"A process outside of Runnel that has the conversation open, such as the agent in a terminal. What it adds appears in the session. Prompts fail with CONVERSATION_IN_USE meanwhile."`

	LastLine         string           `json:"lastLine,omitempty" doc:"One line of text from the newest activity, for lists."`
	LastTurn         event.TurnStatus `json:"lastTurn,omitempty" enum:"completed,cancelled,error" doc:"Outcome of the newest turn that has ended."`
	PendingApprovals []event.Approval `json:"pendingApprovals" doc:"Approvals that wait for an answer."`
	Queued           int              `json:"queued" doc:"Number of queued prompts."`
	QueueHeld        bool             `json:"queueHeld,omitempty" doc:"Whether the queued prompts wait until somebody continues the queue, because a client stopped a turn or held the queue."`
	Queue            []QueuedPrompt   `json:"queue,omitempty" doc:"The queued prompts; the first one starts next. Absent in lists, and if no prompts are queued."`
	SeenSeq          int64            `json:"seenSeq" doc:"Position in the log up to which somebody has seen the session, on any device. Smaller than lastSeq: the session has unread events."`
	CreatedAt        time.Time        `json:"createdAt"`
	LastActiveAt     time.Time        `json:"lastActiveAt" doc:"Time of the newest event."`

	BootedAt        time.Time `json:"bootedAt,omitzero" doc:"When the session's agent last started."`
	BootFingerprint string    `json:"bootFingerprint,omitempty" doc:"Hash of the profile, tools, model, directory and other options that the agent last started with."`
}

// Status returns the status of a session, without opening it.
func (g *Gateway) Status(ctx context.Context, ref string) (Status, error) {
	id, err := g.importer.resolve(ctx, ref, "", false)
	if err != nil {
		return Status{}, err
	}
	if e := g.sessions.peek(id); e != nil {
		err := e.recall(ctx, g.records.reports)
		st := e.status()
		rec, _ := e.snapshot()
		st.Capture = g.opener.captures.status(id, keptOf(rec.Options).keptCapture)
		return st, err
	}
	rec, err := g.opener.record(ctx, id)
	if err != nil {
		return Status{}, err
	}
	st, err := dormant(ctx, g.cfg.Log, g.cfg.Catalogue, rec)
	if err != nil {
		return st, err
	}
	r, _, err := g.records.reports.read(ctx, id)
	st.Config, st.Files, st.Commands = r.config, r.files, r.commands
	st.Capture = g.opener.captures.status(id, keptOf(rec.Options).keptCapture)
	if res, err := g.opener.resolveRecord(rec); err == nil { // on an error Resolved stays empty; the next prompt returns the error
		st.Resolved = shownResolved(res.by, st, runnel.Settings{})
	}
	return st, err
}

// A Filter selects sessions. The zero value selects all sessions that are
// neither dead nor archived.
type Filter struct {
	ProjectID, ProjectDir string // "" for all
	Dead                  bool   // also sessions that were ended
	Archived              bool   // also archived sessions, whether or not they were ended
}

// Selects reports whether f selects a session with this status.
func (f Filter) Selects(st Status) bool {
	return f.selects(st.State, st.Archived) && f.inProject(st.ProjectID, st.ProjectDir)
}

func (f Filter) inProject(id, dir string) bool {
	return (f.ProjectID == "" || f.ProjectID == id) && (f.ProjectDir == "" || f.ProjectDir == dir)
}

// selects reports whether f selects a session by its state.
func (f Filter) selects(state event.SessionState, archived bool) bool {
	if archived {
		return f.Archived
	}
	return f.Dead || state != event.StateDead
}

// List returns the sessions that f selects, newest activity first. If ctx is
// from [WithProject], it returns only sessions of that project.
func (g *Gateway) List(ctx context.Context, f Filter) ([]Status, error) {
	f, ok := f.within(onlyProject(ctx))
	if !ok {
		return []Status{}, nil
	}
	recs, err := g.cfg.Catalogue.Sessions(ctx, store.SessionFilter{ProjectID: f.ProjectID, ProjectDir: f.ProjectDir, Dead: f.Dead || f.Archived, Trim: Described})
	if err != nil {
		return nil, storeError(err)
	}
	out := make([]Status, 0, len(recs))
	for _, rec := range recs {
		st, err := g.roster.row(ctx, rec)
		if err != nil {
			return nil, err
		}
		if f.Selects(st) {
			out = append(out, st)
		}
	}
	// Not the order of the records: those of open sessions may lag behind.
	slices.SortFunc(out, func(a, b Status) int {
		return cmp.Or(b.LastActiveAt.Compare(a.LastActiveAt), cmp.Compare(a.SessionID, b.SessionID))
	})
	return out, nil
}

// A Project is a directory that has sessions.
type Project struct {
	ProjectID    string    `json:"projectId"`
	ProjectDir   string    `json:"projectDir" doc:"Absolute path of the directory that the agent works in."`
	Sessions     int       `json:"sessions" doc:"Number of sessions, including ended ones."`
	LastActiveAt time.Time `json:"lastActiveAt" doc:"Time of the newest event."`
}

// ProjectsOf returns the directories of these sessions, in the order in which
// they appear in the list.
func ProjectsOf(all []Listed) []Project {
	at := make(map[string]int)
	out := []Project{}
	for _, l := range all {
		i, ok := at[l.ProjectID]
		if !ok {
			i = len(out)
			at[l.ProjectID] = i
			out = append(out, Project{ProjectID: l.ProjectID, ProjectDir: l.ProjectDir, LastActiveAt: l.LastActiveAt})
		}
		out[i].Sessions++
	}
	return out
}

func (e *entry) status() Status {
	live := e.session.Status()
	rec, _ := e.snapshot()
	st := Describe(rec)
	if live.State == event.StateDead {
		st.State, st.Status = event.StateDead, event.StateDead
	}
	st.IsAlive, st.Activity, st.TurnID, st.LastSeq = live.AgentAlive, live.Activity, live.Turn, live.Head
	for _, a := range live.Pending {
		st.PendingApprovals = append(st.PendingApprovals, a.Outline())
	}
	if live.Turn != "" { // a turn may have its own settings
		setIf(&st.ModelID, live.ModelID)
		setIf(&st.PermissionMode, live.PermissionMode)
	}
	st.Config = live.Config
	e.mu.Lock()
	defer e.mu.Unlock()
	st.enqueued(e.queued, e.rec.QueueHeld)
	if st.Config == nil {
		st.Config = e.reported.config
	}
	st.Files, st.Commands, st.Writer = slices.Clone(e.reported.files), e.reported.commands, e.writer
	st.Resolved = shownResolved(e.resolved, st, live.TurnSettings)
	return st
}

func (st *Status) enqueued(queue []QueuedPrompt, held bool) {
	st.Queue, st.Queued, st.QueueHeld = queue, len(queue), held && len(queue) > 0
}

// dormant returns the status of a session that is not open.
func dormant(ctx context.Context, log runnel.Log, cat store.Catalogue, rec store.Session) (Status, error) {
	st := Describe(rec)
	if rec.QueueHeld { // a session with another queue is open
		queue, err := queueOf(ctx, cat, rec.ID)
		if err != nil {
			return st, err
		}
		st.enqueued(queue, true)
	}
	state, err := log.State(ctx, rec.ID)
	if err != nil {
		return st, storeError(err)
	}
	st.LastSeq = state.Head
	return st, nil
}

// Described returns the part of a record's options that [Describe] shows. The
// rest, such as the text for the system prompt, may have a megabyte.
func Described(options json.RawMessage) json.RawMessage {
	var shown struct {
		Persona    json.RawMessage `json:"persona,omitempty"`
		Delegation json.RawMessage `json:"delegation,omitempty"`
		Config     json.RawMessage `json:"config,omitempty"`
		Worktree   json.RawMessage `json:"worktree,omitempty"`
		keptCare
	}
	if json.Unmarshal(options, &shown) != nil {
		return nil // a record without options, or with options that cannot be read
	}
	data, _ := json.Marshal(shown) // cannot fail: its members are valid JSON
	return data
}

// Describe returns the status of a session that is not open, from its record
// alone. It does not set LastSeq.
func Describe(rec store.Session) Status {
	var opt runnel.Options
	_ = json.Unmarshal(rec.Options, &opt) // we wrote the JSON; Given stays empty if it cannot be read
	k := keptOf(rec.Options)
	return Status{
		Persona: k.Persona, Delegation: cmp.Or(k.Delegation, ByAgent), Worktree: k.shownWorktree(),
		Given: opt.Config, SessionID: rec.ID, CLIType: rec.CLIType, ProjectID: rec.ProjectID, ProjectDir: rec.ProjectDir, Title: titleOf(rec, k.keptCare), Archived: k.Archived,
		State: rec.State, Status: rec.State, Activity: event.ActivityIdle, ModelID: rec.ModelID, PermissionMode: rec.PermissionMode,
		AgentSessionID: rec.AgentSessionID, LastTurn: rec.LastTurn, LastLine: rec.LastLine, PendingApprovals: []event.Approval{},
		SeenSeq: rec.SeenSeq, CreatedAt: rec.CreatedAt, LastActiveAt: rec.LastActiveAt, BootedAt: rec.BootedAt, BootFingerprint: rec.BootFingerprint,
	}
}
