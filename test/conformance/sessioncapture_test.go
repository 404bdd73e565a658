//go:build unix

package conformance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel/internal/testprogram"
)

var _ = register(42, func() table {
	var s nativeServer
	tab := table{
		name: "captures", title: "Debug captures of sessions", file: "sessioncapture_test.go",
		intro: "What a debug capture of a session on a server contains, and who may switch it on. `runnel record` captures a single run; see the rules of a turn.",
		head:  []string{"promise"},
		setup: func(t *testing.T) {
			s = nativeServer{}
			s.start(t)
		},
	}
	add := func(promise string, check func(t *testing.T, s *nativeServer)) {
		tab.rows = append(tab.rows, row{cells: []string{promise}, check: func(t *testing.T) { check(t, &s) }})
	}
	shown := func(promise, test string) {
		tab.rows = append(tab.rows, row{cells: []string{promise}, test: test})
	}
	add("A debug capture is off until a client with the scope `admin` switches it on", func(t *testing.T, s *nativeServer) {
		id := s.nativeSession(t)
		s.turn(t, id, s.send(t, id, native{Lines: said("before", nativeResult)}.prompt()))
		equal(t, "status", s.get(t, "/api/session/"+id+"/status").ok(t, http.StatusOK)["capture"], nil)
		s.get(t, capturePath(id)).fails(t, http.StatusNotFound, "INVALID_REQUEST")
		others := s.as(s.Token(t, "read,send,approve"))
		others.post(t, capturePath(id), object{"on": true}).fails(t, http.StatusForbidden, "FORBIDDEN")
		others.get(t, capturePath(id)).fails(t, http.StatusForbidden, "FORBIDDEN")
		equal(t, "on", s.post(t, capturePath(id), object{"on": true}).ok(t, http.StatusOK)["on"], true)
		equal(t, "status", at(s.get(t, "/api/session/"+id+"/status").ok(t, http.StatusOK), "capture", "on"), true)
	})
	add("It has the raw lines of both directions from then on, without known secrets, until it is switched off", func(t *testing.T, s *nativeServer) {
		const secret = "ghp_C4n4ryC4n4ryC4n4ryC4n4ryC4n4ry"
		id, _ := s.capturedTurn(t, said("the key is "+secret, nativeResult))
		s.post(t, capturePath(id), object{"on": false}).ok(t, http.StatusOK)
		s.turn(t, id, s.send(t, id, native{Lines: said("afterwards", nativeResult)}.prompt()))
		lines := s.captured(t, id)
		for _, dir := range []string{"in", "out"} {
			if !slices.ContainsFunc(lines[dir], func(line string) bool { return strings.Contains(line, "the key is [redacted]") }) {
				t.Errorf("no line %q with the redacted text in %q", dir, lines[dir])
			}
		}
		if all := fmt.Sprint(lines); strings.Contains(all, secret) || strings.Contains(all, "afterwards") {
			t.Errorf("captured %s", all)
		}
	})
	add("`runnel translate` turns it into the events that the clients received", func(t *testing.T, s *nativeServer) {
		id, want := s.capturedTurn(t, said("hi", nativeResult))
		equalFacts(t, s.translated(t, id), facts(want))
	})
	add("Its file in the data directory has the mode 0600, and is deleted with the session", func(t *testing.T, s *nativeServer) {
		id, _ := s.capturedTurn(t, said("hi", nativeResult))
		file := filepath.Join(s.Data, "captures", id+".jsonl")
		info, err := os.Stat(file)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", info, err)
		}
		s.do(t, http.MethodDelete, "/api/harness/session/"+id, nil).ok(t, http.StatusOK)
		if _, err := os.Stat(file); !os.IsNotExist(err) {
			t.Errorf("after the deletion: %v", err)
		}
	})
	add("It has each line of a turn once if the server is killed during the turn and another server takes the turn over", takesCaptureOver)
	shown("It stops when its file has 32 MiB", "gateway.TestCaptureIsBounded")
	shown("It stops on a full disk; the turn goes on and has a notice", "gateway.TestCaptureStopsOnAFullDiskAndTheTurnContinues")
	shown("It continues after a restart of the server", "gateway.TestCaptureContinuesAfterARestart")
	return tab
})

func capturePath(session string) string { return "/api/session/" + session + "/capture" }

// capturedTurn plays a turn of a new session whose capture is on.
func (s *nativeServer) capturedTurn(t *testing.T, lines []string) (session string, events frames) {
	t.Helper()
	session = s.nativeSession(t)
	s.post(t, capturePath(session), object{"on": true}).ok(t, http.StatusOK)
	return session, s.turn(t, session, s.send(t, session, native{Lines: lines}.prompt()))
}

// captured returns the lines of a session's capture by direction.
func (s *nativeServer) captured(t *testing.T, session string) map[string][]string {
	t.Helper()
	lines := make(map[string][]string)
	for text := range strings.Lines(s.Command(t, "sessions", "capture", session)) {
		var line struct{ Dir, Line string }
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		lines[line.Dir] = append(lines[line.Dir], line.Line)
	}
	return lines
}

// translated returns the facts of the events into which `runnel translate`
// turns a session's capture.
func (s *nativeServer) translated(t *testing.T, session string) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), testprogram.Path(t), "translate", "-")
	cmd.Stdin, cmd.Env = strings.NewReader(s.Command(t, "sessions", "capture", session)), s.Env
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, stderr.Bytes())
	}
	var events frames
	for text := range strings.Lines(string(out)) {
		var f frame
		if err := json.Unmarshal([]byte(text), &f.data); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		f.event, _ = f.data["type"].(string)
		events = append(events, f)
	}
	return facts(events)
}

// facts returns what must be equal in the events of a translated turn and of
// the live turn: finished items, and the end.
func facts(events frames) (out []string) {
	for _, f := range events {
		if f.event == "item_done" || f.ends() {
			out = append(out, fmt.Sprint(f.event, " ", f.data["turnId"], " ", f.payload()["itemId"], " ", at(f.payload(), "finalItem", "content")))
		}
	}
	return out
}

func equalFacts(t *testing.T, got, want []string) {
	t.Helper()
	if len(want) == 0 || !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// takesCaptureOver kills the server in the middle of a captured turn.
func takesCaptureOver(t *testing.T, _ *nativeServer) {
	var first nativeServer
	first.start(t)
	id := first.nativeSession(t)
	first.post(t, capturePath(id), object{"on": true}).ok(t, http.StatusOK)
	turn := first.send(t, id, native{Lines: said("half an answer"), Stopped: []string{nativeStop}}.prompt())
	first.events(t, id, func(f frame) bool {
		return f.event == "item_done" && at(f.payload(), "finalItem", "content") == "half an answer"
	})
	first.Kill()

	second := nativeServer{server: *first.another(first.Data)}
	second.server.start(t)
	second.post(t, "/api/session/"+id+"/cancel", object{}).ok(t, http.StatusOK)
	events := second.turn(t, id, turn)
	lines := second.captured(t, id)
	for _, once := range []string{`"type":"user"`, `"subtype":"init"`, `"half an answer"}]`, `"aborted_streaming"`} {
		n := 0
		for _, dir := range []string{"in", "out"} {
			for _, line := range lines[dir] {
				if strings.Contains(line, once) && (dir == "out") != strings.HasPrefix(once, `"type":"user"`) {
					n++
				}
			}
		}
		if n != 1 {
			t.Errorf("%d lines contain %s, want 1:\n%q", n, once, lines)
		}
	}
	equalFacts(t, second.translated(t, id), facts(events))
}
