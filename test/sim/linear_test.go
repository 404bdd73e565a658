package sim

import (
	"slices"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/runnel-dev/runnel/event"
)

// TestAnswersToUsersAreLinearizable has several users send prompts and decide
// approvals at the same time. One sequential order must explain all responses
// and the log: of several decisions of an approval one takes effect and the
// others come too late, and a prompt begins a turn only while no turn runs.
func TestAnswersToUsersAreLinearizable(t *testing.T) {
	first, runs := seeds(t, 600)
	for i := range runs {
		seed := first + uint64(i)
		p := makePlan(seed + 1<<33)
		p.users, p.ops, p.pace, p.faults = 5, 8, 20*time.Millisecond, false
		p.kinds = slices.DeleteFunc(p.kinds, func(f fate) bool { return f == fenced }) // a process that lost the log may answer from memory
		w := run(t, seed, p)
		if t.Failed() {
			return
		}
		for what, check := range map[string]func(*world) porcupine.CheckResult{"approvals": checkApprovals, "turns": checkTurns} {
			switch check(w) {
			case porcupine.Illegal:
				t.Fatalf("seed %d, plan %+v:\nno order of the operations explains what was told of %s\n%s", seed, p, what, w.story())
			case porcupine.Unknown:
				t.Fatalf("seed %d: %s: there are too many orders to try", seed, what)
			}
		}
	}
}

// checkTime bounds the search for an order.
const checkTime = 20 * time.Second

// operation is an input of the linearizability check: an op of a user, or a
// fact from the log. out is the result as in op; "unknown" means that the user
// got no response. For a rejected prompt, choice is the running turn.
type operation struct{ kind, arg, choice, out string }

func history(ops []op, also []porcupine.Operation, in func(op) (operation, bool)) []porcupine.Operation {
	for _, o := range ops {
		if x, ok := in(o); ok {
			also = append(also, porcupine.Operation{Input: x, Output: x.out, Call: o.call, Return: o.ret})
		}
	}
	return also
}

// checkApprovals searches an order for each approval separately. The state is
// the choice that was made. A resolution by anything but a user, such as a
// timeout, took effect at some time before it became visible in the log.
func checkApprovals(w *world) porcupine.CheckResult {
	var also []porcupine.Operation
	last := w.tick()
	for _, ev := range w.disk.snapshot() {
		b, ok := ev.Body.(event.ApprovalResolved)
		if !ok {
			continue
		}
		if b.By != event.ByUser {
			also = append(also, logged(operation{"other", b.ApprovalID, b.Choice, "ok"}, 0, w.seen[ev.ID()]))
		}
		also = append(also, logged(operation{"log", b.ApprovalID, b.Choice, "ok"}, last, last+1))
	}
	return check(porcupine.NondeterministicModel{
		Partition: by(func(o operation) string { return o.arg }),
		Init:      func() []any { return []any{""} },
		Step: func(state, input, _ any) []any {
			made, o := state.(string), input.(operation)
			switch {
			case o.kind == "log":
				return only(made == o.choice, made)
			case o.out == "ok":
				return only(made == "", o.choice)
			case o.out == "gone":
				return only(made != "", made)
			case made == "": // unknown: the decision may have taken effect
				return []any{made, o.choice}
			}
			return []any{made}
		},
	}, history(w.ops, also, func(o op) (operation, bool) {
		return operation{"decide", o.arg, o.choice, o.out}, o.kind == "decide" && !o.stale
	}))
}

// checkTurns searches for an order of the prompts and the ends of turns that
// explains all responses. The state is the running turn. A turn ended at some
// time between its prompt and the time at which its end became visible in the
// log.
func checkTurns(w *world) porcupine.CheckResult {
	var also []porcupine.Operation
	calls := make(map[string]op)
	for _, o := range w.ops {
		if o.kind == "send" {
			calls[o.arg] = o
		}
	}
	for _, ev := range w.disk.snapshot() {
		if event.Ends(ev.Body) {
			if o, ok := calls[ev.Turn]; ok {
				also = append(also, logged(operation{"end", ev.Turn, "", "ok"}, o.call, w.seen[ev.ID()]))
			}
		}
	}
	return check(porcupine.NondeterministicModel{
		Init: func() []any { return []any{""} },
		Step: func(state, input, _ any) []any {
			turn, o := state.(string), input.(operation)
			switch {
			case o.kind == "end":
				return only(turn == o.arg, "")
			case o.out == "ok":
				return only(turn == "", o.arg)
			case o.out == "busy":
				return only(turn == o.choice, turn)
			case turn == "":
				return []any{turn, o.arg}
			}
			return []any{turn}
		},
	}, history(w.ops, also, func(o op) (operation, bool) {
		return operation{"send", o.arg, o.busy, o.out}, o.kind == "send"
	}))
}

func logged(o operation, call, ret int64) porcupine.Operation {
	return porcupine.Operation{Input: o, Output: o.out, Call: call, Return: ret}
}

func check(m porcupine.NondeterministicModel, ops []porcupine.Operation) porcupine.CheckResult {
	return porcupine.CheckOperationsTimeout(m.ToModel(), ops, checkTime)
}

// only returns the single next state, or none if the step is impossible.
func only(possible bool, next string) []any {
	if !possible {
		return nil
	}
	return []any{next}
}

func by(key func(operation) string) func([]porcupine.Operation) [][]porcupine.Operation {
	return func(all []porcupine.Operation) [][]porcupine.Operation {
		parts := make(map[string][]porcupine.Operation)
		for _, o := range all {
			k := key(o.Input.(operation))
			parts[k] = append(parts[k], o)
		}
		out := make([][]porcupine.Operation, 0, len(parts))
		for _, p := range parts {
			out = append(out, p)
		}
		return out
	}
}
