package codex

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/agentconn"
)

// A desk feeds lines of both directions to a translator, and writes what is
// due.
type desk struct {
	t   *testing.T
	tr  *translator
	evs []event.Event
	due []string
}

// seat is a desk with a conversation.
func seat(t *testing.T) *desk {
	d := &desk{t: t, tr: newTranslator()}
	d.in(`{"id":1,"method":"thread/start","params":{}}`)
	d.out(`{"id":1,"result":{"thread":{"id":"th"},"model":"m","approvalPolicy":"on-request","sandbox":{"type":"workspaceWrite"}}}`)
	return d
}

func (d *desk) feed(dir runnel.Dir, line string) {
	got, due := agentconn.Feed(d.tr, runnel.Line{At: fixtureStart, Dir: dir, Text: []byte(line)})
	d.evs = append(d.evs, got...)
	for _, m := range due {
		raw, ok := m.(json.RawMessage)
		if !ok {
			d.t.Fatalf("due is a %T", m)
		}
		d.due = append(d.due, string(raw))
		d.evs = append(d.evs, d.tr.Sent(raw, fixtureStart)...)
	}
}

func (d *desk) in(line string)  { d.t.Helper(); d.feed(runnel.DirIn, line) }
func (d *desk) out(line string) { d.t.Helper(); d.feed(runnel.DirOut, line) }

func (d *desk) prompt(turn string) {
	d.in(`{"id":"turn:` + turn + `","method":"turn/start","params":{"threadId":"th","clientUserMessageId":"` + turn + `","input":[]}}`)
}

func (d *desk) begins(thread, native string) {
	d.out(fmt.Sprintf(`{"method":"turn/started","params":{"threadId":%q,"turn":{"id":%q}}}`, thread, native))
}

func (d *desk) ends(thread, native, status string) {
	d.out(fmt.Sprintf(`{"method":"turn/completed","params":{"threadId":%q,"turn":{"id":%q,"status":%q}}}`, thread, native, status))
}

func (d *desk) interrupts() (n int) {
	for _, line := range d.due {
		if strings.Contains(line, methodInterrupt) {
			n++
		}
	}
	return n
}

// An interrupt that was held for a prompt which the agent then refused is not
// for the one after it.
func TestEarlyInterruptIsDroppedWithRejectedPrompt(t *testing.T) {
	d := seat(t)
	d.prompt("a")
	line, err := d.tr.interruption()
	if err != nil || line == nil {
		t.Fatal(err)
	}
	d.in(string(line))
	d.out(`{"error":{"code":-32600,"message":"no active turn to interrupt"},"id":2}`)
	d.out(`{"error":{"code":-32001,"message":"Server overloaded; retry later."},"id":"turn:a"}`)
	d.prompt("b")
	d.begins("th", "n1")
	if n := d.interrupts(); n != 0 {
		t.Errorf("%d interrupts of a turn that nobody asked to end: %q", n, d.due)
	}
}

// spawned is a conversation whose first turn started a subagent that works.
func spawned(t *testing.T) *desk {
	d := seat(t)
	d.prompt("a")
	d.begins("th", "n1")
	for _, method := range []string{"item/started", "item/completed"} {
		d.out(`{"method":"` + method + `","params":{"threadId":"th","turnId":"n1","item":{"type":"subAgentActivity","id":"c1","kind":"started","agentThreadId":"sub","agentPath":"/root/x"}}}`)
	}
	d.begins("sub", "s1")
	return d
}

const subagentAsks = `{"method":"item/commandExecution/requestApproval","id":0,"params":{"kind":"command","threadId":"sub","turnId":"s1","itemId":"x1","command":"touch y","cwd":"/p"}}`

func pendingOf(evs []event.Event) (ids []string) {
	for _, ev := range evs {
		switch b := ev.Body.(type) {
		case event.ApprovalRequested:
			ids = append(ids, b.Approval.ID)
		case event.ApprovalResolved:
			ids = slices.DeleteFunc(ids, func(id string) bool { return id == b.ApprovalID })
		}
	}
	return ids
}

// A subagent that waits for an answer when the turn ends in which it was
// started waits on: the question goes on beside the turns.
func TestSubagentQuestionMovesOutOfEndedTurn(t *testing.T) {
	d := spawned(t)
	d.out(subagentAsks)
	first := d.tr.Waiting()
	d.ends("th", "n1", "completed")
	open := d.tr.Waiting()
	if len(open) != 1 || slices.Equal(open, first) {
		t.Fatalf("open questions: %v, before the end: %v", open, first)
	}
	checkTurns(t, d.evs, "a")
	lines, err := d.tr.answer(open[0], runnel.Decision{Choice: allowOnce})
	if err != nil || len(lines) != 1 {
		t.Fatal(lines, err)
	}
	if got := string(lines[0].(json.RawMessage)); got != `{"id":0,"result":{"decision":"accept"}}` {
		t.Errorf("the answer: %s", got)
	}
	d.in(string(lines[0].(json.RawMessage)))
	d.out(`{"method":"serverRequest/resolved","params":{"threadId":"sub","requestId":0}}`)
	d.ends("sub", "s1", "completed")
	if left := pendingOf(d.evs); slices.Contains(left, open[0]) {
		t.Error("the question is not resolved")
	}
	if _, ok := d.tr.Checkpoint(); !ok {
		t.Error("something is still going on")
	}
	checkTurns(t, d.evs)
}

// checkTurns says that all turns but some end once, and that these did.
func checkTurns(t *testing.T, evs []event.Event, only ...string) {
	t.Helper()
	ends := map[string]int{}
	for _, ev := range evs {
		if ev.Turn == "" {
			continue
		}
		ends[ev.Turn] += 0
		if event.Ends(ev.Body) {
			ends[ev.Turn]++
		}
	}
	for turn, n := range ends {
		if n != 1 && (len(only) == 0 || slices.Contains(only, turn)) {
			t.Errorf("turn %s ends %d times", turn, n)
		}
	}
}

// To cancel a turn that holds nothing but a question is to deny it, and to stop
// who asks.
func TestOutOfTurnQuestionIsDeniedOnCancel(t *testing.T) {
	d := spawned(t)
	d.ends("th", "n1", "completed")
	d.out(subagentAsks)
	lines, err := d.tr.interruptions()
	if err != nil || len(lines) != 1 {
		t.Fatal(lines, err)
	}
	if got := string(lines[0].(json.RawMessage)); got != `{"id":0,"result":{"decision":"cancel"}}` {
		t.Errorf("what is sent: %s", got)
	}
}

// The ids of calls are the model API's, and may come again: the end of one in
// the background is known by its turn.
func TestBackgroundCommandIsIdentifiedByTurn(t *testing.T) {
	command := func(method, turn, status string) string {
		return `{"method":"` + method + `","params":{"threadId":"th","turnId":"` + turn + `","item":{"type":"commandExecution","id":"call_1","command":"x","cwd":"/p","status":"` + status + `","aggregatedOutput":"of ` + turn + `"}}}`
	}
	d := seat(t)
	d.prompt("a")
	d.begins("th", "n1")
	d.out(command("item/started", "n1", "inProgress"))
	d.ends("th", "n1", "completed")
	d.prompt("b")
	d.begins("th", "n2")
	d.out(command("item/started", "n2", "inProgress"))
	d.out(command("item/completed", "n2", "completed"))
	for _, ev := range d.evs {
		if done, ok := ev.Body.(event.ItemDone); ok {
			if out, ok := done.FinalItem.(event.FunctionCallOutput); ok && out.Output == "of n2" {
				if ev.Turn != "b" {
					t.Errorf("it is shown in turn %s", ev.Turn)
				}
				return
			}
		}
	}
	t.Error("the command's output is not shown")
}

// The end of a turn that runs elsewhere is not known yet: a later load brings
// the rest.
func TestHistoryOfRunningTurnIsCutShort(t *testing.T) {
	h := newHistorian("th", func(string, *string) ([]nativeTurn, *string, error) {
		return []nativeTurn{{ID: "n1", Status: "inProgress", StartedAt: 1}}, nil, nil
	})
	var last event.Body
	for ev, err := range runnel.Replay("s", providerID, func(yield func(event.Event, error) bool) {
		if err := h.all(func(evs []event.Event) error { yieldEach(evs, yield); return nil }); err != nil {
			t.Fatal(err)
		}
	}) {
		if err != nil {
			t.Fatal(err)
		}
		last = ev.Body
	}
	if !runnel.IsCutShort(last) {
		t.Errorf("it ends as %#v", last)
	}
}

func yieldEach(evs []event.Event, yield func(event.Event, error) bool) {
	for _, ev := range evs {
		yield(ev, nil)
	}
}

// An address that is none of a page is not asked for.
func TestElicitationRejectsOtherURLSchemes(t *testing.T) {
	ask := func(url string) int {
		d := seat(t)
		d.prompt("a")
		d.begins("th", "n1")
		d.out(`{"method":"mcpServer/elicitation/request","id":0,"params":{"threadId":"th","turnId":"n1","serverName":"s","mode":"url","message":"m","url":"` + url + `"}}`)
		return len(d.tr.Waiting())
	}
	if ask("https://example.com/x") != 1 {
		t.Error("a page is not asked for")
	}
	for _, url := range []string{"javascript:alert(1)", "file:///etc/passwd", ""} {
		if ask(url) != 0 {
			t.Errorf("%q is asked for", url)
		}
	}
}

// To look at a conversation that is in no index of the agent's has it opened,
// and starts no server of tools: none of the user's, and none that others put
// into the folder for temporary files, even if the user trusts that folder.
func TestHistoryStartsNoMCPServers(t *testing.T) {
	r := newRig(t)
	r.Play(says("Kept."))
	r.FinishTurn("")
	r.Conn.Close()
	home := codexHome(r.Opt.Env)
	indexes, err := filepath.Glob(filepath.Join(home, "*.sqlite*"))
	if err != nil || len(indexes) == 0 {
		t.Fatalf("no index in %s: %v", home, err)
	}
	for _, file := range indexes {
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
	mark := filepath.Join(t.TempDir(), "started")
	config, err := os.ReadFile(filepath.Join(home, "config.toml"))
	if err == nil {
		server := "\n[mcp_servers.%s]\ncommand = \"/bin/sh\"\nargs = [\"-c\", \"touch %s; cat\"]\n"
		shared := t.TempDir()
		if err := os.Mkdir(filepath.Join(shared, ".codex"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(shared, ".codex", "config.toml"), fmt.Appendf(nil, server, "planted", mark+"-planted"), 0o600); err != nil {
			t.Fatal(err)
		}
		t.Setenv("TMPDIR", shared)
		config = fmt.Appendf(config, server+"\n[projects.%q]\ntrust_level = \"trusted\"\n", "mark", mark, shared)
		err = os.WriteFile(filepath.Join(home, "config.toml"), config, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(home, "sessions", "*", "*", "*", "*.jsonl"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	id := rollout.FindStringSubmatch(filepath.Base(files[0]))[1]
	said := 0
	for _, err := range r.provider().(runnel.Historian).History(t.Context(), runnel.Conversation{AgentSessionID: id}) {
		if err != nil {
			t.Fatal(detail(err))
		}
		said++
	}
	if said == 0 {
		t.Error("nothing is recalled")
	}
	if started, err := filepath.Glob(mark + "*"); err != nil || len(started) > 0 {
		t.Errorf("servers of tools were started: %q %v", started, err)
	}
}

// Codex may report the end of a subagent's call in a form that we do not know.
// The call stays open, and goes on in the background when its turn ends.
func TestSubagentCallStaysOpenAfterUnknownActivity(t *testing.T) {
	for name, rest := range map[string]string{
		"no thread":      `"kind":"hibernated"`,
		"other thread":   `"kind":"hibernated","agentThreadId":"other"`,
		"kind no string": `"kind":7`,
	} {
		t.Run(name, func(t *testing.T) {
			d := seat(t)
			d.prompt("a")
			d.begins("th", "n1")
			d.out(`{"method":"item/started","params":{"threadId":"th","turnId":"n1","item":{"type":"subAgentActivity","id":"c1","kind":"started","agentThreadId":"sub","agentPath":"/root/x"}}}`)
			d.out(`{"method":"item/completed","params":{"threadId":"th","turnId":"n1","item":{"type":"subAgentActivity","id":"c1",` + rest + `}}}`)
			d.ends("th", "n1", "completed")
			all := dump(d.evs)
			for _, want := range []string{`"It goes on in the background."`, `"TASK_GOES_ON"`} {
				if strings.Count(all, want) != 1 {
					t.Errorf("%s occurs %d times in\n%s", want, strings.Count(all, want), all)
				}
			}
		})
	}
}

// With two turns of the conversation at once, an event that names no turn
// belongs to the one that began first, and an early interrupt ends the one
// whose prompt came first: each time the same lines are read.
func TestConcurrentTurnsAreOrdered(t *testing.T) {
	for range 50 {
		d := seat(t)
		for _, turn := range []string{"a", "b", "c"} {
			d.prompt(turn)
			d.out(`{"id":"turn:` + turn + `","result":{"turn":{"id":"n` + turn + `"}}}`)
		}
		if native, _ := d.tr.turns.starting(); native != "na" {
			t.Fatalf("an early interrupt ends %s, want na", native)
		}
		for _, native := range []string{"na", "nb", "nc"} {
			d.begins("th", native)
		}
		d.out(`{"method":"warning","params":{"threadId":"th","message":"Mind the gap."}}`)
		if got := d.evs[len(d.evs)-1]; event.Type(got.Body) != "notice" || got.Turn != "a" {
			t.Fatalf("a notice belongs to turn %s, want a:\n%s", got.Turn, dump(d.evs))
		}
	}
}

// A stored turn that was interrupted has an end. Without one, the process of the
// agent was killed, and the turn ends as it did live.
func TestStoredTurnOfKilledAgentIsCrash(t *testing.T) {
	for ended, want := range map[int64]string{0: string(runnel.ProcessCrash), 2: string(event.StatusCancelled)} {
		h := newHistorian("th", func(string, *string) ([]nativeTurn, *string, error) {
			return []nativeTurn{{ID: "n1", Status: "interrupted", StartedAt: 1, EndedAt: ended}}, nil, nil
		})
		got := ""
		if err := h.all(func(evs []event.Event) error {
			switch b := evs[len(evs)-1].Body.(type) {
			case event.ResponseDone:
				got = string(b.Status)
			case event.ResponseError:
				got = b.Error.Code
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("with the end %d it ends as %s, want %s", ended, got, want)
		}
	}
}

// A refused interrupt is repeated, and reported unless the turn had only just
// begun.
func TestRejectedInterruptIsRepeatedAndReported(t *testing.T) {
	for message, c := range map[string]struct{ refusals, notices, repeated int }{
		"no active turn to interrupt": {refusals: 1, notices: 0, repeated: 1},
		"not now":                     {refusals: 1, notices: 1, repeated: 1},
	} {
		d := seat(t)
		d.prompt("a")
		d.begins("th", "n1")
		line, err := d.tr.interruption()
		if err != nil || line == nil {
			t.Fatal(err)
		}
		d.in(string(line))
		d.out(fmt.Sprintf(`{"error":{"code":-32600,"message":%q},"id":"interrupt:n1:1"}`, message))
		if n := refusals(d.evs); len(n) != c.notices || d.interrupts() != c.repeated {
			t.Errorf("%s: notices %+v, repeated %d times; want %+v", message, n, d.interrupts(), c)
		}
		for n := 2; n <= 2*maxInterrupts; n++ { // it never obeys
			d.out(fmt.Sprintf(`{"error":{"code":-32600,"message":%q},"id":"interrupt:n1:%d"}`, message, n))
		}
		if n := refusals(d.evs); len(n) == 0 || n[0].Turn != "a" || d.interrupts() > maxInterrupts {
			t.Errorf("%s, again and again: notices %+v, repeated %d times", message, n, d.interrupts())
		}
	}
}

// refusals returns the notices about interrupts that failed.
func refusals(evs []event.Event) (out []event.Event) {
	for _, ev := range evs {
		if n, ok := ev.Body.(event.Notice); ok && n.Code == string(runnel.InterruptFailed) {
			out = append(out, ev)
		}
	}
	return out
}
