package runnel

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/text"
)

// An EgressAnswer says whether a program in a sandbox may reach a host.
type EgressAnswer struct {
	By  string // what allows the host, for the record; "" if it is refused
	Why string // why it is refused
}

// The bounds of the questions about hosts. A program in a sandbox asks as often
// as it wants to, so they protect people from being worn out.
const (
	maxReachOpen    = 8               // open questions of a turn
	maxReachAsked   = 50              // questions of a turn
	maxReachWaiting = 64              // connections of a turn that wait for answers
	maxReachAllowed = 200             // hosts that are allowed for a session
	reachTimeout    = 5 * time.Minute // for an answer
)

// reachState is what a session remembers about hosts that Options.Egress does
// not list. Only the actor uses it.
type reachState struct {
	allowed  map[string]bool // by key: allowed for the session
	answered []reachAnswered // since the last flush
}

// reachTurn is what a turn remembers about hosts. Only the actor uses it.
type reachTurn struct {
	open    map[string]*reachQuestion // by key
	byID    map[string]*reachQuestion // by id of the approval, also those of resolved ones
	once    map[string]bool           // allowed once, but no connection waited any more
	denied  map[string]string         // why people refused a host in this turn
	counted reachCount                // decisions of rules
}

func newReachTurn() reachTurn {
	return reachTurn{open: make(map[string]*reachQuestion), byID: make(map[string]*reachQuestion), once: make(map[string]bool), denied: make(map[string]string)}
}

// A reachQuestion is an approval about a host. All connections to the same host
// and port wait for the same answer.
type reachQuestion struct {
	key     string // host and port
	waiting []*reachWaiter
}

type reachWaiter struct {
	reply chan EgressAnswer // has room for the only answer
	left  atomic.Bool       // the connection waits no longer
}

// reachAnswered is a resolved question whose resolution is not in the log yet.
type reachAnswered struct {
	lt       *liveTurn
	q        *reachQuestion
	approval event.Approval
	resolved event.ApprovalResolved
	maker    Maker
}

// reply answers the connections that wait.
func (q *reachQuestion) reply(a EgressAnswer) {
	for _, w := range q.waiting {
		w.reply <- a
	}
	q.waiting = nil
}

// prune forgets the connections that wait no longer, and returns how many do.
func (q *reachQuestion) prune() int {
	q.waiting = slices.DeleteFunc(q.waiting, func(w *reachWaiter) bool { return w.left.Load() })
	return len(q.waiting)
}

func refusedReach(why string) EgressAnswer { return EgressAnswer{Why: why} }

// reachPrefix begins the ids of a turn's approvals about hosts. The session, and
// not the agent, waits for the answers to these approvals.
func reachPrefix(turn string) string { return turn + ":reach:" }

// reachApproval returns the question whether programs in the sandbox may reach a
// host. It has no id yet.
func reachApproval(host string, port int) event.Approval {
	args, _ := json.Marshal(struct { // cannot fail
		Host string `json:"host"`
		Port int    `json:"port"`
	}{host, port})
	sum := sha256.Sum256(args)
	return event.Approval{
		Kind: event.ApprovalTool, ToolName: event.ToolConnect, Title: "Reach " + reachKey(host, port),
		Arguments: args, ArgumentsDigest: hex.EncodeToString(sum[:]),
		Choices: []event.Choice{
			{ID: "allow_once", Kind: event.ChoiceAllowOnce, Label: "Allow once"},
			{ID: "allow_session", Kind: event.ChoiceAllowSession, Label: "Allow for this session"},
			{ID: "deny", Kind: event.ChoiceDeny, Label: "Deny"},
		},
	}
}

func reachKey(host string, port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }

// reacher returns the function that decides about hosts which programs in the
// sandbox of the link's agent want to reach. Rules decide first, then people.
func (s *Session) reacher(l *link) func(ctx context.Context, host string, port int) EgressAnswer {
	return func(ctx context.Context, host string, port int) EgressAnswer {
		spelled := host
		host = strings.ToLower(host)
		a := reachApproval(host, port)
		if why := s.unaskable(ctx, l, spelled, host); why != "" {
			return refusedReach(why)
		}
		if answer, ok := s.reachByRule(ctx, l, a, reachKey(host, port)); ok {
			return answer
		}
		w, answer := s.reachByPeople(ctx, l, a, reachKey(host, port))
		if w == nil {
			return answer
		}
		select {
		case answer := <-w.reply:
			return answer
		case <-ctx.Done():
			w.left.Store(true)
			return refusedReach("the connection ended before an answer")
		}
	}
}

const (
	whyNoAgent   = "denied: the agent has ended"
	whyNotLogged = "denied: the question is over"
	whyNoTurn    = "denied: no turn" // people are asked during a turn only: nobody reads the session otherwise
)

// unaskable returns why nobody can be asked about a host; "" if somebody can.
// spelled is the host in the program's letter case.
func (s *Session) unaskable(ctx context.Context, l *link, spelled, host string) string {
	if s.take(ctx) != nil {
		return whyNoAgent
	}
	defer s.pass()
	switch {
	case s.link != l || l.closing:
		return whyNoAgent
	case l.filter != nil && (l.filter.Text(host) != host || l.filter.Text(spelled) != spelled):
		return "denied: the name of the host contains a secret"
	}
	return ""
}

// reachByRule lets Config.Judge decide. A decision of a rule is no event, because
// a turn may make thousands of connections; see reachCount for those that
// Config.Decided gets.
func (s *Session) reachByRule(ctx context.Context, l *link, a event.Approval, key string) (EgressAnswer, bool) {
	if s.cfg.Judge == nil {
		return EgressAnswer{}, false
	}
	limited, done := context.WithTimeout(ctx, judgeTimeout)
	defer done()
	verdict := make(chan verdictMsg, 1)
	go func() { // a Judge that blocks must not block the proxy
		d, ok := s.cfg.Judge(limited, a)
		verdict <- verdictMsg{d: d.onBehalf(a), ok: ok}
	}()
	select {
	case v := <-verdict:
		if !v.ok {
			return EgressAnswer{}, false
		}
		resolved := event.ApprovalResolved{Choice: v.d.Choice, By: v.d.By, Reason: v.d.Reason, Rule: v.d.Maker.Rule}
		if s.take(ctx) == nil { // not do: the session may wait for this connection to end
			defer s.pass()
			if s.link != l {
				return refusedReach(whyNoAgent), true
			}
			s.countReach(l, Decided{At: time.Now(), Approval: a, Resolved: resolved, Maker: v.d.Maker}, key)
		}
		return reachAnswer(a, resolved, v.d.Maker), true
	case <-limited.Done():
		return EgressAnswer{}, false // reachByPeople returns at once if ctx has ended
	}
}

// reachingTurn returns the turn in which people are asked; nil if there is none.
// A response that has not started shows no questions.
func (s *Session) reachingTurn() *liveTurn {
	i := slices.IndexFunc(s.live, func(lt *liveTurn) bool {
		return lt.rules.started && !lt.rules.ended && !lt.rules.cancelling && !lt.followed
	})
	if i < 0 {
		return nil
	}
	return s.live[i]
}

// reachByPeople asks people, or uses an earlier answer of theirs. It returns a
// waiter if the caller has to wait for the answer.
func (s *Session) reachByPeople(ctx context.Context, l *link, a event.Approval, key string) (*reachWaiter, EgressAnswer) {
	if s.take(ctx) != nil {
		return nil, refusedReach(whyNoAgent)
	}
	defer s.pass()
	lt := s.reachingTurn()
	switch {
	case s.link != l || l.closing:
		return nil, refusedReach(whyNoAgent)
	case s.reach.allowed[key]:
		return nil, EgressAnswer{By: byChoice[event.ChoiceAllowSession]}
	case lt == nil:
		return nil, refusedReach(whyNoTurn)
	case lt.reach.denied[key] != "":
		return nil, refusedReach(lt.reach.denied[key])
	case lt.reach.once[key]:
		delete(lt.reach.once, key)
		return nil, EgressAnswer{By: byChoice[event.ChoiceAllowOnce]}
	case cmp.Or(s.facts.permissionMode, string(s.opt.PermissionMode)) == string(ModeDontAsk):
		return nil, refusedReach("denied: the permission mode dontAsk denies what would ask")
	}
	waiting := 0
	for _, q := range lt.reach.open {
		waiting += q.prune()
	}
	if waiting >= maxReachWaiting {
		return nil, refusedReach("denied: too many connections wait for answers")
	}
	q := lt.reach.open[key]
	if q == nil && (len(lt.reach.open) >= maxReachOpen || len(lt.reach.byID) >= maxReachAsked) {
		return nil, refusedReach("denied: the turn asks about too many hosts")
	}
	w := &reachWaiter{reply: make(chan EgressAnswer, 1)}
	if q != nil {
		q.waiting = append(q.waiting, w)
		return w, EgressAnswer{}
	}
	if !s.openReach(lt, a, &reachQuestion{key: key, waiting: []*reachWaiter{w}}) {
		return nil, refusedReach("denied: the question cannot be shown")
	}
	return w, EgressAnswer{}
}

// openReach logs a question. If the log fails, the question's waiter gets a
// refusal.
func (s *Session) openReach(lt *liveTurn, a event.Approval, q *reachQuestion) bool {
	a.ID = reachPrefix(lt.rules.turn) + uuid.NewString()
	lt.reach.open[q.key], lt.reach.byID[a.ID] = q, q
	s.stageAll(lt, lt.rules.admit(event.Event{At: time.Now(), Body: event.ApprovalRequested{Approval: a}}))
	if lt.asked[a.ID] == nil { // unreachable: the question is valid
		delete(lt.reach.open, q.key)
		return false
	}
	if s.flush() == nil && s.cfg.Asked != nil {
		s.cfg.Asked()
	}
	return true
}

// answeredReach takes the question from its approval, which is resolved. Its
// waiters get the answer once the resolution is in the log.
func (s *Session) answeredReach(lt *liveTurn, asked *question, b event.ApprovalResolved) {
	q := asked.reach
	asked.reach = nil
	delete(lt.reach.open, q.key)
	s.reach.answered = append(s.reach.answered, reachAnswered{lt, q, asked.approval, b, asked.maker})
}

// settle answers the waiters of a question whose resolution is in the log, and
// remembers the answer for later connections.
func (r reachAnswered) settle(s *Session) {
	answer := reachAnswer(r.approval, r.resolved, r.maker)
	switch kind := choiceKind(r.approval, r.resolved.Choice); {
	case kind == event.ChoiceAllowSession && len(s.reach.allowed) < maxReachAllowed:
		if s.reach.allowed == nil {
			s.reach.allowed = make(map[string]bool)
		}
		s.reach.allowed[r.q.key] = true
	case kind == event.ChoiceAllowOnce && r.resolved.Rule == 0 && r.q.prune() == 0:
		r.lt.reach.once[r.q.key] = true // a program that tries again profits from the late answer
	case kind == event.ChoiceDeny && r.resolved.By != event.ByTimeout:
		r.lt.reach.denied[r.q.key] = answer.Why
	}
	r.q.reply(answer)
}

// byChoice says for the record what allowed a host.
var byChoice = map[event.ChoiceKind]string{event.ChoiceAllowOnce: "allowed once", event.ChoiceAllowSession: "allowed for the session"}

// reachAnswer returns what the resolution of a question means for a connection.
func reachAnswer(a event.Approval, r event.ApprovalResolved, m Maker) EgressAnswer {
	by := byChoice[choiceKind(a, r.Choice)]
	switch {
	case by == "" && strings.HasPrefix(r.Reason, "denied"):
		return refusedReach(text.OneLine(r.Reason, 300))
	case by == "":
		return refusedReach(text.OneLine(strings.TrimSuffix("denied: "+r.Reason, ": "), 300))
	case r.Rule != 0:
		by = "rule " + strconv.FormatInt(r.Rule, 10)
	case r.By == event.ByPolicy:
		by = text.OneLine(cmp.Or(m.Name, by), 100)
	}
	return EgressAnswer{By: by}
}

// choiceKind returns the kind of an approval's choice; "" if it has no such
// choice.
func choiceKind(a event.Approval, id string) event.ChoiceKind {
	if i := slices.IndexFunc(a.Choices, func(c event.Choice) bool { return c.ID == id }); i >= 0 {
		return a.Choices[i].Kind
	}
	return ""
}
