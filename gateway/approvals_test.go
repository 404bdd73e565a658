package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/audit"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/redact"
	"github.com/runnel-dev/runnel/store"
)

// asks returns a prompt that makes the script agent ask to run a command.
func asks(command string) string {
	args, _ := json.Marshal(map[string]string{"command": command})
	return fmt.Sprintf(`{"steps":[{"tool":{"name":"Bash","kind":"execute","title":%q,"arguments":%s,"output":"ok","ask":{}}}]}`, command, args)
}

// answered sends a prompt that makes the agent ask for an approval. It returns
// open if a person must answer the approval, and otherwise how the approval was
// resolved.
func (d *disk) answered(t *testing.T, g *Gateway, id, command string) (open *event.Approval, r event.ApprovalResolved) {
	t.Helper()
	sent := send(t, g, id, asks(command))
	var a event.Approval
	for ev, err := range runnel.Follow(t.Context(), &d.log, id, sent.After) {
		if err != nil {
			t.Fatal(err)
		}
		switch b := ev.Body.(type) {
		case event.ApprovalRequested:
			a = b.Approval
			// Decide waits until the judge (Config.Judge) has decided or has
			// left the decision to a person.
			err := g.Approvals().Decide(t.Context(), id, a.ID, runnel.Decision{Choice: "no such choice"})
			if runnel.CodeOf(err) == runnel.InvalidRequest {
				return &a, r
			}
		case event.ApprovalResolved:
			d.untilIdle(t, g, id)
			return nil, b
		}
	}
	return nil, r
}

// finish denies the approval a if a person must answer it.
func (d *disk) finish(t *testing.T, g *Gateway, id string, a *event.Approval) {
	t.Helper()
	if err := g.Approvals().Decide(t.Context(), id, a.ID, runnel.Decision{Choice: "deny"}); err != nil {
		t.Fatal(err)
	}
	d.untilIdle(t, g, id)
}

func command(effect store.Effect, pattern string) store.Rule {
	return store.Rule{Effect: effect, Kind: store.RuleExecute, Pattern: pattern, ByName: "laptop"}
}

func addRule(t *testing.T, g *Gateway, r store.Rule) store.Rule {
	t.Helper()
	r, err := g.Approvals().AddRule(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestStoredRulesAnswerApprovals(t *testing.T) {
	d := newDisk(t)
	var mu sync.Mutex
	var records []audit.Record
	g := d.open(t, func(c *Config) {
		c.Audit = func(r audit.Record) { mu.Lock(); records = append(records, r); mu.Unlock() }
	})
	defer func() { closeIt(t, g) }()
	id := d.create(t, g)
	if a, _ := d.answered(t, g, id, "git status"); a == nil {
		t.Fatal("answered without a rule")
	} else {
		d.finish(t, g, id, a)
	}
	allow := addRule(t, g, command(store.EffectAllow, "git status"))
	deny := addRule(t, g, command(store.EffectDeny, "rm *"))
	for _, tc := range []struct{ command, choice, reason string }{
		{"git status", "allow", fmt.Sprintf("allowed by rule %d, made by laptop on ", allow.ID)},
		{"git status; rm -rf ~", "deny", fmt.Sprintf("denied by rule %d, made by laptop on ", deny.ID)},
		{"git status; ls", "", ""},
		{"git status -s", "", ""},
		{"git status $(", "", ""},
	} {
		a, r := d.answered(t, g, id, tc.command)
		if a != nil {
			d.finish(t, g, id, a)
		}
		if (a != nil) != (tc.choice == "") || r.Choice != tc.choice || !strings.HasPrefix(r.Reason, tc.reason) || a == nil && r.By != event.ByPolicy {
			t.Errorf("%s: waits %v, %+v, want %q", tc.command, a != nil, r, tc.choice)
		}
	}
	closeIt(t, g)
	g = d.open(t) // the rules and their use counts survive a restart
	list := g.Approvals().Rules()
	if len(list) != 2 || list[0].Uses != 1 || list[1].Uses != 1 || list[0].LastUsedAt.IsZero() {
		t.Errorf("rules after a restart: %+v", list)
	}
	if _, r := d.answered(t, g, id, "git status"); r.Choice != "allow" {
		t.Errorf("after a restart: %+v", r)
	}
	if _, err := g.Approvals().RemoveRule(t.Context(), allow.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Approvals().RemoveRule(t.Context(), allow.ID); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("removed again: %v", err)
	}
	if a, _ := d.answered(t, g, id, "git status"); a == nil {
		t.Error("a removed rule answers")
	} else {
		d.finish(t, g, id, a)
	}
	var who []string
	for _, r := range records {
		who = append(who, fmt.Sprintf("%s %s %d", r.By, r.Choice, r.Rule))
	}
	want := []string{"user deny 0", "policy allow 1", "policy deny 2", "user deny 0", "user deny 0", "user deny 0"}
	if !slices.Equal(who, want) {
		t.Errorf("audit: %q, want %q", who, want)
	}
}

// An orderedLog calls decided before it appends a decision about an approval.
type orderedLog struct {
	*runnel.Memory
	decided func()
}

func (l orderedLog) Append(ctx context.Context, session string, head int64, evs ...event.Event) error {
	for _, ev := range evs {
		if _, ok := ev.Body.(event.ApprovalResolved); ok {
			l.decided()
		}
	}
	return l.Memory.Append(ctx, session, head, evs...)
}

// A rule is stored before the decision with which it was made. If the server is
// killed in between, the rule decides the approval, which still waits, under the
// next server. A decision whose rule was never stored cannot be in the log.
func TestRuleIsStoredBeforeTheDecisionThatItRemembers(t *testing.T) {
	d := newDisk(t)
	var stored []int // number of rules when a decision was logged
	g := d.open(t, func(c *Config) {
		c.Log = orderedLog{&d.log, func() {
			list, err := d.cat.Rules(context.Background())
			if err != nil {
				t.Error(err)
			}
			stored = append(stored, len(list))
		}}
	})
	defer closeIt(t, g)
	id := d.create(t, g)
	a, _ := d.answered(t, g, id, "git log -p")
	yes := runnel.Decision{Choice: "allow", ArgumentsDigest: a.ArgumentsDigest}
	if _, err := g.Approvals().DecideAndRemember(t.Context(), id, a.ID, yes, command("", "git log -p"), nil); err != nil {
		t.Fatal(err)
	}
	d.untilIdle(t, g, id)
	if !slices.Equal(stored, []int{1}) {
		t.Errorf("rules when a decision was logged: %v, want [1]", stored)
	}
}

func TestDecisionIsRemembered(t *testing.T) {
	d := newDisk(t)
	g := d.open(t)
	defer closeIt(t, g)
	id := d.create(t, g)
	st, err := g.Status(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	a, _ := d.answered(t, g, id, "git log -p")
	open, err := g.Approvals().Open(t.Context(), id, a.ID)
	if err != nil || len(open.Suggested) != 2 || open.Suggested[0].Pattern != "git log -p" || open.Suggested[1].Pattern != "git log *" || open.Suggested[0].ProjectDir != st.ProjectDir {
		t.Fatalf("suggested %+v, %v", open.Suggested, err)
	}
	yes := runnel.Decision{Choice: "allow", ArgumentsDigest: a.ArgumentsDigest}
	edited := yes
	edited.UpdatedArguments = json.RawMessage(`{}`)
	for what, tc := range map[string]struct {
		d    runnel.Decision
		rule store.Rule
		code runnel.Code
	}{
		"a rule that denies what is allowed":  {yes, command(store.EffectDeny, "git log *"), runnel.InvalidRequest},
		"a rule that allows what is denied":   {runnel.Decision{Choice: "deny"}, command(store.EffectAllow, "git log *"), runnel.InvalidRequest},
		"a rule for something else":           {yes, command("", "git status"), runnel.InvalidRequest},
		"a rule that nobody should rely on":   {yes, command("", "git *"), runnel.InvalidRequest},
		"a rule with changed arguments":       {edited, open.Suggested[0], runnel.InvalidRequest},
		"an unknown choice":                   {runnel.Decision{Choice: "maybe"}, open.Suggested[0], runnel.InvalidRequest},
		"an approval of nothing that is seen": {runnel.Decision{Choice: "allow"}, open.Suggested[0], runnel.InvalidRequest},
		"an answer about other arguments":     {runnel.Decision{Choice: "allow", ArgumentsDigest: "0"}, open.Suggested[0], runnel.ApprovalGone},
	} {
		_, err := g.Approvals().DecideAndRemember(t.Context(), id, a.ID, tc.d, tc.rule, nil)
		if runnel.CodeOf(err) != tc.code {
			t.Errorf("%s: %v, want %s", what, err, tc.code)
		}
	}
	if list := g.Approvals().Rules(); len(list) != 0 {
		t.Fatalf("a decision that failed left rules: %+v", list)
	}
	rule, err := g.Approvals().DecideAndRemember(t.Context(), id, a.ID, yes, open.Suggested[1], nil)
	if err != nil || rule.ID != 1 || rule.Effect != store.EffectAllow {
		t.Fatalf("%+v, %v", rule, err)
	}
	d.untilIdle(t, g, id)
	if _, r := d.answered(t, g, id, "git log --stat"); r.Choice != "allow" || !strings.HasPrefix(r.Reason, "allowed by rule 1,") {
		t.Errorf("%+v", r)
	}
	if _, err := g.Approvals().DecideAndRemember(t.Context(), id, a.ID, yes, open.Suggested[0], nil); runnel.CodeOf(err) != runnel.ApprovalGone {
		t.Errorf("an approval that is over: %v", err)
	}
	if _, err := g.Approvals().Open(t.Context(), id, a.ID); runnel.CodeOf(err) != runnel.ApprovalGone {
		t.Errorf("an approval that is over: %v", err)
	}
	if again := addRule(t, g, rule); again.ID != rule.ID || len(g.Approvals().Rules()) != 1 {
		t.Errorf("the same rule is stored twice: %+v", g.Approvals().Rules())
	}
}

// A rule for a folder applies to sessions in that folder and in folders below
// it, and to no others.
func TestRuleOfAFolderHoldsInItAndBelow(t *testing.T) {
	d := newDisk(t)
	g := d.open(t)
	defer closeIt(t, g)
	id := d.create(t, g)
	st, err := g.Status(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		dir     string
		answers bool
	}{{st.ProjectDir, true}, {filepath.Dir(st.ProjectDir), true}, {filepath.Join(st.ProjectDir, "below"), false}} {
		r := command(store.EffectAllow, "git status")
		r.ProjectDir = tc.dir
		r = addRule(t, g, r)
		a, _ := d.answered(t, g, id, "git status")
		if a != nil {
			d.finish(t, g, id, a)
		}
		if (a == nil) != tc.answers {
			t.Errorf("a rule of %s in %s: answers %v", tc.dir, st.ProjectDir, a == nil)
		}
		if _, err := g.Approvals().RemoveRule(t.Context(), r.ID); err != nil {
			t.Fatal(err)
		}
	}
}

// A client that is limited to a project cannot store a rule for a link that
// leads out of the project. A program may also replace a folder by such a link
// at any time, so the check uses the folder in the rule as it will be stored.
func TestRuleOfAProjectDoesNotFollowALinkOutOfIt(t *testing.T) {
	d := newDisk(t)
	g := d.open(t)
	defer closeIt(t, g)
	id := d.create(t, g)
	link := filepath.Join(d.dir, "sub")
	if err := os.Symlink(filepath.Dir(d.dir), link); err != nil {
		t.Skip(err)
	}
	ctx := WithProject(t.Context(), d.dir)
	a, _ := d.answered(t, g, id, "git status")
	yes := runnel.Decision{Choice: "allow", ArgumentsDigest: a.ArgumentsDigest}
	for _, dir := range []string{link, filepath.Dir(d.dir), ""} {
		r := command(store.EffectAllow, "git status")
		r.ProjectDir = dir
		_, err := g.Approvals().AddRule(ctx, r)
		wantCode(t, err, runnel.Forbidden)
		_, err = g.Approvals().DecideAndRemember(ctx, id, a.ID, yes, r, nil)
		wantCode(t, err, runnel.Forbidden)
	}
	if list := g.Approvals().Rules(); len(list) != 0 {
		t.Errorf("stored %+v", list)
	}
	own := command(store.EffectAllow, "git status")
	own.ProjectDir = d.dir
	if _, err := g.Approvals().DecideAndRemember(ctx, id, a.ID, yes, own, nil); err != nil {
		t.Errorf("the approval was decided together with a rule of another folder: %v", err)
	}
	d.untilIdle(t, g, id)
}

func TestThereAreOnlySoManyRules(t *testing.T) {
	d := newDisk(t)
	for i := range maxRules - 1 {
		if _, err := d.cat.AddRule(t.Context(), command(store.EffectAllow, fmt.Sprintf("git show %d", i))); err != nil {
			t.Fatal(err)
		}
	}
	g := d.open(t)
	defer closeIt(t, g)
	addRule(t, g, command(store.EffectAllow, "git show the-last"))
	_, err := g.Approvals().AddRule(t.Context(), command(store.EffectAllow, "git show one-more"))
	wantCode(t, err, runnel.RateLimited)
}

// A client may change the arguments of a call that waits for approval, but not
// to arguments that a deny rule matches.
func TestChangedArgumentsAreComparedWithDenyRules(t *testing.T) {
	d := newDisk(t)
	g := d.open(t)
	defer closeIt(t, g)
	id := d.create(t, g)
	addRule(t, g, command(store.EffectDeny, "rm *"))
	sent := send(t, g, id, strings.Replace(asks("ls"), `"ask":{}`, `"ask":{"editable":true}`, 1))
	asked := d.until(t, id, is[event.ApprovalRequested]).Body.(event.ApprovalRequested).Approval
	answer := func(args string) error {
		return g.Approvals().Decide(t.Context(), id, asked.ID, runnel.Decision{
			Choice: "allow", ArgumentsDigest: asked.ArgumentsDigest, UpdatedArguments: json.RawMessage(args),
		})
	}
	wantCode(t, answer(`{"command":"ls; rm -rf ~"}`), runnel.Forbidden)
	if err := answer(`{"command":"ls -l"}`); err != nil {
		t.Error(err)
	}
	d.ends(t, sent)
}

// The filter replaces a secret in the arguments that people see. It may also
// hide other text that the agent wrote in place of a secret. A rule must not
// allow arguments that nobody sees.
func TestRuleAllowsNothingThatIsTakenOutAsASecret(t *testing.T) {
	d := newDisk(t)
	g := d.open(t, func(c *Config) {
		c.Filter = func(runnel.Options) runnel.Filter { return redact.New().Events() }
	})
	defer closeIt(t, g)
	id := d.create(t, g)
	addRule(t, g, command(store.EffectAllow, "svn info *"))
	if _, r := d.answered(t, g, id, `svn info "https://example.com/"`); r.Choice != "allow" {
		t.Fatalf("%+v", r)
	}
	a, r := d.answered(t, g, id, `svn info "https://user:x$(reboot)@example.com/"`)
	if a == nil {
		t.Fatalf("a hidden command was allowed: %+v", r)
	}
	if !strings.Contains(string(a.Arguments), redact.Marker) {
		t.Fatalf("nothing was taken out: %s", a.Arguments)
	}
	d.finish(t, g, id, a)
}
