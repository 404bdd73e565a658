package codex

import (
	"bytes"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/agentconn"
	"github.com/runnel-dev/runnel/internal/agentrig"
	"github.com/runnel-dev/runnel/internal/recordtest"
)

// ruled returns the events of lines after the engine has applied the rules of a
// turn.
func ruled(t testing.TB, lines []runnel.Line) []event.Event {
	t.Helper()
	return agentrig.Ruled(t, providerID, recordtest.Events(t, New(), lines))
}

func allLines(t testing.TB, a *txtar.Archive) []runnel.Line {
	t.Helper()
	return recordtest.All(t, section(a, "in"))
}

func recording(t testing.TB, name string) []runnel.Line {
	t.Helper()
	paths, err := filepath.Glob("testdata/" + name + "@*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatalf("%s: %v", name, err)
	}
	a, err := txtar.ParseFile(paths[0])
	if err != nil {
		t.Fatal(err)
	}
	return allLines(t, a)
}

// TestUnknownMessagesChangeNothing inserts unknown messages between the lines
// of a recording, as a newer agent could print them. The other events must not
// change.
func TestUnknownMessagesChangeNothing(t *testing.T) {
	unknown := []string{
		`{"method":"item/hologram/delta","params":{"threadId":"x","turnId":"y","deep":{"er":[1,{"still":true}]}}}`,
		`{"method":"turn/celebrated","params":[1,2,3],"emittedAtMs":1}`,
		`{"method":"item/started","params":{"threadId":"00000000-0000-4000-8000-000000000001","turnId":7,"item":"none"}}`,
		`{"id":"nobody-asked","result":{}}`, `{"id":99999,"error":{"code":1,"message":"x"}}`, `{"method":"$/cancel_request","params":{"requestId":5}}`,
	}
	tr := newTranslator()
	for _, line := range append(unknown, `{"method":`) {
		agentconn.Feed(tr, runnel.Line{At: fixtureStart, Dir: runnel.DirOut, Text: []byte(line)})
	}
	if messages, lines := tr.Skipped(); messages != len(unknown) || lines != 1 {
		t.Errorf("%d messages and %d lines were skipped", messages, lines)
	}
	eachRecording(t, func(t *testing.T, _ fixture, _ string, a *txtar.Archive) {
		lines := allLines(t, a)
		var with []runnel.Line
		for i, l := range lines {
			with = append(with, runnel.Line{At: l.At, Dir: runnel.DirOut, Text: []byte(unknown[i%len(unknown)])}, l)
		}
		if want, got := dump(ruled(t, lines)), dump(ruled(t, with)); want != got {
			t.Errorf("without:\n%s\nwith:\n%s", want, got)
		}
	})
}

// TestUnknownItemOnlyTakesANumber checks that an item of an unknown type uses
// up one item number and emits nothing.
func TestUnknownItemOnlyTakesANumber(t *testing.T) {
	var with []runnel.Line
	done := false
	for _, l := range recording(t, "text") {
		with = append(with, l)
		if !done && bytes.Contains(l.Text, []byte(`"turn/started"`)) {
			done = true
			for _, m := range []string{"item/started", "item/completed"} {
				with = append(with, runnel.Line{At: l.At, Dir: runnel.DirOut, Text: []byte(`{"method":"` + m + `","params":{"threadId":"00000000-0000-4000-8000-000000000001","turnId":"00000000-0000-4000-8000-000000000003","item":{"type":"hologram","id":"h1","beam":{"x":[1]}}}}`)})
			}
		}
	}
	evs := ruled(t, with)
	agentrig.Closed(t, evs)
	if text := dump(evs); strings.Contains(text, "hologram") || !strings.Contains(text, ":2:0") {
		t.Error(text)
	}
}

// TestUnknownRequestIsRefused checks that an unknown request gets an error
// response. Without a response the agent would wait forever.
func TestUnknownRequestIsRefused(t *testing.T) {
	tr := newTranslator()
	for _, line := range []string{
		`{"id":0,"method":"item/tool/call","params":{"callId":"c","tool":"x","arguments":{}}}`, `{"id":1,"method":"attestation/generate","params":{}}`,
		`{"id":2,"method":"mcpServer/elicitation/request","params":{"threadId":"t","serverName":"s","mode":"openai/userVerification","title":"t","challenge":"c"}}`,
		`{"id":3,"method":"item/tool/requestUserInput","params":{"threadId":"t","turnId":"u","itemId":"i","questions":[]}}`,
	} {
		evs, replies := tr.Printed([]byte(line), fixtureStart)
		if len(evs) != 0 || len(replies) != 1 || !bytes.Contains(object(replies[0]), []byte("-32601")) {
			t.Errorf("%s: %v %s", line, evs, object(replies))
		}
		tr.Sent(object(replies[0]), fixtureStart)
	}
	if open := tr.peer.Open(); len(open) != 0 {
		t.Errorf("still open: %v", open)
	}
}

// TestMalformedAgentLinesKeepTurnsClosed changes the lines of every recording
// as a faulty agent could. Every turn must still end once.
func TestMalformedAgentLinesKeepTurnsClosed(t *testing.T) {
	for name, damage := range map[string]func([]runnel.Line) []runnel.Line{
		"everything twice": func(ls []runnel.Line) (out []runnel.Line) {
			for _, l := range ls {
				out = append(out, l, l)
			}
			return out
		},
		"backwards": func(ls []runnel.Line) []runnel.Line { slices.Reverse(ls); return ls },
		"no begins": func(ls []runnel.Line) []runnel.Line { return without(ls, `"item/started"`) },
		"no ends":   func(ls []runnel.Line) []runnel.Line { return without(ls, `"item/completed"`) },
		"no turn begins": func(ls []runnel.Line) []runnel.Line {
			return without(ls, `"turn/started"`)
		},
		"no turn ends": func(ls []runnel.Line) []runnel.Line { return without(ls, `"turn/completed"`) },
		"no answers":   func(ls []runnel.Line) []runnel.Line { return without(ls, `"result"`) },
		"nothing sent": func(ls []runnel.Line) []runnel.Line {
			return slices.DeleteFunc(ls, func(l runnel.Line) bool { return l.Dir == runnel.DirIn })
		},
		"one item id":   replace(`"id":"(call|msg|rs|exec)[^"]*"`, `"id":"same"`),
		"one turn id":   replace(`"turnId":"[^"]*"`, `"turnId":"same"`),
		"no thread ids": replace(`"threadId":"[^"]*"`, `"threadId":""`),
		"no item ids":   replace(`"id":"(call|msg|rs|exec)[^"]*"`, `"id":""`),
		"null items":    replace(`"item":\{`, `"item":null,"was":{`),
		"other types":   replace(`"type":"commandExecution"`, `"type":"agentMessage"`),
		"odd ids":       replace(`"id":"(call|msg|rs|exec)[^"]*"`, `"id":"../\u0000/x \u202e"`),
		"zero times":    replace(`AtMs":\d+`, `AtMs":-1`),
	} {
		t.Run(name, func(t *testing.T) {
			eachRecording(t, func(t *testing.T, _ fixture, _ string, a *txtar.Archive) {
				agentrig.Closed(t, ruled(t, damage(allLines(t, a))))
			})
		})
	}
}

// TestTurnEndsOnceWhenOutputIsCutAtAnyByte cuts the agent's output at many
// bytes. Each turn must end once, and no event may come from a partial line.
func TestTurnEndsOnceWhenOutputIsCutAtAnyByte(t *testing.T) {
	for _, name := range []string{"text", "patch", "ask-command-stop"} {
		lines := recording(t, name)
		if len(lines) > 40 {
			lines = lines[:40]
		}
		for i, l := range lines {
			if l.Dir != runnel.DirOut {
				continue
			}
			step := max(1, len(l.Text)/40)
			for k := 0; k < len(l.Text); k += step {
				cut := append(slices.Clone(lines[:i]), runnel.Line{At: l.At, Dir: l.Dir, Text: l.Text[:k]})
				evs := ruled(t, cut)
				agentrig.Closed(t, evs)
				if t.Failed() {
					t.Fatalf("%s, line %d, byte %d:\n%s", name, i, k, dump(evs))
				}
			}
		}
	}
}

// TestEndlessRetriesEmitBoundedNotices checks that endless retries emit a
// bounded number of notices. After that the turn has no events, so that the
// session can detect that it stalled.
func TestEndlessRetriesEmitBoundedNotices(t *testing.T) {
	tr := newTranslator()
	feed := func(text string) []event.Event {
		evs, _ := tr.Printed([]byte(text), fixtureStart)
		return evs
	}
	tr.thread = "t"
	feed(`{"method":"turn/started","params":{"threadId":"t","turn":{"id":"u"}}}`)
	notices := 0
	for i := range 1000 {
		message := "Reconnecting... waiting for network"
		if i%2 == 0 {
			message = fmt.Sprintf("Reconnecting... %d/1000", i)
		}
		notices += len(feed(`{"method":"error","params":{"threadId":"t","turnId":"u","willRetry":true,"error":{"message":"` + message + `","codexErrorInfo":"other"}}}`))
	}
	if notices == 0 || notices > maxRetries {
		t.Errorf("%d notices", notices)
	}
}

// TestPromptJoinsRunningTurn checks a prompt that the agent adds to a turn it
// started by itself. Later events belong to the prompt's turn.
func TestPromptJoinsRunningTurn(t *testing.T) {
	ours := "00000000-0000-4000-8000-00000000000a"
	tr := newTranslator()
	tr.thread = "t"
	var evs []event.Event
	for _, l := range []struct {
		dir  runnel.Dir
		text string
	}{
		{runnel.DirOut, `{"method":"turn/started","params":{"threadId":"t","turn":{"id":"u"}}}`},
		{runnel.DirOut, `{"method":"item/started","params":{"threadId":"t","turnId":"u","item":{"type":"agentMessage","id":"m1"}}}`},
		{runnel.DirIn, `{"id":"turn:` + ours + `","method":"turn/start","params":{"threadId":"t","clientUserMessageId":"` + ours + `","input":[{"type":"text","text":"hi"}]}}`},
		{runnel.DirOut, `{"id":"turn:` + ours + `","result":{"turn":{"id":"u"}}}`},
		{runnel.DirOut, `{"method":"item/completed","params":{"threadId":"t","turnId":"u","item":{"type":"agentMessage","id":"m1","text":"So."}}}`},
		{runnel.DirOut, `{"method":"turn/completed","params":{"threadId":"t","turn":{"id":"u","status":"completed"}}}`},
	} {
		more, _ := agentconn.Feed(tr, runnel.Line{At: fixtureStart, Dir: l.dir, Text: []byte(l.text)})
		evs = append(evs, more...)
	}
	sound(t, evs)
	if got := last(evs); event.Type(got) != "response_done" || evs[len(evs)-1].Turn != ours {
		t.Errorf("the last event is wrong:\n%s", dump(evs))
	}
	if !strings.Contains(dump(evs), `"content":"So."`) {
		t.Errorf("the message is missing:\n%s", dump(evs))
	}
}

// FuzzCodexEvent (J03) checks that no input makes a turn end twice or leaves an
// item open.
func FuzzCodexEvent(f *testing.F) {
	paths, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		f.Fatal(err)
	}
	for _, p := range paths {
		a, err := txtar.ParseFile(p)
		if err != nil {
			f.Fatal(err)
		}
		var b bytes.Buffer
		for l := range recorded(f, section(a, "in")) {
			if len(l.Text) < 1000 && b.Len() < 8<<10 { // small inputs keep the fuzzer fast
				b.WriteString(string(l.Dir) + " " + string(l.Text) + "\n")
			}
		}
		f.Add(b.Bytes())
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var lines []runnel.Line
		for text := range bytes.Lines(data) {
			dir, line, ok := bytes.Cut(bytes.TrimRight(text, "\n"), []byte(" "))
			if !ok {
				continue
			}
			l := runnel.Line{At: fixtureStart.Add(time.Duration(len(lines)) * time.Millisecond), Dir: runnel.DirOut, Text: line}
			if string(dir) == "in" {
				l.Dir = runnel.DirIn
			}
			lines = append(lines, l)
		}
		agentrig.Closed(t, ruled(t, lines))
		tr := newTranslator()
		for _, l := range lines {
			agentconn.Feed(tr, l)
			if state, ok := tr.Checkpoint(); ok {
				if err := newTranslator().Restore(state); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

func without(ls []runnel.Line, what string) []runnel.Line {
	return slices.DeleteFunc(ls, func(l runnel.Line) bool { return bytes.Contains(l.Text, []byte(what)) })
}

func replace(pattern, with string) func([]runnel.Line) []runnel.Line {
	re := regexp.MustCompile(pattern)
	return func(ls []runnel.Line) []runnel.Line {
		for i, l := range ls {
			if l.Dir == runnel.DirOut {
				ls[i].Text = re.ReplaceAll(l.Text, []byte(with))
			}
		}
		return ls
	}
}

// TestTooDeepMembersChangeNothing adds to each message a member that is nested
// deeper than JSON decoders accept. Every question must still be asked, and
// every turn must end.
func TestTooDeepMembersChangeNothing(t *testing.T) {
	eachRecording(t, func(t *testing.T, _ fixture, _ string, a *txtar.Archive) {
		lines := allLines(t, a)
		if want, got := dump(ruled(t, lines)), dump(ruled(t, recordtest.Deepened(lines))); want != got {
			t.Errorf("without:\n%s\nwith:\n%s", want, got)
		}
	})
}
