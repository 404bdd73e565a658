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

// A harness passes lines of both directions to a translator and sends its
// replies.
type harness struct {
	t   *testing.T
	tr  *translator
	evs []event.Event
	due []string
}

// newHarness returns a harness with an open conversation.
func newHarness(t *testing.T) *harness {
	d := &harness{t: t, tr: newTranslator()}
	d.in(`{"id":1,"method":"thread/start","params":{}}`)
	d.out(`{"id":1,"result":{"thread":{"id":"th"},"model":"m","approvalPolicy":"on-request","sandbox":{"type":"workspaceWrite"}}}`)
	return d
}

func (d *harness) feed(dir runnel.Dir, line string) {
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

func (d *harness) in(line string)  { d.t.Helper(); d.feed(runnel.DirIn, line) }
func (d *harness) out(line string) { d.t.Helper(); d.feed(runnel.DirOut, line) }

func (d *harness) prompt(turn string) {
	d.in(`{"id":"turn:` + turn + `","method":"turn/start","params":{"threadId":"th","clientUserMessageId":"` + turn + `","input":[]}}`)
}

func (d *harness) begins(thread, native string) {
	d.out(fmt.Sprintf(`{"method":"turn/started","params":{"threadId":%q,"turn":{"id":%q}}}`, thread, native))
}

func (d *harness) ends(thread, native, status string) {
	d.out(fmt.Sprintf(`{"method":"turn/completed","params":{"threadId":%q,"turn":{"id":%q,"status":%q}}}`, thread, native, status))
}

func (d *harness) interrupts() (n int) {
	for _, line := range d.due {
		if strings.Contains(line, methodInterrupt) {
			n++
		}
	}
	return n
}

// An early interrupt was sent for a prompt that the agent then rejects. It must
// not interrupt the next prompt's turn.
func TestEarlyInterruptIsDroppedWithRejectedPrompt(t *testing.T) {
	d := newHarness(t)
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
		t.Errorf("%d interrupts of the next turn: %q", n, d.due)
	}
}

// spawned returns a harness whose first turn started a subagent that is
// working.
func spawned(t *testing.T) *harness {
	d := newHarness(t)
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

// A subagent's question is open when the turn that started the subagent ends.
// The question moves to a turn of its own.
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
		t.Error("no checkpoint after all work has ended")
	}
	checkTurns(t, d.evs)
}

// checkTurns fails the test unless each turn ends once. If only is not empty,
// it checks only these turns.
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

// Cancelling an out-of-turn question denies it and stops the subagent that
// asked.
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

// The agent runs the threads of several agents. The end of a turn ends only a
// turn of the thread that it names.
func TestEndOfATurnOfAnotherThreadEndsNoTurn(t *testing.T) {
	d := spawned(t)
	d.ends("other", "n1", "completed")
	d.ends("sub", "n1", "completed")
	d.ends("th", "s1", "completed")
	if n := len(bodies[event.ResponseDone](d.evs)); n != 0 {
		t.Fatalf("%d turns ended:\n%s", n, dump(d.evs))
	}
	if d.tr.running("n1") == nil || d.tr.running("s1") == nil {
		t.Error("a turn no longer runs")
	}
	d.ends("sub", "s1", "completed")
	d.ends("th", "n1", "completed")
	if n := len(bodies[event.ResponseDone](d.evs)); n != 1 || d.tr.running("s1") != nil {
		t.Errorf("%d turns ended:\n%s", n, dump(d.evs))
	}
}

// The model API chooses the ids of calls and may repeat them. So the end of a
// background command is identified by its turn and its id.
func TestBackgroundCommandIsIdentifiedByTurn(t *testing.T) {
	command := func(method, turn, status string) string {
		return `{"method":"` + method + `","params":{"threadId":"th","turnId":"` + turn + `","item":{"type":"commandExecution","id":"call_1","command":"x","cwd":"/p","status":"` + status + `","aggregatedOutput":"of ` + turn + `"}}}`
	}
	d := newHarness(t)
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
					t.Errorf("the command's output is shown in turn %s", ev.Turn)
				}
				return
			}
		}
	}
	t.Error("the command's output is not shown")
}

// A turn that runs in another process has no end yet. A later load returns the
// rest.
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
		t.Errorf("the last event is %#v", last)
	}
}

func yieldEach(evs []event.Event, yield func(event.Event, error) bool) {
	for _, ev := range evs {
		yield(ev, nil)
	}
}

// An elicitation is shown only if its address is a web page.
func TestElicitationRejectsOtherURLSchemes(t *testing.T) {
	ask := func(url string) int {
		d := newHarness(t)
		d.prompt("a")
		d.begins("th", "n1")
		d.out(`{"method":"mcpServer/elicitation/request","id":0,"params":{"threadId":"th","turnId":"n1","serverName":"s","mode":"url","message":"m","url":"` + url + `"}}`)
		return len(d.tr.Waiting())
	}
	if ask("https://example.com/x") != 1 {
		t.Error("a web page is not shown")
	}
	for _, url := range []string{"javascript:alert(1)", "file:///etc/passwd", ""} {
		if ask(url) != 0 {
			t.Errorf("%q is shown", url)
		}
	}
}

// Codex opens a conversation that is not in its index before it lists the
// turns. No MCP server may start then: neither the user's servers, nor servers
// that another user put into the folder for temporary files, even if the user
// trusts that folder.
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
	events := 0
	for _, err := range r.provider().(runnel.Historian).History(t.Context(), runnel.Conversation{AgentSessionID: id}) {
		if err != nil {
			t.Fatal(detail(err))
		}
		events++
	}
	if events == 0 {
		t.Error("the history is empty")
	}
	if started, err := filepath.Glob(mark + "*"); err != nil || len(started) > 0 {
		t.Errorf("MCP servers were started: %q %v", started, err)
	}
}

// Codex may report the end of a subagent's call in an unknown form. The call
// then stays open, and continues in the background when its turn ends.
func TestSubagentCallStaysOpenAfterUnknownActivity(t *testing.T) {
	for name, rest := range map[string]string{
		"no thread":      `"kind":"hibernated"`,
		"other thread":   `"kind":"hibernated","agentThreadId":"other"`,
		"kind no string": `"kind":7`,
	} {
		t.Run(name, func(t *testing.T) {
			d := newHarness(t)
			d.prompt("a")
			d.begins("th", "n1")
			d.out(`{"method":"item/started","params":{"threadId":"th","turnId":"n1","item":{"type":"subAgentActivity","id":"c1","kind":"started","agentThreadId":"sub","agentPath":"/root/x"}}}`)
			d.out(`{"method":"item/completed","params":{"threadId":"th","turnId":"n1","item":{"type":"subAgentActivity","id":"c1",` + rest + `}}}`)
			d.ends("th", "n1", "completed")
			all := dump(d.evs)
			for _, want := range []string{`"It continues in the background."`, `"TASK_GOES_ON"`} {
				if strings.Count(all, want) != 1 {
					t.Errorf("%s occurs %d times in\n%s", want, strings.Count(all, want), all)
				}
			}
		})
	}
}

// Several turns of the conversation run at once. An event without a turn
// belongs to the turn that began first. An early interrupt applies to the turn
// whose prompt came first.
func TestConcurrentTurnsAreOrdered(t *testing.T) {
	for range 50 {
		d := newHarness(t)
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

// A stored turn that the user interrupted has an end time. Without an end time,
// the agent's process was killed, and the turn ends with a crash as in a live
// session.
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

// A rejected interrupt is repeated. It is reported unless the turn had only
// just started.
func TestRejectedInterruptIsRepeatedAndReported(t *testing.T) {
	for message, c := range map[string]struct{ refusals, notices, repeated int }{
		"no active turn to interrupt": {refusals: 1, notices: 0, repeated: 1},
		"not now":                     {refusals: 1, notices: 1, repeated: 1},
	} {
		d := newHarness(t)
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
		for n := 2; n <= 2*maxInterrupts; n++ { // the agent rejects every interrupt
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
