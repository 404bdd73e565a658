//go:build unix

package conformance

import (
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The table errors checks over HTTP that every error code occurs with its
// status.
var _ = register(20, func() table {
	tab := table{
		name: "errors", title: "Error codes", file: "errors_test.go",
		intro: "Every type of error, the one status that it has, and a request or a turn that fails with it. The types and statuses are those of the document. A turn that fails has " +
			"its error in the frame `turn:error` of the harness, with the same status.",
		head: []string{"type", "what is wrong", "status"},
	}
	d, _, err := document()
	if err != nil {
		return tab.broken(err)
	}
	e := new(errorCodes)
	tab.setup = e.setup
	statuses := d.Components.Schemas["ErrorType"].Statuses
	provoked := e.provoked()
	for _, code := range slices.Sorted(maps.Keys(statuses)) {
		ways := provoked[code]
		if len(ways) == 0 {
			tab.add(code, "(any)", "(any)", func(t *testing.T) { t.Fatalf("nothing here provokes %s", code) })
		}
		for _, w := range ways {
			status := w.status
			if status == 0 {
				status = statuses[code][0]
			}
			says := fmt.Sprint(status)
			if w.test != "" {
				tab.link(code, w.what, says, w.test)
				continue
			}
			tab.add(code, w.what, says, func(t *testing.T) {
				if !slices.Contains(statuses[code], status) {
					t.Errorf("the document does not list %d for %s", status, code)
				}
				if w.turn != nil {
					session, prompt, s := w.turn(t)
					failedTurn(t, s, session, prompt, status, code)
					return
				}
				p := w.ask(t).fails(t, status, code)
				if !strings.Contains(p.Message, w.message) {
					t.Errorf("the message %q does not have %q", p.Message, w.message)
				}
			})
		}
	}
	for code := range provoked {
		if statuses[code] == nil {
			tab.add(code, "(any)", "(any)", func(t *testing.T) { t.Fatalf("the document does not list %s", code) })
		}
	}
	return tab
})

// errorCodes is shared by the rows of the table.
type errorCodes struct {
	server
	limited server // has very low limits

	behaviour string // file that sets the behaviour of the agent "mine"
}

func (e *errorCodes) setup(t *testing.T) {
	mine, behaviour := agentFile(t, "answers")
	e.behaviour = behaviour
	withoutLogin, _ := agentFile(t, "login")
	ending, _ := agentFile(t, "ends")
	e.configure(t, fmt.Sprintf("agents:\n  mine: {protocol: acp, command: [%s]}\n  claude-agent-acp: {path: %s}\n  ending: {protocol: acp, command: [%s]}\n"+
		"  absent: {protocol: acp, command: [/none/agent]}\n", mine, withoutLogin, ending))
	e.start(t)
	e.limited.Args = []string{"--stall-timeout", "300ms", "--max-sessions", "2", "--max-new-sessions-per-credential", "4"}
	e.limited.start(t)
}

// A provocation is a request or a turn that fails with an error code. Exactly
// one of ask, turn and test is set.
type provocation struct {
	what    string
	status  int // Default: the first status of the code
	message string
	ask     func(t *testing.T) answer
	turn    func(t *testing.T) (session, prompt string, s *server)
	test    string
}

// failedTurn checks that the turn ends with an error.
func failedTurn(t *testing.T, s *server, session, prompt string, status int, code string) {
	t.Helper()
	all := s.stream(t, http.MethodPost, "/api/harness/turn", object{"sessionId": session, "message": prompt}).rest(t)
	failed := all.find("turn:error").data
	if failed["errorType"] != code || failed["status"] != float64(status) || failed["fatal"] != true {
		t.Errorf("got %s with %v, want a fatal %s with status %d", all.names(), failed, code, status)
	}
}

func (e *errorCodes) create(t *testing.T, body object) answer {
	t.Helper()
	return e.post(t, "/api/session/create", body)
}

// provoked returns the provocations for each error code.
func (e *errorCodes) provoked() map[string][]provocation {
	dir := func() string { return e.project }
	to := func(session, verb string) string { return "/api/session/" + session + "/" + verb }
	scripted := func(steps ...object) func(t *testing.T) (string, string, *server) {
		return func(t *testing.T) (string, string, *server) { return e.session(t, nil), script(steps...), &e.server }
	}
	behaving := func(behaviour string) func(t *testing.T) (string, string, *server) {
		return func(t *testing.T) (string, string, *server) {
			e.behave(t, behaviour)
			return e.sessionOf(t, "mine"), "hello", &e.server
		}
	}
	return map[string][]provocation{
		"INVALID_REQUEST": {
			{what: "a field of a request is missing", ask: func(t *testing.T) answer { return e.post(t, "/api/harness/turn", object{}) }},
			{what: "an option has an unknown value", message: `permissionMode: unknown value "yolo"; want default, acceptEdits, plan, dontAsk or bypass`, ask: func(t *testing.T) answer {
				return e.create(t, object{"cliType": "script", "projectDir": dir(), "options": object{"permissionMode": "yolo"}})
			}},
			{what: "the path does not exist", status: 404, ask: func(t *testing.T) answer { return e.get(t, "/api/none") }},
			{what: "the path does not take the method", status: 405, ask: func(t *testing.T) answer { return e.do(t, http.MethodDelete, "/api/me", nil) }},
			{what: "the body does not arrive in time", status: 408, test: "httpapi.TestSlowloris"},
			{what: "an Idempotency-Key is that of another request", status: 409, ask: func(t *testing.T) answer {
				keyed, id := e.with("Idempotency-Key", "errors"), e.session(t, nil)
				keyed.post(t, to(id, "send"), object{"content": "{}"}).ok(t, http.StatusAccepted)
				return keyed.post(t, to(id, "send"), object{"content": "other"})
			}},
			{what: "path and query are too long", status: 414, ask: func(t *testing.T) answer { return e.get(t, "/"+strings.Repeat("a", 8<<10)) }},
			{what: "the media type of the body is no JSON", status: 415, ask: func(t *testing.T) answer {
				return e.with("Content-Type", "text/plain").post(t, "/api/logout", "{}")
			}},
			{what: "the WebSocket is asked for without an upgrade", status: 426, ask: func(t *testing.T) answer { return e.get(t, "/api/ws") }},
			{what: "the headers are too long", status: 431, ask: func(t *testing.T) answer {
				return e.with("X-Long", strings.Repeat("a", 32<<10)).get(t, "/api/me")
			}},
		},
		"UNSUPPORTED_CLI_TYPE": {{what: "the kind of agent does not exist", ask: func(t *testing.T) answer {
			return e.create(t, object{"cliType": "none", "projectDir": dir()})
		}}},
		"PROJECT_ID_REQUIRED": {{what: "a list names no project", message: "projectId=*", ask: func(t *testing.T) answer { return e.get(t, "/api/session/list") }}},
		"SESSION_CREATE_FAILED": {{what: "the agent ends before it is ready", ask: func(t *testing.T) answer {
			a := e.create(t, object{"cliType": "ending", "projectDir": dir()})
			if list := e.get(t, "/api/session/list?projectId=*&all=1"); strings.Contains(string(list.body), `"ending"`) {
				t.Errorf("a session is left: %s", list.body)
			}
			return a
		}}},
		"ATTACHMENT_FAILURE": {{what: "no attachment can be used, and there is no text", ask: func(t *testing.T) answer {
			return e.post(t, to(e.session(t, nil), "send"), object{"content": "", "attachments": []string{"/etc/none.txt"}})
		}}},
		"UNSUPPORTED_CAPABILITY": {{what: "the agent cannot continue from a copy", message: "agent_api.session.fork.v1", ask: func(t *testing.T) answer {
			return e.post(t, to(e.session(t, nil), "fork"), object{})
		}}},
		"UNAUTHORIZED":     {{what: "no credential", message: "runnel token create", ask: func(t *testing.T) answer { return e.as("").get(t, "/api/me") }}},
		"FORBIDDEN_ORIGIN": {{what: "the Origin is another site's", ask: func(t *testing.T) answer { return e.with("Origin", "http://evil.example").get(t, "/api/me") }}},
		"FORBIDDEN": {{what: "the credential lacks the scope", message: `"send"`, ask: func(t *testing.T) answer {
			return e.as(e.token(t, "", "read")).post(t, "/api/harness/interrupt", object{"sessionId": nobody})
		}}},
		"SESSION_NOT_FOUND": {{what: "the session does not exist", ask: func(t *testing.T) answer { return e.get(t, to(nobody, "status")) }}},
		"PERSONA_NOT_FOUND": {{what: "the profile does not exist", ask: func(t *testing.T) answer {
			return e.create(t, object{"cliType": "script", "projectDir": dir(), "options": object{"persona": "nobody"}})
		}}},
		"WORKING_ROOT_INACCESSIBLE": {
			{what: "the folder does not exist", ask: func(t *testing.T) answer { return e.create(t, object{"cliType": "script", "projectDir": "/none"}) }},
			{what: "the folder is no absolute path", ask: func(t *testing.T) answer { return e.create(t, object{"cliType": "script", "projectDir": "relative"}) }},
			{what: "the folder is a file", ask: func(t *testing.T) answer {
				return e.create(t, object{"cliType": "script", "projectDir": write(t, folder(t), "file", "x")})
			}},
		},
		"WORKING_ROOT_CONFLICT": {
			{what: "the folder is the data directory", ask: func(t *testing.T) answer { return e.create(t, object{"cliType": "script", "projectDir": e.Data}) }},
			{what: "the folder lies in the data directory", ask: func(t *testing.T) answer {
				return e.create(t, object{"cliType": "script", "projectDir": filepath.Join(e.Data, "uploads")})
			}},
		},
		"TURN_IN_PROGRESS": {{what: "a turn runs", ask: func(t *testing.T) answer {
			id, _ := e.running(t)
			return e.post(t, to(id, "send"), object{"content": "text"})
		}}},
		"BUDGET_EXCEEDED":     {{what: "the session has used up its budget", test: "test/guardrails.TestTokenBudgetEndsTurnsOfRealAgents"}},
		"CONVERSATION_IN_USE": {{what: "an agent in a terminal has the conversation open", test: "test/e2e.TestTerminalIsFollowedAndTakenOver"}},
		"CHANGES_OUTDATED": {{what: "the client has seen another state of the file", ask: func(t *testing.T) answer {
			return e.post(t, e.inGit(t)+"/revert", object{"path": "a.txt", "seen": "x", "losesUnstaged": true})
		}}},
		"GIT_FAILED": {{what: "nothing is staged", ask: func(t *testing.T) answer {
			path := e.inGit(t)
			st := e.get(t, path).ok(t, http.StatusOK)
			return e.post(t, path+"/commit", object{"message": "x", "seen": st["seen"]})
		}}},
		"APPROVAL_GONE": {{what: "the approval was answered", ask: func(t *testing.T) answer {
			id, approval := e.asking(t)
			path := to(id, "approvals/"+approval["id"].(string))
			e.post(t, path, object{"choice": "deny"}).ok(t, http.StatusOK)
			return e.post(t, path, object{"choice": "deny"})
		}}},
		"PROMPT_GONE": {{what: "the turn of the queued prompt has started", message: "has started", ask: func(t *testing.T) answer {
			id, turn := e.running(t)
			return e.post(t, to(id, "queue/"+turn), object{"content": "text"})
		}}},
		"SESSION_DEAD": {{what: "the session was ended", message: "load", ask: func(t *testing.T) answer {
			id := e.session(t, nil)
			e.post(t, to(id, "kill"), object{}).ok(t, http.StatusOK)
			return e.post(t, to(id, "send"), object{"content": "text"})
		}}},
		"PAYLOAD_TOO_LARGE": {{what: "the body has more than 1 MiB", ask: func(t *testing.T) answer {
			return e.post(t, "/api/session/create", object{"cliType": strings.Repeat("a", 1<<20)})
		}}},
		"PROTOCOL_ERROR": {{what: "the agent speaks an unknown version of the protocol when it is started again", ask: func(t *testing.T) answer {
			e.behave(t, "answers")
			id := e.sessionOf(t, "mine")
			e.behave(t, "old")
			return e.post(t, "/api/harness/session/boot", object{"sessionId": id, "force": true})
		}}},
		"INVALID_STREAM_EVENT": {
			{what: "a turn ends with this error", turn: scripted(object{"fail": object{"code": "INVALID_STREAM_EVENT", "message": "x"}})},
			{what: "the agent sends an invalid event: a notice, and the turn goes on", test: "..TestLateAndDoubleEventsAreDroppedAndCounted"},
		},
		"PROCESS_CRASH": {{what: "the agent's process ends in a turn", turn: scripted(object{"text": "a"}, object{"crash": true})}},
		"INTERRUPT_FAILED": {
			{what: "a turn ends with this error", turn: scripted(object{"fail": object{"code": "INTERRUPT_FAILED", "message": "x"}})},
			{what: "the agent refuses an interruption: a notice, and the agent is stopped", test: "..TestFailedInterruptIsReportedBeforeTheAgentIsStopped"},
		},
		"AGENT_ERROR":     {{what: "the agent fails a prompt", turn: behaving("fails")}},
		"INVALID_API_KEY": {{what: "the model API refuses the agent's key", turn: behaving("key")}},
		"RATE_LIMITED": {
			{what: "the model API limits the rate", turn: behaving("limited")},
			{what: "the credential creates more sessions than it may", ask: func(t *testing.T) answer {
				var a answer
				for range 5 {
					if a = e.limited.post(t, "/api/session/create", object{"cliType": "none", "projectDir": e.limited.project}); a.status == http.StatusTooManyRequests {
						equal(t, "Retry-After", a.header.Get("Retry-After"), "60")
					}
				}
				return a
			}},
		},
		"MISSING_API_KEY": {{what: "the agent is to use a key, and there is none", message: "ANTHROPIC_API_KEY", ask: func(t *testing.T) answer {
			return e.create(t, object{"cliType": "claude-code", "projectDir": dir(), "options": object{"auth": "api-key"}})
		}}},
		"AGENT_NOT_INSTALLED": {
			{what: "the agent's program is nowhere: the message has the command that installs it", message: "npm install -g @google/gemini-cli", ask: func(t *testing.T) answer {
				return e.create(t, object{"cliType": "gemini", "projectDir": dir()})
			}},
			{what: "the program that the configuration names does not exist", message: "Check the command in the configuration", ask: func(t *testing.T) answer {
				return e.create(t, object{"cliType": "absent", "projectDir": dir()})
			}},
		},
		"AGENT_NOT_LOGGED_IN": {{what: "the agent opens no conversation without a login: the message has the command that logs in", message: "claude auth login", ask: func(t *testing.T) answer {
			return e.create(t, object{"cliType": "claude-agent-acp", "projectDir": dir()})
		}}},
		"AGENT_STALLED": {{what: "the agent says nothing for the stall timeout", turn: func(t *testing.T) (string, string, *server) {
			return e.limited.session(t, nil), script(object{"hang": true}), &e.limited
		}}},
		"TIMEOUT": {
			{what: "a turn ends with this error", turn: scripted(object{"fail": object{"code": "TIMEOUT", "message": "x"}})},
			{what: "the agent is not ready in time", test: "internal/agentconn.TestHandshakeTimesOut"},
		},
		"STORE_UNAVAILABLE": {{what: "the disk is full", test: "httpapi.TestTurnOnFullDisk"}},
		"OVERLOADED": {{what: "the server has as many open sessions as it may", message: "max-sessions", ask: func(t *testing.T) answer {
			c := e.limited.as(e.limited.token(t, "", "read", "send"))
			var a answer
			for range 3 {
				a = c.post(t, "/api/session/create", object{"cliType": "script", "projectDir": e.limited.project})
			}
			return a
		}}},
		"INTERNAL": {{what: "a handler panics", test: "httpapi.TestPanicPath"}},
	}
}

// behave sets how the fake agent behaves from its next start on.
func (e *errorCodes) behave(t *testing.T, behaviour string) {
	t.Helper()
	write(t, filepath.Dir(e.behaviour), filepath.Base(e.behaviour), behaviour)
}
