package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/gateway/policy"
	"github.com/runnel-dev/runnel/rules"
	"github.com/runnel-dev/runnel/store"
)

// maxRules is the maximum number of stored rules. Each approval is compared
// with all of them.
const maxRules = 1000

// A rulebook holds the stored rules and decides calls by them.
type rulebook struct {
	catalogue store.Rules
	log       *slog.Logger
	ctx       context.Context // bounds the goroutines that count uses
	work      *sync.WaitGroup

	set atomic.Pointer[rules.Set] // the rules of list, parsed

	changing sync.Mutex // held while a change is made to both catalogue and list
	mu       sync.Mutex // guards list
	list     []store.Rule
}

// loadRules reads the rules of a catalogue into a new rulebook.
func loadRules(ctx context.Context, catalogue store.Rules) (*rulebook, error) {
	list, err := catalogue.Rules(ctx)
	if err != nil {
		return nil, storeError(err)
	}
	b := &rulebook{catalogue: catalogue}
	b.replace(list)
	return b, nil
}

func (b *rulebook) replace(list []store.Rule) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.list = list
	b.set.Store(rules.NewSet(list))
}

// all returns the rules, oldest first.
func (b *rulebook) all() []store.Rule {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.list)
}

// add stores a rule, which applies once add returns. It returns the stored
// rule; if an equal rule exists, that one.
func (b *rulebook) add(ctx context.Context, r store.Rule) (store.Rule, error) {
	return b.addWith(ctx, r, func(int64) error { return nil })
}

// addWith stores a rule and calls decide with its number. The rule applies once
// decide has succeeded; if decide fails, addWith removes the rule. If the rule
// cannot be stored, addWith does not call decide. If an equal rule exists,
// addWith calls decide with its number and keeps it in any case.
func (b *rulebook) addWith(ctx context.Context, r store.Rule, decide func(rule int64) error) (store.Rule, error) {
	b.changing.Lock()
	defer b.changing.Unlock()
	list := b.all()
	if i := slices.IndexFunc(list, func(old store.Rule) bool { return sameRule(old, r) }); i >= 0 {
		return list[i], decide(list[i].ID)
	}
	if len(list) >= maxRules {
		return r, runnel.Fail(runnel.RateLimited, fmt.Sprintf("there are %d rules, which is the maximum; remove some", maxRules))
	}
	r.CreatedAt = time.Now().UTC()
	var err error
	if r.ID, err = b.catalogue.AddRule(ctx, r); err != nil {
		return r, storeError(err)
	}
	if err := decide(r.ID); err != nil {
		if failed := b.catalogue.DeleteRule(context.WithoutCancel(ctx), r.ID); failed != nil {
			b.log.LogAttrs(ctx, slog.LevelError, "rule of a failed decision not removed", slog.Int64("rule", r.ID), slog.String("error", failed.Error()))
		}
		return r, err
	}
	b.replace(append(b.all(), r)) // decide may have counted uses
	return r, nil
}

// sameRule reports whether two rules decide the same calls in the same way.
func sameRule(a, b store.Rule) bool {
	return a.Effect == b.Effect && a.Kind == b.Kind && a.CLIType == b.CLIType && a.ProjectDir == b.ProjectDir && a.SessionID == b.SessionID && a.Tool == b.Tool && a.Pattern == b.Pattern
}

// remove removes a rule, which no longer applies once remove returns.
func (b *rulebook) remove(ctx context.Context, id int64) error {
	b.changing.Lock()
	defer b.changing.Unlock()
	if err := b.catalogue.DeleteRule(ctx, id); errors.Is(err, store.ErrNotFound) {
		return err
	} else if err != nil {
		return storeError(err)
	}
	b.replace(slices.DeleteFunc(b.all(), func(r store.Rule) bool { return r.ID == id }))
	return nil
}

// used counts a decision made by a rule. It does not wait for the catalogue.
func (b *rulebook) used(id int64, at time.Time) {
	b.mu.Lock()
	if i := slices.IndexFunc(b.list, func(r store.Rule) bool { return r.ID == id }); i >= 0 {
		b.list[i].Uses++
		b.list[i].LastUsedAt = at
	}
	b.mu.Unlock()
	b.work.Go(func() {
		if err := b.catalogue.UseRule(b.ctx, id, at); err != nil {
			b.log.LogAttrs(b.ctx, slog.LevelWarn, "use of a rule not counted", slog.Int64("rule", id), slog.String("error", err.Error()))
		}
	})
}

func ruleCall(c policy.Call) rules.Call {
	return rules.Call{CLIType: c.CLIType, Dir: c.Dir, Project: c.Project, Copy: c.Copy, Original: c.Original, Approval: c.Approval}
}

// denies is the policy source for deny rules.
func (b *rulebook) denies(_ context.Context, c policy.Call) (policy.Verdict, bool) {
	r, denied, ask := b.set.Load().Denies(ruleCall(c))
	if ask {
		return policy.Verdict{Ask: true, Source: sourceRules, Reason: "a rule that denies might match this call"}, true
	}
	return policy.Verdict{Source: sourceRules, Rule: r.ID, Reason: rules.Explain(r)}, denied
}

// allows is the policy source for allow rules.
func (b *rulebook) allows(_ context.Context, c policy.Call) (policy.Verdict, bool) {
	r, ok := b.set.Load().Allows(ruleCall(c))
	return policy.Verdict{Allow: true, Source: sourceRules, Rule: r.ID, Reason: rules.Explain(r)}, ok
}

const sourceRules = "rules" // the name of the policy source
