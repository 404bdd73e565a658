package claude

import (
	"path/filepath"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/text"
	"github.com/runnel-dev/runnel/internal/translate"
)

// session has the facts about the agent's session that outlive a turn.
type session struct {
	id, model, mode string                   // as the agent last reported them
	process         string                   // identifies the agent's process, see requests.next; "" if an older version started it
	keyed           bool                     // the agent uses an API key, not a login
	denies          bool                     // the agent's settings deny some calls, or are not known yet
	cost            float64                  // total_cost_usd of the last result
	commands        map[string]bool          // names of the slash commands that the agent offers
	files           map[event.AgentFile]bool // the agent's files that were reported
	shown           []runnel.ShownItem       // of a following: items that have their ids already
}

func newSession() *session {
	return &session{commands: make(map[string]bool), files: make(map[event.AgentFile]bool)}
}

// announce records an init frame. It returns the model and the permission mode
// if they have changed.
func (s *session) announce(f frame) (changed event.SessionUpdated) {
	s.keyed = f.APIKeySource != "" && f.APIKeySource != "none"
	if f.Model != "" && f.Model != s.model {
		s.model, changed.ModelID = f.Model, f.Model
	}
	changed.PermissionMode = s.changeMode(f.PermissionMode)
	return changed
}

// changeMode records a permission mode and returns Runnel's name for it; "" if
// the mode has not changed or has no name in Runnel.
func (s *session) changeMode(native string) string {
	mode := modeOf(native)
	if mode == "" || mode == s.mode {
		return ""
	}
	s.mode = mode
	return mode
}

// modeOf returns Runnel's name for the agent's permission mode; "" if there is
// none.
func modeOf(native string) string {
	switch native {
	case "default", "acceptEdits", "plan", "dontAsk":
		return native
	case "bypassPermissions":
		return string(runnel.ModeBypass)
	}
	return ""
}

// turnCost returns the cost of a turn in US dollars; nil if the result has
// none. total_cost_usd is the cost since the start of the process, and on
// 2.1.329 since the start of the conversation.
func (s *session) turnCost(f frame) *float64 {
	if f.TotalCostUSD == nil {
		return nil
	}
	cost := *f.TotalCostUSD - s.cost
	s.cost = *f.TotalCostUSD
	if f.SinceLast != nil {
		cost = 0
		for _, m := range f.SinceLast {
			cost += m.CostUSD
		}
	}
	cost = max(cost, 0)
	return &cost
}

// contextWindow returns the size of the model's context window, in tokens.
func (s *session) contextWindow(f frame) int64 {
	if m, ok := f.ModelUsage[s.model]; ok {
		return m.ContextWindow
	}
	var w int64
	for _, m := range f.ModelUsage {
		w = max(w, m.ContextWindow)
	}
	return w
}

// offers records the slash commands that the agent offers. It returns at most
// 500 of them as events have them.
func (s *session) offers(in initialized) []event.AgentCommand {
	for _, c := range in.Commands {
		s.commands[c.Name] = true
	}
	var out []event.AgentCommand
	for _, c := range in.Commands[:min(len(in.Commands), 500)] {
		out = append(out, event.AgentCommand{
			Name: text.OneLine(c.Name, 100), Description: text.OneLine(c.Description, 300), Hint: text.OneLine(c.ArgumentHint, 200),
		})
	}
	return out
}

// boundedTools returns at most 500 names of tools, each of at most 200 bytes.
func boundedTools(names []string) []string {
	var out []string
	for _, n := range names[:min(len(names), 500)] {
		out = append(out, text.OneLine(n, 200))
	}
	return out
}

// maxFiles bounds how many of the agent's files are reported.
const maxFiles = 1000

// reportFile emits the path of a file that the agent keeps for itself, such as
// a plan. It emits each file once.
func (s *session) reportFile(e translate.TurnEmitter, kind, path string) {
	f := event.AgentFile{Path: path, Kind: kind}
	if !filepath.IsAbs(path) || len(path) > 4096 || s.files[f] || len(s.files) >= maxFiles {
		return
	}
	s.files[f] = true
	e.Emit(event.SessionUpdated{Files: []event.AgentFile{f}})
}

// requests has the control requests that were sent to the agent.
type requests struct {
	open  map[string]string // subtypes of the unanswered requests, by id
	count int               // number of requests that the connection has sent
	stops int               // number of requests that the translator has sent
}

func newRequests() requests { return requests{open: make(map[string]string)} }

// requestPrefix is the first part of the id of each control request of the
// connection. The request's number follows. In the first request to a process,
// "-" and an id of the process follow.
const requestPrefix = "runnel-"

// next returns c as the next control request of the connection. It is counted
// when it is sent.
func (r *requests) next(c controlRequest) request {
	id := requestPrefix + strconv.Itoa(r.count+1)
	if r.count == 0 {
		id += "-" + uuid.NewString()
	}
	return request{"control_request", id, c}
}

// stop returns a request of the translator to interrupt the turn. Its id has
// another prefix, so that it does not change the numbers of the connection's
// requests.
func (r *requests) stop() request {
	r.stops++
	return request{"control_request", "stop-" + strconv.Itoa(r.stops), controlRequest{Subtype: "interrupt"}}
}

// sent records a request that was sent. It returns the id of the process, if
// the request contains it.
func (r *requests) sent(f frame) (process string) {
	number, process, _ := strings.Cut(strings.TrimPrefix(f.RequestID, requestPrefix), "-")
	if n, err := strconv.Atoi(number); err == nil {
		r.count = max(r.count, n)
	} else {
		process = ""
	}
	r.open[f.RequestID] = f.Request.Subtype
	return process
}

// answered closes a request and returns its subtype; "" if the request is not
// open.
func (r *requests) answered(id string) string {
	subtype := r.open[id]
	delete(r.open, id)
	return subtype
}
