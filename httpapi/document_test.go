package httpapi

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/coder/websocket"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/httpapi/stream"
	"github.com/runnel-dev/runnel/internal/testschema"
	"github.com/runnel-dev/runnel/provider/script"
)

type (
	schema   = testschema.Schema
	document = testschema.Document
)

// parsed is the document that every server of this version serves, as
// TestDocumentIsCommitted checks. Tests must not change it.
var parsed = sync.OnceValues(func() (document, error) {
	data, err := Document()
	if err != nil {
		return document{}, err
	}
	return testschema.Parse(data)
})

func theDocument(t *testing.T) document {
	t.Helper()
	d, err := parsed()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// Every route except the page's is described, and every described route exists.
func TestDocumentHasTheRoutesOfTheRouter(t *testing.T) {
	rg := newRig(t)
	d := theDocument(t)
	described := map[string]bool{}
	for path, methods := range d.Paths {
		for method := range methods {
			described[strings.ToUpper(method)+" "+path] = true
		}
	}
	described["GET "+d.WebSocket.Path] = true
	for _, rt := range rg.router.list {
		isPage := !strings.HasPrefix(rt.path, "/api/") && rt.path != "/metrics" && rt.path != "/openapi.json" && rt.path != "/docs"
		if !isPage && !described[rt.pattern()] {
			t.Errorf("%s is not described", rt.pattern())
		}
		delete(described, rt.pattern())
	}
	for pattern := range described {
		t.Errorf("%s does not exist", pattern)
	}
}

// The running server accepts exactly the described fields of each request.
func TestDocumentHasTheFieldsThatRequestsTake(t *testing.T) {
	timed(t, minute)
	rg := newRig(t)
	d := theDocument(t)
	id := rg.create()
	checked := 0
	for path, methods := range d.Paths {
		for method, op := range methods {
			if op.RequestBody == nil || op.RequestBody.Content["application/json"].Schema == nil {
				continue
			}
			s := d.Resolve(op.RequestBody.Content["application/json"].Schema)
			target := strings.NewReplacer("{id}", id, "{approvalId}", "a").Replace(path)
			ask := func(field string, value any) string {
				body, _ := json.Marshal(map[string]any{field: value})
				return rg.do(strings.ToUpper(method), target, string(body)).Body.String()
			}
			if s.Additional != true && !strings.Contains(ask("banana", 1), "unknown field") {
				t.Errorf("%s %s takes a field that is not described", method, path)
			}
			for name := range s.Properties {
				checked++
				// Send a value of the wrong type: a number for an object, and
				// an object for anything else. The error for a known field is
				// then about the value.
				wrong := any(map[string]any{"x": 1})
				if p := d.Resolve(s.Properties[name]); p.Type == "object" {
					wrong = 1
				}
				if got := ask(name, wrong); strings.Contains(got, "unknown field") || strings.Contains(got, "unknown, ignored") {
					t.Errorf("%s %s: %s is described and not known: %s", method, path, name, got)
				}
			}
			if op.RequestBody.Required != (len(s.Required) > 0) {
				t.Errorf("%s %s: required %v, with %v", method, path, op.RequestBody.Required, s.Required)
			}
			if !op.RequestBody.Required {
				continue
			}
			if w := rg.do(strings.ToUpper(method), target, ""); w.Code < 400 {
				t.Errorf("%s %s: no body is %d", method, path, w.Code)
			}
		}
	}
	if checked < 25 {
		t.Errorf("only %d fields", checked)
	}
	// Each option is accepted where it is described. Options that are not
	// described are ignored.
	for _, where := range []struct{ schema, target, body string }{
		{"Options", "/api/session/create", `{"cliType":"script","projectDir":"` + rg.dir + `","options":{%q:{"x":{}}}}`},
		{"Options", "/api/harness/session/create", `{"projectRoot":"` + rg.dir + `","opts":{%q:{"x":{}}}}`},
		{"Settings", "/api/session/" + id + "/options", `{"model":"m",%q:{"x":{}}}`},
	} {
		s := d.Components.Schemas[where.schema]
		if s == nil || len(s.Properties) < 4 || s.Additional != true {
			t.Fatalf("%s: got %+v", where.schema, s)
		}
		for name := range s.Properties {
			body := fmt.Sprintf(where.body, name)
			if name == "subagentGovernance" { // any object is valid
				body = strings.Replace(body, `{"x":{}}`, "5", 1)
			}
			if got := rg.do("POST", where.target, body).Body.String(); name != "model" && (strings.Contains(got, "ignored") || !strings.Contains(got, name)) {
				t.Errorf("%s: %s is described and not known: %s", where.target, name, got)
			}
		}
		if got := rg.do("POST", where.target, fmt.Sprintf(where.body, "banana")).Body.String(); !strings.Contains(got, "unknown, ignored") {
			t.Errorf("%s: got %s", where.target, got)
		}
	}
	for _, hidden := range []string{"mode"} {
		for name, s := range d.Components.Schemas {
			if s.Properties[hidden] != nil && name != "Egress" {
				t.Errorf("%s has %s, which is not there yet", name, hidden)
			}
		}
	}
}

// answers checks an answer of the running server against the document.
func (rg *rig) answers(d document, method, path, target, body string) map[string]any {
	rg.t.Helper()
	w := rg.do(method, target, body)
	op := d.Paths[path][strings.ToLower(method)]
	res, ok := op.Responses[fmt.Sprint(w.Code)]
	if !ok {
		rg.t.Errorf("%s %s answers %d %s, which is not described", method, path, w.Code, w.Body)
		return nil
	}
	for query := range strings.SplitSeq(strings.TrimPrefix(target, strings.SplitN(target, "?", 2)[0]), "&") {
		name, _, _ := strings.Cut(strings.TrimPrefix(query, "?"), "=")
		if name != "" && !slices.ContainsFunc(op.Parameters, func(p testschema.Parameter) bool { return p.Name == name && p.In == "query" }) {
			rg.t.Errorf("%s %s: the parameter %s is not described", method, path, name)
		}
	}
	var v any
	if s := res.Content["application/json"].Schema; s != nil {
		if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil {
			rg.t.Errorf("%s %s: %v", method, path, err)
		} else if why := d.Check(s, v, method+" "+path); why != "" {
			rg.t.Errorf("%s in %s", why, w.Body)
		}
	}
	m, _ := v.(map[string]any)
	return m
}

// Answers have only described fields.
func TestAnswersAreAsDescribed(t *testing.T) {
	timed(t, minute)
	rg := newRig(t)
	d := theDocument(t)
	dir := url.QueryEscape(rg.dir)
	id := rg.answers(d, "POST", "/api/session/create", "/api/session/create", `{"cliType":"script","projectDir":"`+rg.dir+`","options":{"later":1}}`)["sessionId"].(string)
	for _, prompt := range []string{"tools", `{"steps":[{"plan":[{"content":"do","status":"pending"}]},{"text":"a"},{"fail":{"code":"RATE_LIMITED","message":"m","details":{"a":1}}}]}`} {
		turn := rg.answers(d, "POST", "/api/session/{id}/send", "/api/session/"+id+"/send", fmt.Sprintf(`{"content":%q}`, prompt))["turnId"].(string)
		rg.events(id, turn)
	}
	of := func(path string) string { return strings.Replace(path, "{id}", id, 1) }
	for _, path := range []string{
		"/api/session/{id}/status", "/api/session/{id}/items", "/api/harness/session/{id}", "/api/agents", "/api/projects", "/api/overview", "/api/me", "/api/health", "/api/tokens",
	} {
		rg.answers(d, "GET", path, of(path), "")
	}
	rg.answers(d, "GET", "/api/session/{id}/items", of("/api/session/{id}/items?after=3&limit=5"), "")
	rg.answers(d, "GET", "/api/session/list", "/api/session/list?projectDir="+dir+"&all=1", "")
	rg.answers(d, "GET", "/api/harness/session/list", "/api/harness/session/list?projectRoot="+dir, "")
	rg.answers(d, "GET", "/api/agents", "/api/agents?refresh=1", "")
	rg.answers(d, "POST", "/api/session/{id}/options", of("/api/session/{id}/options"), `{"model":"m","config":{"pace":"fast"},"later":1}`)
	rg.answers(d, "POST", "/api/session/{id}/load", of("/api/session/{id}/load"), "")
	rg.answers(d, "POST", "/api/harness/session/boot", "/api/harness/session/boot", `{"sessionId":"`+id+`","force":true}`)
	rg.answers(d, "POST", "/api/harness/interrupt", "/api/harness/interrupt", `{"sessionId":"`+id+`"}`)
	rg.answers(d, "POST", "/api/session/{id}/cancel", of("/api/session/{id}/cancel"), "")
	made := rg.answers(d, "POST", "/api/harness/session/create", "/api/harness/session/create", `{"projectRoot":"`+rg.dir+`"}`)
	other := made["session"].(map[string]any)["sessionId"].(string)
	rg.answers(d, "DELETE", "/api/harness/session/{id}", "/api/harness/session/"+other, "")
	token := rg.answers(d, "POST", "/api/tokens", "/api/tokens", `{"name":"t","scopes":["read"]}`)
	rg.answers(d, "GET", "/api/tokens", "/api/tokens", "")
	rg.answers(d, "POST", "/api/tokens/{id}/rename", fmt.Sprintf("/api/tokens/%v/rename", token["id"]), `{"name":"u"}`)
	rg.answers(d, "POST", "/api/tokens/{id}/revoke", fmt.Sprintf("/api/tokens/%v/revoke", token["id"]), "")
	rg.answers(d, "POST", "/api/session/{id}/kill", of("/api/session/{id}/kill"), "")
	upload := rg.do("POST", "/api/uploads?name=a.txt", "text", header("Content-Type", "application/octet-stream"))
	var v any
	if err := json.Unmarshal(upload.Body.Bytes(), &v); err != nil || upload.Code != http.StatusCreated {
		t.Fatalf("%d %s", upload.Code, upload.Body)
	}
	if why := d.Check(d.Paths["/api/uploads"]["post"].Responses["201"].Content["application/json"].Schema, v, "upload"); why != "" {
		t.Error(why)
	}
	// Every error has the same body.
	refused := rg.do("GET", "/api/session/list", "")
	_ = json.Unmarshal(refused.Body.Bytes(), &v)
	if why := d.Check(d.Paths["/api/session/list"]["get"].Responses["default"].Content["application/json"].Schema, v, "error"); why != "" {
		t.Error(why)
	}
}

// The frames of streams and the messages of the WebSocket are as described.
func TestStreamsAreAsDescribed(t *testing.T) {
	timed(t, minute)
	s := serve(t, func(_ *Config, c *gateway.Config) {
		c.Conversations, c.Providers = true, append(c.Providers, &storingMore{Provider: script.New()})
	})
	d := theDocument(t)
	id := s.create()
	s.do("POST", "/api/session/"+id+"/options", `{"config":{"pace":"fast"}}`)
	turn := d.Paths["/api/harness/turn"]["post"].Responses["200"].Content["text/event-stream"].Schema
	seen := map[string]bool{}
	check := func(union *schema, name string, v any) {
		t.Helper()
		seen[name] = true
		if why := d.Check(union, v, name); why != "" {
			t.Errorf("%s in %v", why, v)
		}
	}
	frame := func(union *schema, f sseFrame) {
		t.Helper()
		var data any
		if err := json.Unmarshal(f.data, &data); err != nil {
			t.Fatal(err)
		}
		v := map[string]any{"event": f.name, "data": data}
		if f.id > 0 {
			v["id"] = fmt.Sprint(f.id)
		}
		check(union, f.name, v)
	}
	prompts := []string{
		"tools", `{"steps":[{"plan":[{"content":"do","status":"pending"}]}]}`, "fail", `{"steps":[{"reasoning":"hm"},{"notice":{"level":"info","code":"X","message":"m"}},{"text":"a"},` +
			`{"tool":{"name":"Bash","arguments":{"command":"ls"},"pieces":["a","b"],"exitCode":1}},{"usage":{"usage":{"inputTokens":1,"outputTokens":1},"costUsd":0.1}}]}`,
	}
	for _, p := range prompts {
		for _, f := range s.turn(id, p, "") {
			frame(turn, f)
		}
	}
	s.prompt(id, "approve")
	asked := s.until(id, is[event.ApprovalRequested]).Body.(event.ApprovalRequested).Approval
	s.do("POST", "/api/session/"+id+"/approvals/"+asked.ID, `{"choice":"deny"}`)
	st, err := s.gw.Status(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	body := bufio.NewReader(s.get("/api/session/" + id + "/events").Body)
	events := d.Paths["/api/session/{id}/events"]["get"].Responses["200"].Content["text/event-stream"].Schema
	for at := int64(0); at < st.LastSeq; {
		f, err := readFrame(body)
		if err != nil {
			t.Fatal(err)
		}
		frame(events, f)
		at = f.id
	}
	for name := range d.Members(turn) {
		if !seen[name] && name != "stream:end" && name != "permission:request" && name != "permission:resolved" {
			t.Errorf("%s was not seen", name)
		}
	}

	client := d.Members(d.WebSocket.Client)
	for verb := range stream.Verbs() {
		if client[verb] == nil {
			t.Errorf("%s is not described", verb)
		}
	}
	for _, family := range []string{stream.FamilyUpsert, stream.FamilyEvents} {
		p := s.join(family)
		var said sync.WaitGroup
		live := make(chan struct{})
		said.Go(func() { // while the test reads, because the connection has no buffer
			for _, m := range []string{
				`{"type":"session:subscribe","requestId":"1","sessionId":"` + id + `"}`, `{"type":"sessions:subscribe","requestId":"2"}`,
				`{"type":"conversations:subscribe","requestId":"5"}`, `{"type":"session:cancel","requestId":"3","sessionId":"nobody"}`,
				`{"type":"session:send","requestId":"4","sessionId":"` + id + `","content":"text","queue":true}`,
			} {
				if strings.Contains(m, "session:send") {
					<-live // a turn that is in the history already is not sent live
				}
				if err := p.conn.Write(t.Context(), websocket.MessageText, []byte(m)); err != nil {
					t.Error(err)
				}
			}
		})
		ends := map[string]bool{} // other turns end on this stream, too
		changed := false          // of the list of conversations
		for sent := ""; sent == "" || !ends[sent] || !changed; {
			_, data, err := p.conn.Read(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var m struct {
				Type, RequestID string
				Payload         struct{ Type, TurnID string }
				Result          struct{ TurnID string }
				Done            bool // of a history message
			}
			_ = json.Unmarshal(data, &m)
			var v any
			_ = json.Unmarshal(data, &v)
			check(d.WebSocket.Server, m.Type, v)
			switch {
			case m.Done:
				close(live)
			case m.Type == "conversations:changed":
				changed = true
			case m.RequestID == "5":
				s.do("GET", "/api/conversations", "") // looks for changes
			case m.RequestID == "4":
				if sent = m.Result.TurnID; sent == "" {
					t.Fatalf("the prompt was not accepted: %s", data)
				}
			case m.Payload.Type == "turn_complete" || m.Payload.Type == "response_done":
				ends[m.Payload.TurnID] = true
			}
		}
		said.Wait()
		_ = p.conn.CloseNow()
	}
	for _, name := range slices.Sorted(maps.Keys(d.Members(d.WebSocket.Server))) {
		if !seen[name] && name != "session:end" && name != "session:usage" && name != "session:hello:ack" && name != "session:notice" && name != "session:append" && name != "session:approval" {
			t.Errorf("%s was not seen", name)
		}
	}
	// The server accepts exactly the described fields of each client message.
	p := s.join(stream.FamilyUpsert)
	for _, verb := range slices.Sorted(maps.Keys(stream.Verbs())) {
		for name := range client[verb].Properties {
			if name == "type" || name == "requestId" {
				continue
			}
			p.send(`{"type":%q,"requestId":"r",%q:{"x":1}}`, verb, name)
			if f := p.await("error", "response"); f.Type == "error" && strings.Contains(f.Error.Message, "unknown") && !strings.HasPrefix(f.Error.Message, name+".") && !strings.HasPrefix(f.Error.Message, name+": ") { // else the field in it is unknown
				t.Errorf("%s: %s is described and not known: %s", verb, name, f.Error.Message)
			}
		}
	}
}

// The routes that the README names exist.
func TestReadmeNamesRoutesThatExist(t *testing.T) {
	d := theDocument(t)
	text, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n### The API\n")
	section, _, _ = strings.Cut(section, "\n## ")
	named := 0
	for _, m := range regexp.MustCompile("`(GET |POST |DELETE )?(/[a-z.]+[^`?]*|…/[^`?]*)[^`]*`").FindAllStringSubmatch(section, -1) {
		path := strings.TrimSpace(m[2])
		if rest, ok := strings.CutPrefix(path, "…"); ok {
			path = "/api/session/{id}" + strings.TrimPrefix(rest, "/{id}")
		}
		named++
		methods := d.Paths[path]
		if path == d.WebSocket.Path {
			continue
		}
		if len(methods) == 0 || m[1] != "" && methods[strings.ToLower(strings.TrimSpace(m[1]))] == nil {
			t.Errorf("%s%s does not exist", m[1], path)
		}
	}
	if named < 14 {
		t.Errorf("only %d routes were found in the README", named)
	}
}
