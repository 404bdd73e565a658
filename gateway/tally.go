package gateway

import (
	"maps"
	"slices"
	"sync"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
)

// A TurnEnd is a way in which turns of a kind of agent end.
type TurnEnd struct {
	Agent   string // name of the provider
	Outcome string // completed, cancelled or failed
	Code    string // error code of a failed turn
}

// An ApprovalEnd is a way in which approvals are resolved.
type ApprovalEnd struct {
	By       event.Resolver
	Source   string // name of the policy source that decided, if one did
	Decision string // kind of the choice; "withdrawn" if no choice was made
}

// An AgentStart is a way in which sessions get agents of a kind.
type AgentStart struct {
	Agent string // name of the provider
	How   string // new, resumed or taken_over
}

// A Tally counts the ends of turns, the resolved approvals and the agent starts
// of all sessions since the gateway was opened.
type Tally struct {
	Turns     map[TurnEnd]int64
	Approvals map[ApprovalEnd]int64
	Starts    map[AgentStart]int64
}

// maxCodes limits how many error codes are counted separately, because a code
// may come from an agent.
const maxCodes = 64

// OtherCode replaces further error codes once maxCodes codes are counted
// separately.
const OtherCode = "OTHER"

// tally counts. The zero value is ready to use.
type tally struct {
	mu    sync.Mutex
	n     Tally
	codes map[string]bool
}

// counts returns a copy of the counts.
func (t *tally) counts() Tally {
	t.mu.Lock()
	defer t.mu.Unlock()
	return Tally{maps.Clone(t.n.Turns), maps.Clone(t.n.Approvals), maps.Clone(t.n.Starts)}
}

// turn counts the end of a turn if ev ends one.
func (t *tally) turn(agent string, ev event.Event) {
	end := TurnEnd{Agent: agent}
	switch b := ev.Body.(type) {
	case event.ResponseDone:
		end.Outcome = string(b.Status)
	case event.ResponseError:
		end.Outcome, end.Code = "failed", b.Error.Code
	default:
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.codes[end.Code] && len(t.codes) >= maxCodes {
		end.Code = OtherCode
	}
	count(&t.codes, end.Code, true)
	count(&t.n.Turns, end, t.n.Turns[end]+1)
}

// approval counts a resolved approval.
func (t *tally) approval(d runnel.Decided) {
	end := ApprovalEnd{By: d.Resolved.By, Decision: event.ChoiceWithdrawn}
	if end.By == event.ByPolicy {
		end.Source = d.Maker.Name
	}
	choices := d.Approval.Choices
	if i := slices.IndexFunc(choices, func(c event.Choice) bool { return c.ID == d.Resolved.Choice }); i >= 0 {
		end.Decision = string(choices[i].Kind)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	count(&t.n.Approvals, end, t.n.Approvals[end]+1)
}

// start counts an agent that is about to start or was taken over.
func (t *tally) start(agent, how string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := AgentStart{agent, how}
	count(&t.n.Starts, s, t.n.Starts[s]+1)
}

func count[K comparable, V any](m *map[K]V, k K, v V) {
	if *m == nil {
		*m = make(map[K]V)
	}
	(*m)[k] = v
}
