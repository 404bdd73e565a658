package claude

import (
	"path/filepath"
	"strconv"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/text"
	"github.com/runnel-dev/runnel/internal/translate"
)

// session has the facts about the agent's session that outlive a turn.
type session struct {
	id, model, mode string                   // as last announced
	keyed           bool                     // the agent uses an API key, not a login
	denies          bool                     // the settings deny some calls, or are not known yet
	cost            float64                  // total_cost_usd of the last result
	commands        map[string]bool          // slash commands that the agent offers
	files           map[event.AgentFile]bool // those that were reported
}

func newSession() *session {
	return &session{commands: make(map[string]bool), files: make(map[event.AgentFile]bool)}
}

// announce takes an init frame and returns the model and the mode if they are
// new.
func (s *session) announce(f frame) (changed event.SessionUpdated) {
	s.keyed = f.APIKeySource != "" && f.APIKeySource != "none"
	if f.Model != "" && f.Model != s.model {
		s.model, changed.ModelID = f.Model, f.Model
	}
	changed.PermissionMode = s.changeMode(f.PermissionMode)
	return changed
}

// changeMode takes a permission mode and returns our word for it; "" if it is
// not new or we have no word for it.
func (s *session) changeMode(native string) string {
	mode := modeOf(native)
	if mode == "" || mode == s.mode {
		return ""
	}
	s.mode = mode
	return mode
}

// modeOf returns our word for a permission mode; "" if we have none.
func modeOf(native string) string {
	switch native {
	case "default", "acceptEdits", "plan", "dontAsk":
		return native
	case "bypassPermissions":
		return string(runnel.ModeBypass)
	}
	return ""
}

// spent returns what a turn cost. total_cost_usd counts from the start of the
// process, and on 2.1.329 from the start of the conversation.
func (s *session) spent(f frame) *float64 {
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

// window returns the size of the model's context, in tokens.
func (s *session) window(f frame) int64 {
	if m, ok := f.ModelUsage[s.model]; ok {
		return m.ContextWindow
	}
	var w int64
	for _, m := range f.ModelUsage {
		w = max(w, m.ContextWindow)
	}
	return w
}

// offers takes the slash commands that the agent offers and returns them in our
// form, bounded.
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

// boundedTools returns the names of tools, bounded.
func boundedTools(names []string) []string {
	var out []string
	for _, n := range names[:min(len(names), 500)] {
		out = append(out, text.OneLine(n, 200))
	}
	return out
}

// maxFiles bounds how many of the agent's own files are reported.
const maxFiles = 1000

// reportFile reports a file of the agent's own, such as a plan, once.
func (s *session) reportFile(e translate.TurnEmitter, kind, path string) {
	f := event.AgentFile{Path: path, Kind: kind}
	if !filepath.IsAbs(path) || len(path) > 4096 || s.files[f] || len(s.files) >= maxFiles {
		return
	}
	s.files[f] = true
	e.Emit(event.SessionUpdated{Files: []event.AgentFile{f}})
}

// requests are our control requests.
type requests struct {
	open  map[string]string // subtypes of the unanswered ones, by id
	count int               // requests of the connection so far
	stops int               // requests of the translator so far
}

func newRequests() requests { return requests{open: make(map[string]string)} }

// requestPrefix begins the ids of the connection's own control requests; the
// number of each follows.
const requestPrefix = "runnel-"

// next makes the next control request of the connection.
func (r *requests) next(c controlRequest) request {
	return request{"control_request", requestPrefix + strconv.Itoa(r.count+1), c}
}

// stop makes a request of the translator to interrupt the turn. It has ids of
// its own, so that the connection's requests are numbered alike in a recording.
func (r *requests) stop() request {
	r.stops++
	return request{"control_request", "stop-" + strconv.Itoa(r.stops), controlRequest{Subtype: "interrupt"}}
}

// sent takes a request as it passes.
func (r *requests) sent(f frame) {
	if n, err := strconv.Atoi(strings.TrimPrefix(f.RequestID, requestPrefix)); err == nil {
		r.count = max(r.count, n)
	}
	r.open[f.RequestID] = f.Request.Subtype
}

// answered closes a request and returns its subtype; "" for one that is not
// open.
func (r *requests) answered(id string) string {
	subtype := r.open[id]
	delete(r.open, id)
	return subtype
}
