//go:build unix

package conformance

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel/internal/testschema"
)

// The table routes checks every operation of the document under every condition
// that applies to it. Its rows are generated from the document.
var _ = register(10, func() table {
	tab := table{
		name: "routes", title: "Routes", file: "routes_test.go",
		intro: "Every operation of the API's document under each condition. The document is the one that the server serves. Success is checked against the schema of the answer, " +
			"an error against the form that all errors have. `(any)` stands for every operation.",
		head: []string{"operation", "condition", "answer"},
	}
	d, list, err := document()
	if err != nil {
		return tab.broken(err)
	}
	r := &routes{d: d, list: list}
	tab.setup = r.setup
	tab.add("(any)", "the document that the server serves", "is the committed one", func(t *testing.T) {
		committed, err := os.ReadFile("../../docs/openapi.json")
		if err != nil {
			t.Fatal(err)
		}
		if a := r.get(t, "/openapi.json"); string(a.body) != string(committed) {
			t.Error("/openapi.json differs from docs/openapi.json")
		}
	})
	for _, op := range list {
		r.rows(&tab, op)
	}
	r.socketRows(&tab)
	return tab
})

// add adds a row that has three cells and a check.
func (tab *table) add(first, second, third string, check func(t *testing.T)) {
	tab.rows = append(tab.rows, row{cells: []string{first, second, third}, check: check})
}

// link adds a row that has three cells and is proved by another test.
func (tab *table) link(first, second, third, test string) {
	tab.rows = append(tab.rows, row{cells: []string{first, second, third}, test: test})
}

// broken returns the table with a single row that fails with err. It is for a
// table whose rows cannot be generated.
func (tab table) broken(err error) table {
	cells := slices.Repeat([]string{"(any)"}, len(tab.head))
	tab.rows = []row{{cells: cells, check: func(t *testing.T) { t.Fatal(err) }}}
	return tab
}

// routes is shared by the rows of the table.
type routes struct {
	server
	d    testschema.Document
	list []operation

	ended string            // session whose turn has ended
	lacks map[string]string // for each scope, a token with all other scopes
	bound string            // token that is limited to another project
}

func (r *routes) setup(t *testing.T) {
	program, _ := agentFile(t, "answers")
	r.configure(t, "mcp-writes: true\nagents:\n  claude-agent-acp:\n    path: "+program+"\n  claude-code:\n    path: "+mcpEditor(t)+"\n")
	r.Home = folder(t)
	write(t, r.Home, ".config/runnel/profiles/reviewer.md", "---\ndescription: Reads\n---\nYou review.\n")
	r.Args = append(r.Args, "--profiles-dir", r.Home+"/.config/runnel/profiles", "--push", "loopback")
	r.start(t)
	r.ended = r.session(t, nil)
	r.play(t, r.ended, object{"text": "one two"})
	r.lacks = make(map[string]string)
	all := []string{"read", "send", "approve", "admin"}
	for i, scope := range all {
		r.lacks[scope] = r.token(t, "", slices.Delete(slices.Clone(all), i, i+1)...)
	}
	r.bound = r.token(t, folder(t), "read", "send", "approve")
}

// mcpEditor returns the path of a program that has the commands of Claude Code
// for MCP servers. Whatever it adds is the server tickets.
func mcpEditor(t *testing.T) string {
	t.Helper()
	path := write(t, folder(t), "claude", `#!/bin/sh
case "$1 $2" in
"mcp add") echo '{"mcpServers": {"tickets": {"command": "/opt/tickets", "args": ["serve"]}}}' > "$HOME/.claude.json" ;;
"mcp remove") echo '{}' > "$HOME/.claude.json" ;;
*) exit 1 ;;
esac
`)
	if err := os.Chmod(path, 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// tickets adds the MCP server tickets.
func (r *routes) tickets(t *testing.T) answer {
	t.Helper()
	r.do(t, http.MethodDelete, "/api/agents/claude-code/mcp/tickets", nil) // an earlier row may have added it
	return r.post(t, "/api/agents/claude-code/mcp", object{"name": "tickets", "command": "/opt/tickets", "args": []string{"serve"}})
}

// pushSubscription is a request to subscribe. Its push service does not exist,
// and its server has the setting push: loopback, so no test reaches another
// machine.
var pushSubscription = object{"endpoint": "http://127.0.0.1:9/none", "kinds": []string{"finished"}, "keys": object{
	"p256dh": "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4", "auth": "BTBZMqHH6r4Tts7J_aSIgg"}}

// request returns a client, a path and a body for a request of the operation
// about a session. The request need not succeed.
func (r *routes) request(op operation, session string) (c client, path string, body any) {
	c = r.client
	if op.scope == "" {
		c = r.asPage()
	}
	path = strings.NewReplacer("{approvalId}", "a1", "{turnId}", "t1", "{picture}", "p1", "{name}", "none", "{cliType}", "claude-code").Replace(op.path)
	id := session
	switch {
	case strings.HasPrefix(path, "/api/tokens/"):
		id = nobody
	case strings.HasPrefix(path, "/api/rules/"):
		id = "999"
	}
	path = strings.Replace(path, "{id}", id, 1)
	switch op.OperationID {
	case "exportSession":
		path += "?format=jsonl"
	case "importSession":
		return c.with("Content-Type", "application/octet-stream"), path + "?projectDir=" + url.QueryEscape(r.project), "{}\n"
	case "upload":
		return c.with("Content-Type", "application/octet-stream"), path + "?name=a.txt", "text"
	case "sendPrompt":
		return c, path, object{"content": "text"}
	case "subscribePush":
		return c, path, pushSubscription
	case "setOptions":
		return c, path, object{"model": "scripted"}
	case "setCapture":
		return c, path, object{"on": true}
	case "renameSession":
		return c, path, object{"title": "x"}
	case "archiveSession":
		return c, path, object{"archived": false}
	case "holdQueue":
		return c, path, object{"held": false}
	case "editQueuedPrompt":
		return c, path, object{"content": "text"}
	case "markSeen":
		return c, path, object{"seq": 1}
	case "decideApproval":
		return c, path, object{"choice": "deny"}
	case "gitDiff":
		path += "?path=a.txt&side=staged"
	case "gitStage":
		return c, path, object{"files": []object{{"path": "a.txt"}}, "staged": true}
	case "gitCommit":
		return c, path, object{"message": "x", "seen": "x"}
	case "gitRevert":
		return c, path, object{"path": "a.txt", "seen": "x"}
	case "streamTurn":
		return c, path, object{"sessionId": session, "message": "text"}
	case "harnessBoot", "harnessInterrupt":
		return c, path, object{"sessionId": session}
	}
	if op.method == http.MethodPost {
		body = object{}
	}
	return c, path, body
}

// aboutSession reports whether requests of the operation name a session.
func (op operation) aboutSession() bool {
	return strings.Contains(op.path, "/session/{id}") || slices.Contains([]string{"streamTurn", "harnessBoot", "harnessInterrupt"}, op.OperationID)
}

// ask sends the request of an operation about a session. edit changes the
// client first.
func (r *routes) ask(t *testing.T, op operation, session string, edit func(client) client) answer {
	t.Helper()
	c, path, body := r.request(op, session)
	return edit(c).do(t, op.method, path, body)
}

// refused checks that the response is the expected error and conforms to the
// document. It returns the error.
func (r *routes) refused(t *testing.T, op operation, a answer, status int, typ string) problem {
	t.Helper()
	p := a.fails(t, status, typ)
	conforms(t, r.d, op, a)
	return p
}

func same(c client) client { return c }

// rows adds the rows of an operation to tab.
func (r *routes) rows(tab *table, op operation) {
	success := fmt.Sprintf("%d, as described", op.status)
	tab.add(op.name(), "the request is good", success, func(t *testing.T) {
		succeed := successes[op.OperationID]
		if succeed == nil {
			t.Fatalf("%s has no check of its success; add it to successes", op.OperationID)
		}
		a := succeed(t, r)
		a.ok(t, op.status)
		conforms(t, r.d, op, a)
	})
	if op.scope != "" {
		tab.add(op.name(), "no credential", "401 UNAUTHORIZED", func(t *testing.T) {
			a := r.ask(t, op, r.ended, func(c client) client { return c.with("Authorization", "") })
			r.refused(t, op, a, http.StatusUnauthorized, "UNAUTHORIZED")
			equal(t, "WWW-Authenticate", a.header.Get("WWW-Authenticate"), `Bearer realm="runnel"`)
		})
		tab.add(op.name(), "the credential lacks the scope "+op.scope, "403 FORBIDDEN", func(t *testing.T) {
			r.refused(t, op, r.ask(t, op, r.ended, func(c client) client { return c.with("Authorization", "Bearer "+r.lacks[op.scope]) }), http.StatusForbidden, "FORBIDDEN")
		})
	}
	tab.add(op.name(), "the method is PUT", "405 INVALID_REQUEST, and Allow lists the methods", func(t *testing.T) {
		_, path, _ := r.request(op, r.ended)
		a := r.do(t, http.MethodPut, path, nil)
		r.refused(t, op, a, http.StatusMethodNotAllowed, "INVALID_REQUEST")
		equal(t, "Allow", a.header.Get("Allow"), strings.Join(r.methods(path), ", "))
	})
	tab.add(op.name(), "the Host is another site's", "403 FORBIDDEN_ORIGIN", func(t *testing.T) {
		r.refused(t, op, r.ask(t, op, r.ended, func(c client) client { return c.with("Host", "evil.example") }), http.StatusForbidden, "FORBIDDEN_ORIGIN")
	})
	tab.add(op.name(), "the Origin is another site's", "403 FORBIDDEN_ORIGIN", func(t *testing.T) {
		r.refused(t, op, r.ask(t, op, r.ended, func(c client) client { return c.with("Origin", "http://evil.example") }), http.StatusForbidden, "FORBIDDEN_ORIGIN")
	})
	if op.method == http.MethodGet {
		tab.add(op.name(), "the request has a body", "400 INVALID_REQUEST", func(t *testing.T) {
			c, path, _ := r.request(op, r.ended)
			r.refused(t, op, c.do(t, op.method, path, "{}"), http.StatusBadRequest, "INVALID_REQUEST")
		})
	}
	r.bodyRows(tab, op)
	if op.aboutSession() {
		tab.add(op.name(), "the session is unknown", "404 SESSION_NOT_FOUND with its sessionId", func(t *testing.T) {
			p := r.refused(t, op, r.ask(t, op, nobody, same), http.StatusNotFound, "SESSION_NOT_FOUND")
			equal(t, "details", p.Details, object{"sessionId": nobody})
		})
		if op.scope == "admin" {
			tab.add(op.name(), "the token is bound to a project", "403 FORBIDDEN, because it cannot have the scope admin", func(t *testing.T) {
				r.refused(t, op, r.ask(t, op, r.ended, func(c client) client { return c.with("Authorization", "Bearer "+r.bound) }), http.StatusForbidden, "FORBIDDEN")
			})
			return
		}
		tab.add(op.name(), "the token is bound to another project", "404 SESSION_NOT_FOUND, as for an unknown session", func(t *testing.T) {
			asBound := func(c client) client { return c.with("Authorization", "Bearer "+r.bound) }
			p := r.refused(t, op, r.ask(t, op, r.ended, asBound), http.StatusNotFound, "SESSION_NOT_FOUND")
			equal(t, "details", p.Details, object{"sessionId": r.ended})
			equal(t, "message", p.Message, r.ask(t, op, nobody, asBound).fails(t, http.StatusNotFound, "SESSION_NOT_FOUND").Message)
		})
	} else if op.scope != "" {
		b, ok := boundAnswers()[op.OperationID]
		tab.add(op.name(), "the token is bound to another project", b.says, func(t *testing.T) {
			if !ok {
				t.Fatalf("%s: nothing says what a bound token gets; add it to boundAnswers", op.OperationID)
			}
			b.check(t, r, op, r.as(r.bound))
		})
	}
}

var pathParameter = regexp.MustCompile(`\{\w+\}`)

// methods returns the methods of all routes in the document that match a path.
// A path whose last element is fixed, such as "list", also matches a route with
// an id there.
func (r *routes) methods(path string) []string {
	path, _, _ = strings.Cut(path, "?")
	var found []string
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
		if slices.ContainsFunc(r.list, func(op operation) bool {
			return op.method == method && regexp.MustCompile("^"+pathParameter.ReplaceAllString(op.path, "[^/]+")+"$").MatchString(path)
		}) {
			found = append(found, method)
		}
	}
	return found
}

// bodyRows adds the rows about the request body of an operation.
func (r *routes) bodyRows(tab *table, op operation) {
	if op.RequestBody == nil {
		return
	}
	schema := op.body(r.d)
	if schema == nil { // a file
		what, most := "the file", 10
		if op.OperationID == "importSession" {
			what, most = "a line of the file", 32
		}
		tab.add(op.name(), fmt.Sprintf("%s has more than %d MiB", what, most), "413 PAYLOAD_TOO_LARGE", func(t *testing.T) {
			c, path, _ := r.request(op, r.ended)
			r.refused(t, op, c.post(t, path, make([]byte, most<<20+1)), http.StatusRequestEntityTooLarge, "PAYLOAD_TOO_LARGE")
		})
		tab.add(op.name(), "the media type is application/json", "415 INVALID_REQUEST", func(t *testing.T) {
			c, path, _ := r.request(op, r.ended)
			r.refused(t, op, c.with("Content-Type", "application/json").post(t, path, "{}"), http.StatusUnsupportedMediaType, "INVALID_REQUEST")
		})
		return
	}
	send := func(t *testing.T, contentType, body string) answer {
		c, path, _ := r.request(op, r.ended)
		return c.with("Content-Type", contentType).post(t, path, body)
	}
	for _, bad := range []struct{ what, body string }{
		{"the body is no JSON", "{"}, {"the body is JSON but no object", "[]"}, {"the body has something after the object", "{} {}"},
	} {
		tab.add(op.name(), bad.what, "400 INVALID_REQUEST", func(t *testing.T) {
			r.refused(t, op, send(t, "application/json", bad.body), http.StatusBadRequest, "INVALID_REQUEST")
		})
	}
	tab.add(op.name(), "the media type is text/plain", "415 INVALID_REQUEST", func(t *testing.T) {
		r.refused(t, op, send(t, "text/plain", "{}"), http.StatusUnsupportedMediaType, "INVALID_REQUEST")
	})
	if schema.Additional == true {
		tab.add(op.name(), "the body has an unknown field", "200, and a warning names the field", func(t *testing.T) {
			a := send(t, "application/json", `{"model":"scripted","colour":"red"}`)
			equal(t, "warnings", a.ok(t, http.StatusOK)["warnings"], []string{`"colour": unknown, ignored`})
			conforms(t, r.d, op, a)
		})
	} else {
		tab.add(op.name(), "the body has an unknown field", "400 INVALID_REQUEST that names the field", func(t *testing.T) {
			p := r.refused(t, op, send(t, "application/json", `{"colour":"red"}`), http.StatusBadRequest, "INVALID_REQUEST")
			if !strings.Contains(p.Message, "colour") {
				t.Errorf("the message does not name the field: %s", p.Message)
			}
		})
	}
	for _, name := range fieldNames(schema)[:min(1, len(schema.Properties))] {
		tab.add(op.name(), "the body has the field "+name+" twice", "400 INVALID_REQUEST", func(t *testing.T) {
			r.refused(t, op, send(t, "application/json", fmt.Sprintf(`{%q:null,%q:null}`, name, name)), http.StatusBadRequest, "INVALID_REQUEST")
		})
		capitals := strings.ToUpper(name)
		tab.add(op.name(), "the body has "+capitals+" instead of "+name, "400 INVALID_REQUEST", func(t *testing.T) {
			r.refused(t, op, send(t, "application/json", fmt.Sprintf(`{%q:null}`, capitals)), http.StatusBadRequest, "INVALID_REQUEST")
		})
	}
	limit, size := 1<<20, "1 MiB"
	if op.scope == "" {
		limit, size = 4<<10, "4 KiB"
	}
	tab.add(op.name(), "the body has more than "+size, "413 PAYLOAD_TOO_LARGE", func(t *testing.T) {
		r.refused(t, op, send(t, "application/json", "{}"+strings.Repeat(" ", limit-1)), http.StatusRequestEntityTooLarge, "PAYLOAD_TOO_LARGE")
	})
	tab.add(op.name(), "the body has exactly "+size, "is read", func(t *testing.T) {
		const unknown = `{"model":"scripted","colour":1}`
		a := send(t, "application/json", unknown+strings.Repeat(" ", limit-len(unknown)))
		if !strings.Contains(string(a.body), "unknown") {
			t.Errorf("got %d %s, want the answer to an unknown field", a.status, a.body)
		}
	})
}

func fieldNames(s *testschema.Schema) []string {
	var names []string
	for name := range s.Properties {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// socketRows adds the rows of the WebSocket, which is not an operation of the
// document.
func (r *routes) socketRows(tab *table) {
	const name = "GET /api/ws"
	upgrade := func(c client) client {
		return c.with("Connection", "Upgrade").with("Upgrade", "websocket").with("Sec-WebSocket-Version", "13").with("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")
	}
	for _, row := range []struct {
		condition string
		status    int
		typ       string
		client    func() client
	}{
		{"no upgrade", http.StatusUpgradeRequired, "INVALID_REQUEST", func() client { return r.client }},
		{"no credential", http.StatusUnauthorized, "UNAUTHORIZED", func() client { return upgrade(r.as("")) }},
		{"the credential lacks the scope read", http.StatusForbidden, "FORBIDDEN", func() client { return upgrade(r.as(r.lacks["read"])) }},
		{"the Host is another site's", http.StatusForbidden, "FORBIDDEN_ORIGIN", func() client { return upgrade(r.with("Host", "evil.example")) }},
		{"the Origin is another site's", http.StatusForbidden, "FORBIDDEN_ORIGIN", func() client { return upgrade(r.with("Origin", "http://evil.example")) }},
	} {
		tab.add(name, row.condition, fmt.Sprint(row.status, " ", row.typ), func(t *testing.T) {
			row.client().get(t, "/api/ws").fails(t, row.status, row.typ)
		})
	}
	tab.add(name, "the request is good", "101, the connection is a WebSocket", func(t *testing.T) {
		res := upgrade(r.client).open(t, http.MethodGet, "/api/ws", nil)
		defer func() { _ = res.Body.Close() }()
		equal(t, "status", res.StatusCode, http.StatusSwitchingProtocols)
		equal(t, "Sec-WebSocket-Accept", res.Header.Get("Sec-WebSocket-Accept"), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")
	})
	tab.add(name, "the method is PUT", "405 INVALID_REQUEST, and Allow lists the methods", func(t *testing.T) {
		a := r.do(t, http.MethodPut, "/api/ws", nil)
		a.fails(t, http.StatusMethodNotAllowed, "INVALID_REQUEST")
		equal(t, "Allow", a.header.Get("Allow"), http.MethodGet)
	})
	tab.add("(any GET)", "the method is HEAD", "the status and headers of GET, and no body", func(t *testing.T) {
		head, get := r.do(t, http.MethodHead, "/api/me", nil), r.get(t, "/api/me")
		equal(t, "answer", []any{head.status, head.header.Get("Content-Type"), len(head.body)}, []any{get.status, get.header.Get("Content-Type"), 0})
	})
	tab.add("(any stream)", "the method is HEAD", "405", func(t *testing.T) {
		equal(t, "status", r.do(t, http.MethodHead, "/api/session/"+r.ended+"/events", nil).status, http.StatusMethodNotAllowed)
	})
	tab.add("(any POST)", "the media type is application/json; charset=UTF-8", "is read", func(t *testing.T) {
		r.with("Content-Type", "application/json; charset=UTF-8").post(t, "/api/harness/interrupt", object{"sessionId": r.ended}).ok(t, http.StatusOK)
	})
	tab.add("(any POST)", "the media type is application/json with another charset", "415 INVALID_REQUEST", func(t *testing.T) {
		r.with("Content-Type", "application/json; charset=utf-16").post(t, "/api/logout", "{}").fails(t, http.StatusUnsupportedMediaType, "INVALID_REQUEST")
	})
	tab.link("(any POST)", "JSON with keys twice at any depth, deep nesting, or invalid UTF-8", "400 INVALID_REQUEST", "httpapi.TestJSONStrict")
	tab.link("(any)", "the answer or the error is one that the document does not list", "no request of the fuzzers gets one", "test/hostile.TestServerWithstandsFuzzedRequests")
	tab.link("POST /api/uploads", "the credential has uploaded as much as it may in a day", "429 RATE_LIMITED", "httpapi.TestLimitsOfACredential")
	tab.link("GET /api/session/{id}/export", "the credential runs as many exports as it may", "429 RATE_LIMITED", "httpapi.TestLimitOfExports")
	tab.link("(any stream)", "the credential has as many streams as it may", "429 RATE_LIMITED", "httpapi.TestTooManyStreams")
	tab.add("(any)", "the path does not exist", "404 INVALID_REQUEST", func(t *testing.T) {
		r.get(t, "/api/nothing").fails(t, http.StatusNotFound, "INVALID_REQUEST")
	})
	tab.add("(any)", "the path does not exist, and no credential", "401 UNAUTHORIZED", func(t *testing.T) {
		r.as("").get(t, "/api/nothing").fails(t, http.StatusUnauthorized, "UNAUTHORIZED")
	})
	tab.add("(any)", "path and query have more than 8 KiB", "414 INVALID_REQUEST", func(t *testing.T) {
		r.get(t, "/api/me?"+strings.Repeat("a", 8<<10)).fails(t, http.StatusRequestURITooLong, "INVALID_REQUEST")
	})
	tab.add("(any)", "the headers have more than 32 KiB", "431 INVALID_REQUEST", func(t *testing.T) {
		r.with("X-Long", strings.Repeat("a", 32<<10)).get(t, "/api/me").fails(t, http.StatusRequestHeaderFieldsTooLarge, "INVALID_REQUEST")
	})
}
