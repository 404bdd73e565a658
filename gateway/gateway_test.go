package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/testcache"
	"github.com/runnel-dev/runnel/provider/script"
	"github.com/runnel-dev/runnel/store"
	"github.com/runnel-dev/runnel/store/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testcache.Main{M: m}) }

// A disk is the data that survives a gateway.
type disk struct {
	log runnel.Memory
	cat *memory.Catalogue
	dir string // a project
}

func newDisk(t *testing.T) *disk {
	d := &disk{dir: canonical(t.TempDir())}
	d.cat = memory.New(&d.log)
	return d
}

func (d *disk) open(t *testing.T, edit ...func(*Config)) *Gateway {
	t.Helper()
	cfg := Config{Log: &d.log, Catalogue: d.cat, Providers: []runnel.Provider{script.New()}}
	for _, f := range edit {
		f(&cfg)
	}
	g, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func closeIt(t *testing.T, g *Gateway) {
	t.Helper()
	if err := g.Close(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
}

func (d *disk) create(t *testing.T, g *Gateway) string {
	t.Helper()
	st, err := g.Create(t.Context(), "script", d.dir, runnel.Options{}, "")
	if err != nil {
		t.Fatal(err)
	}
	return st.SessionID
}

func send(t *testing.T, g *Gateway, id, text string) Sent {
	t.Helper()
	sent, err := g.Send(t.Context(), id, Prompt{Text: text})
	if err != nil {
		t.Fatal(err)
	}
	return sent
}

// ends waits for the end of a turn and returns its last event.
func (d *disk) ends(t *testing.T, s Sent) event.Event {
	t.Helper()
	for ev, err := range runnel.Follow(t.Context(), &d.log, s.SessionID, s.After) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Turn == s.TurnID && event.Ends(ev.Body) {
			return ev
		}
	}
	return event.Event{}
}

// until waits for an event that f accepts.
func (d *disk) until(t *testing.T, id string, f func(event.Event) bool) event.Event {
	t.Helper()
	for ev, err := range runnel.Follow(t.Context(), &d.log, id, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if f(ev) {
			return ev
		}
	}
	return event.Event{}
}

func is[T event.Body](ev event.Event) bool { _, ok := ev.Body.(T); return ok }

func wantCode(t *testing.T, err error, want runnel.Code) {
	t.Helper()
	if got := runnel.CodeOf(err); got != want {
		t.Errorf("got %v (%q), want %s", err, got, want)
	}
}

func TestTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisk(t)
		g := d.open(t)
		defer closeIt(t, g)
		id := d.create(t, g)
		sent := send(t, g, id, "text please\nand more")
		if done, ok := d.ends(t, sent).Body.(event.ResponseDone); !ok || done.Status != event.StatusCompleted {
			t.Fatalf("got %+v", done)
		}
		synctest.Wait()
		st, err := g.Status(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if st.Title != "text please" || st.LastLine != "Hello from the scripted agent." || st.LastTurn != event.StatusCompleted ||
			st.Activity != event.ActivityIdle || !st.IsAlive || st.ModelID != "scripted" || st.AgentSessionID == "" || st.ProjectDir != d.dir {
			t.Errorf("status %+v", st)
		}
		<-time.After(time.Second)
		synctest.Wait()
		rec, err := d.cat.Session(t.Context(), id)
		if err != nil || rec.Title != st.Title || rec.LastLine != st.LastLine || rec.LastTurn != st.LastTurn || rec.AgentSessionID != st.AgentSessionID {
			t.Errorf("the catalogue has %+v, %v", rec, err)
		}
	})
}

func TestCreateRefusals(t *testing.T) {
	d := newDisk(t)
	data := t.TempDir()
	for _, dir := range []string{filepath.Join(data, "sub"), data + "-worktrees"} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(d.dir, "link")
	if err := os.Symlink(data, link); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(d.dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var opened atomic.Int32
	g := d.open(t, func(c *Config) {
		c.DataDir = data
		c.Providers = []runnel.Provider{&fake{open: func(runnel.Options) (runnel.Conn, error) { opened.Add(1); return nil, errors.New("no") }}}
	})
	defer closeIt(t, g)
	tests := []struct {
		cli, dir string
		opt      runnel.Options
		want     runnel.Code
	}{
		{"nobody", d.dir, runnel.Options{}, runnel.UnsupportedCLIType},
		{"fake", "", runnel.Options{}, runnel.InvalidRequest},
		{"fake", "relative/dir", runnel.Options{}, runnel.WorkingRootInaccessible},
		{"fake", d.dir + "/none", runnel.Options{}, runnel.WorkingRootInaccessible},
		{"fake", data + "-worktrees", runnel.Options{}, runnel.WorkingRootConflict},
		{"fake", d.dir + "\x00", runnel.Options{}, runnel.WorkingRootInaccessible},
		{"fake", file, runnel.Options{}, runnel.WorkingRootInaccessible},
		{"fake", data, runnel.Options{}, runnel.WorkingRootConflict},
		{"fake", data + "/sub", runnel.Options{}, runnel.WorkingRootConflict},
		{"fake", filepath.Dir(data), runnel.Options{}, runnel.WorkingRootConflict},
		{"fake", link, runnel.Options{}, runnel.WorkingRootConflict},
		{"fake", d.dir, runnel.Options{AddDirs: []string{data}}, runnel.WorkingRootConflict},
		{"fake", d.dir, runnel.Options{AddDirs: []string{"x"}}, runnel.InvalidRequest},
		{"fake", d.dir, runnel.Options{PermissionMode: runnel.ModeBypass}, runnel.InvalidRequest},
		{"fake", d.dir, runnel.Options{PermissionMode: "yolo"}, runnel.InvalidRequest},
	}
	for _, tt := range tests {
		_, err := g.Create(t.Context(), tt.cli, tt.dir, tt.opt, "")
		if got := runnel.CodeOf(err); got != tt.want {
			t.Errorf("%s in %q %+v: got %v, want %s", tt.cli, tt.dir, tt.opt, err, tt.want)
		}
	}
	if opened.Load() != 0 {
		t.Error("an agent was started")
	}
	_, err := g.Create(t.Context(), "fake", d.dir, runnel.Options{}, "")
	wantCode(t, err, runnel.SessionCreateFailed)
	if all, _ := d.cat.Sessions(t.Context(), store.SessionFilter{Dead: true}); len(all) != 0 {
		t.Errorf("left behind: %+v", all)
	}
}

func TestSecondTurnIsRejected(t *testing.T) {
	d := newDisk(t)
	g := d.open(t)
	defer closeIt(t, g)
	id := d.create(t, g)
	for round := range 5 {
		const n = 100
		var all sync.WaitGroup
		var begun, busy atomic.Int32
		var winner atomic.Value
		for range n {
			all.Go(func() {
				sent, err := g.Send(t.Context(), id, Prompt{Text: "hang"})
				switch runnel.CodeOf(err) {
				case "":
					begun.Add(1)
					winner.Store(sent)
				case runnel.TurnInProgress:
					busy.Add(1)
				default:
					t.Error(err)
				}
			})
		}
		all.Wait()
		if begun.Load() != 1 || busy.Load() != n-1 {
			t.Fatalf("round %d: %d began, %d were refused", round, begun.Load(), busy.Load())
		}
		if err := g.Cancel(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		if end := d.ends(t, winner.Load().(Sent)); end.Body.(event.ResponseDone).Status != event.StatusCancelled {
			t.Fatalf("ended %+v", end)
		}
	}
}

func TestTurnLockIsFreeAfterEveryEnd(t *testing.T) {
	d := newDisk(t)
	g := d.open(t)
	defer closeIt(t, g)
	id := d.create(t, g)
	for _, prompt := range []string{"text", "fail", "crash", "text", `{"bad":1}`, "text"} {
		d.ends(t, send(t, g, id, prompt))
	}
}

func TestQueueIsAFIFO(t *testing.T) {
	d := newDisk(t)
	g := d.open(t)
	defer closeIt(t, g)
	id := d.create(t, g)
	first := send(t, g, id, "hang")
	var want []string
	for i := range 5 {
		sent, err := g.Send(t.Context(), id, Prompt{Text: fmt.Sprintf("text %d", i), Queue: true})
		if err != nil || !sent.Queued {
			t.Fatalf("got %+v, %v", sent, err)
		}
		want = append(want, sent.TurnID)
	}
	if st, _ := g.Status(t.Context(), id); st.Queued != 5 {
		t.Errorf("%d wait", st.Queued)
	}
	if err := QueuesOf(g).Skip(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	d.ends(t, first)
	d.ends(t, Sent{SessionID: id, TurnID: want[4]})
	var got []string
	for ev := range d.log.Read(t.Context(), id, first.After) {
		if event.Ends(ev.Body) && ev.Turn != first.TurnID {
			got = append(got, ev.Turn)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("got turns %v, want %v", got, want)
	}
	d.untilIdle(t, g, id)
	if left, _ := d.cat.Queue(t.Context(), ""); len(left) != 0 {
		t.Errorf("left in the queue: %v", left)
	}
}

// untilIdle waits until no turn runs and no prompt is queued in a session.
func (d *disk) untilIdle(t *testing.T, g *Gateway, id string) {
	t.Helper()
	d.untilStatus(t, g, id, func(st Status) bool { return st.Queued == 0 && st.TurnID == "" })
}

// untilStatus waits until the status of a session is as wanted, or cannot be read.
func (d *disk) untilStatus(t *testing.T, g *Gateway, id string, wanted func(Status) bool) {
	t.Helper()
	for version := int64(0); ; {
		changed := g.Changed(version)
		_, version = g.Changes(version)
		if st, err := g.Status(t.Context(), id); err != nil || wanted(st) {
			return
		}
		<-changed
	}
}

func TestStaleAndForeignDecisionsAreRejected(t *testing.T) {
	d := newDisk(t)
	g := d.open(t)
	defer closeIt(t, g)
	id, other := d.create(t, g), d.create(t, g)
	asked := func() event.Approval {
		after, _ := d.log.State(t.Context(), id)
		send(t, g, id, "approve")
		for ev := range runnel.Follow(t.Context(), &d.log, id, after.Head) {
			if b, ok := ev.Body.(event.ApprovalRequested); ok {
				return b.Approval
			}
		}
		return event.Approval{}
	}
	a := asked()
	allow := runnel.Decision{Choice: "allow", ArgumentsDigest: a.ArgumentsDigest}
	wantCode(t, g.Approvals().Decide(t.Context(), other, a.ID, allow), runnel.ApprovalGone)
	wantCode(t, g.Approvals().Decide(t.Context(), id, a.ID+"x", allow), runnel.ApprovalGone)
	wantCode(t, g.Approvals().Decide(t.Context(), id, a.ID, runnel.Decision{Choice: "allow", ArgumentsDigest: strings.Repeat("0", 64)}), runnel.ApprovalGone)
	wantCode(t, g.Approvals().Decide(t.Context(), id, a.ID, runnel.Decision{Choice: "certainly"}), runnel.InvalidRequest)
	wantCode(t, g.Approvals().Decide(t.Context(), id, a.ID, runnel.Decision{Choice: event.ChoiceWithdrawn}), runnel.InvalidRequest)
	wantCode(t, g.Approvals().Decide(t.Context(), "0b5d3c1e-0000-7000-8000-000000000000", a.ID, allow), runnel.SessionNotFound)
	wantCode(t, g.Approvals().Decide(t.Context(), id, a.ID, runnel.Decision{Choice: "allow"}), runnel.InvalidRequest)
	if err := g.Approvals().Decide(t.Context(), id, a.ID, allow); err != nil {
		t.Fatal(err)
	}
	wantCode(t, g.Approvals().Decide(t.Context(), id, a.ID, allow), runnel.ApprovalGone) // a repeated decision
	d.untilIdle(t, g, id)
	wantCode(t, g.Approvals().Decide(t.Context(), id, a.ID, allow), runnel.ApprovalGone) // the turn has ended

	a = asked()
	if err := g.Cancel(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	wantCode(t, g.Approvals().Decide(t.Context(), id, a.ID, allow), runnel.ApprovalGone) // cancelled
	d.untilIdle(t, g, id)
	ran := 0
	for ev := range d.log.Read(t.Context(), id, 0) {
		if done, ok := ev.Body.(event.ItemDone); ok {
			if out, ok := done.FinalItem.(event.FunctionCallOutput); ok && !out.IsError {
				ran++
			}
		}
	}
	if ran != 1 {
		t.Errorf("the tool ran %d times, want once", ran)
	}
}

func TestFirstOfTwoApproversWins(t *testing.T) {
	d := newDisk(t)
	g := d.open(t)
	defer closeIt(t, g)
	id := d.create(t, g)
	races := 200
	if os.Getenv("RUNNEL_LONG") != "" {
		races = 10_000
	}
	for range races {
		sent := send(t, g, id, "approve")
		var asked event.Approval
		for ev := range runnel.Follow(t.Context(), &d.log, id, sent.After) {
			if b, ok := ev.Body.(event.ApprovalRequested); ok {
				asked = b.Approval
				break
			}
		}
		var both sync.WaitGroup
		errs := make([]error, 2)
		for i, choice := range []string{"allow", "deny"} {
			both.Go(func() {
				errs[i] = g.Approvals().Decide(t.Context(), id, asked.ID, runnel.Decision{Choice: choice, ArgumentsDigest: asked.ArgumentsDigest})
			})
		}
		both.Wait()
		if (errs[0] == nil) == (errs[1] == nil) {
			t.Fatalf("both or neither decided: %v", errs)
		}
		d.ends(t, sent)
		resolved, ran := "", false
		for ev := range d.log.Read(t.Context(), id, sent.After) {
			if b, ok := ev.Body.(event.ApprovalResolved); ok {
				if resolved != "" {
					t.Fatal("decided twice")
				}
				resolved = b.Choice
			}
			if b, ok := ev.Body.(event.ItemDone); ok {
				if out, ok := b.FinalItem.(event.FunctionCallOutput); ok {
					ran = !out.IsError
				}
			}
		}
		if won := map[bool]string{true: "allow", false: "deny"}[errs[0] == nil]; resolved != won || ran != (won == "allow") {
			t.Fatalf("%s won, %s was logged, the tool ran: %v", won, resolved, ran)
		}
	}
}

// A reader that has everything up to a position starts at the newest position
// before it at which no turn is open, whether the session is open or not.
func TestCheckpointIsWhereNoTurnIsOpen(t *testing.T) {
	d := newDisk(t)
	g := d.open(t)
	id := d.create(t, g)
	for range 5 {
		d.ends(t, send(t, g, id, "text"))
	}
	d.untilIdle(t, g, id)
	var ends []int64
	head := int64(0)
	for ev := range d.log.Read(t.Context(), id, 0) {
		if head = ev.Seq; event.Ends(ev.Body) {
			ends = append(ends, ev.Seq)
		}
	}
	if len(ends) != 5 {
		t.Fatalf("%d turns have ended", len(ends))
	}
	check := func() {
		t.Helper()
		for after := int64(0); after <= head; after++ {
			want := int64(0)
			for _, end := range ends {
				if end <= after {
					want = end
				}
			}
			if got, err := g.Past(id).Start(t.Context(), after); err != nil || got.Seq != want || got.Events != nil {
				t.Errorf("after %d: got %+v, %v, want %d", after, got, err, want)
			}
		}
	}
	check()
	closeIt(t, g)
	g = d.open(t)
	defer closeIt(t, g)
	check()
}

// fake is a provider whose methods a test sets.
type fake struct {
	name    string
	open    func(runnel.Options) (runnel.Conn, error)
	kept    []runnel.Conversation
	resumed atomic.Value
}

func (f *fake) Name() string {
	if f.name == "" {
		return "fake"
	}
	return f.name
}

func (f *fake) Open(_ context.Context, o runnel.Options) (runnel.Conn, error) {
	f.resumed.Store(o.Resume)
	return f.open(o)
}

func (f *fake) Discover(context.Context, string) iter.Seq2[runnel.Conversation, error] {
	return func(yield func(runnel.Conversation, error) bool) {
		for _, c := range f.kept {
			if !yield(c, nil) {
				return
			}
		}
	}
}

func (f *fake) History(_ context.Context, c runnel.Conversation) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		for _, b := range []event.Body{
			event.ItemStart{ItemID: "t1:user", ItemType: event.TypeMessage},
			event.ItemDone{ItemID: "t1:user", FinalItem: event.Message{Content: "hi", Origin: event.OriginUser}},
			event.ResponseStart{ModelID: "m", ProviderID: f.Name()},
			event.ItemStart{ItemID: "t1:1:0", ItemType: event.TypeMessage},
			event.ItemDone{ItemID: "t1:1:0", FinalItem: event.Message{Content: "hello", Origin: event.OriginAgent}},
			event.ResponseDone{Status: event.StatusCompleted},
		} {
			if !yield(event.Event{At: at, Turn: "t1", Body: b}, nil) {
				return
			}
		}
		if c.File == "" {
			yield(event.Event{}, io.ErrUnexpectedEOF)
		}
	}
}

// forking is the scripted agent with support for forks.
type forking struct {
	script.Provider
	forked atomic.Value
}

func (f *forking) Fork(ctx context.Context, o runnel.Options) (runnel.Conn, error) {
	f.forked.Store(o.Resume)
	o.Resume = ""
	return f.Provider.Open(ctx, o)
}
