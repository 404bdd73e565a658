package httpapi

import (
	"bytes"
	"encoding/json"
	"html/template"
	"net/http"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/httpapi/browser"
	"github.com/runnel-dev/runnel/httpapi/command"
	"github.com/runnel-dev/runnel/httpapi/reply"
	"github.com/runnel-dev/runnel/httpapi/stream"
)

// about holds the handlers about the server itself.
type about struct {
	metrics  *metrics
	list     []*route               // all routes; set once they are known
	document func() ([]byte, error) // the OpenAPI document, made by the first call
}

func (a *about) routes() []route {
	return []route{
		{method: http.MethodGet, path: "/metrics", scope: auth.Read, name: "metrics", summary: "Get metrics in the Prometheus format",
			status: http.StatusOK, media: []string{"text/plain"}, stream: true, serve: a.metrics.serve},
		{method: http.MethodGet, path: "/openapi.json", bound: true, unread: true, name: "openapi", summary: "Get this document",
			status: http.StatusOK, out: map[string]any{}, serve: a.serveDocument},
		{method: http.MethodGet, path: "/docs", scope: auth.Read, bound: true, name: "docs", summary: "Get the list of routes as a page",
			status: http.StatusOK, media: []string{"text/html"}, serve: a.serveDocs},
	}
}

// APIVersion is the version of the API in its OpenAPI document. It changes with
// every incompatible change of the API. GET /api/health returns the version of
// the program.
const APIVersion = "1.0.0"

const aboutAPI = `One API for every coding agent: start sessions, send prompts, follow the agents' work and answer their approvals.

The server rejects a request with a field that is not described here, except in options and opts. Later versions may add fields to responses, members to unions and values
to enumerations. Clients must ignore what they do not know.

Every error response has the body Error. The type of the error determines its HTTP status; x-statuses of ErrorType lists the statuses.

The schema of a stream of server-sent events describes one frame, as a parser of such streams returns it: event is the name, id is the position to resume after,
and data is the parsed JSON of the data line.

The WebSocket at /api/ws is not listed as an operation. x-websocket describes how to open it, and the messages in both directions.`

// Document returns the OpenAPI document. It is the same for every server of
// this version of the program.
func Document() ([]byte, error) {
	return describe(documented())
}

// documented returns the routes of the document. Their handlers must not be
// called.
func documented() []route {
	sessions, streams := new(sessions), new(stream.Streams)
	return apiRoutes(sessions, new(profiles), new(rulebook), new(fileRoutes), streams, &harness{sessions: sessions, streams: streams}, new(account), auditor{}, new(about))
}

// describe makes the OpenAPI document from a list of routes. It fails if types
// of the routes contradict each other, for instance if two have the same name.
func describe(list []route) ([]byte, error) {
	reg := newSchemas()
	doc := &huma.OpenAPI{
		OpenAPI: "3.1.0",
		Info: &huma.Info{Title: "Runnel", Version: APIVersion, Description: aboutAPI,
			License: &huma.License{Name: "Apache License 2.0", Identifier: "Apache-2.0"}},
		Servers: []*huma.Server{
			{URL: "http://127.0.0.1:7317", Description: "A server with the default settings."},
			{URL: "/", Description: "The server that returned this document."},
		},
		Tags: tags(),
		Components: &huma.Components{Schemas: reg, SecuritySchemes: map[string]*huma.SecurityScheme{
			"token":  {Type: "http", Scheme: "bearer", Description: "A token from POST /api/tokens or `runnel token create`."},
			"cookie": {Type: "apiKey", In: "cookie", Name: browser.CookieName, Description: "The cookie of a browser that has logged in. It is valid only together with the key."},
			"key":    {Type: "apiKey", In: "header", Name: browser.KeyHeader, Description: "The key that POST /api/login returned. A WebSocket sends it as the subprotocol \"" + browser.KeyProtocol + "KEY\"."},
		}},
	}
	problem := reg.Schema(reflect.TypeFor[reply.ErrorBody](), true, "")
	reg.Schema(reflect.TypeFor[runnel.Code](), false, "").Extensions = map[string]any{"x-statuses": reply.Statuses()}
	for _, rt := range list {
		if rt.status != http.StatusSwitchingProtocols {
			doc.AddOperation(operation(reg, &rt, problem))
		}
	}
	d := describer{reg, stream.Describe()}
	d.bodies()
	d.streams(doc)
	d.known()
	reg.finish(d.requests(doc), d.answers(doc))
	if reg.err != nil {
		return nil, reg.err
	}
	data, err := json.MarshalIndent(doc, "", " ")
	return append(data, '\n'), err
}

// tags returns the groups of operations.
func tags() []*huma.Tag {
	return []*huma.Tag{
		{Name: tagSessions, Description: "Start sessions, send prompts and answer approvals."},
		{Name: tagChanges, Description: "Review what agents changed, commit it or revert it."},
		{Name: tagStreams, Description: "Follow and read the events of a session."},
		{Name: tagProfiles, Description: "Read the profiles, which are named sets of options for sessions."},
		{Name: tagRules, Description: "Manage the stored rules that answer approvals."},
		{Name: tagFiles, Description: "Find and read the files of a project, and choose its directory."},
		{Name: tagHarness, Description: "A second API to the same sessions, in which the response to a prompt is the stream of its turn."},
		{Name: tagAccount, Description: "Log in and manage credentials."},
		{Name: tagServer, Description: "Get metrics and descriptions of the server."},
	}
}

// The names of the tags.
const (
	tagSessions = "sessions"
	tagChanges  = "changes"
	tagStreams  = "streams"
	tagProfiles = "profiles"
	tagRules    = "rules"
	tagFiles    = "files"
	tagHarness  = "harness"
	tagAccount  = "credentials"
	tagServer   = "server"
)

func operation(reg huma.Registry, rt *route, problem *huma.Schema) *huma.Operation {
	op := &huma.Operation{
		OperationID: rt.name, Method: rt.method, Path: rt.path, Summary: rt.summary, Tags: []string{rt.tag},
		Parameters: parameters(rt), Responses: failures(rt, problem),
	}
	if rt.scope == "" {
		op.Security = []map[string][]string{{}}
		op.Description = "Requires no credential."
	} else {
		op.Security = []map[string][]string{{"token": {}}, {"cookie": {}, "key": {}}}
		op.Description = "Requires the scope " + string(rt.scope) + "."
	}
	if rt.about != "" {
		op.Description += " " + rt.about
	}
	if rt.in != nil {
		content := body(reg, rt.in, rt.name+"Request")
		op.RequestBody = &huma.RequestBody{Required: needed(reg, content), Content: content}
	}
	if rt.upload {
		op.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{
			"application/octet-stream": {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}}}
	}
	ok := &huma.Response{Description: http.StatusText(rt.status)}
	if rt.repeats() {
		ok.Headers = map[string]*huma.Param{command.ReplayedHeader: {
			Description: "true: the response is the stored one of an earlier request with the same key. Absent: it is new.", Schema: &huma.Schema{Type: huma.TypeBoolean},
		}}
	}
	switch rt.out.(type) {
	case nil:
	case reply.Empty: // a request of this type takes no fields, but an answer may have further ones
		ok.Content = body(reg, done{}, "")
	default:
		ok.Content = body(reg, rt.out, rt.name+"Answer")
	}
	for _, typ := range rt.media {
		if ok.Content == nil {
			ok.Content = make(map[string]*huma.MediaType)
		}
		ok.Content[typ] = &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString}}
	}
	op.Responses[strconv.Itoa(rt.status)] = ok
	return op
}

// done is the answer of a command that returns nothing.
type done struct{}

func parameters(rt *route) (out []*huma.Param) {
	for _, m := range regexp.MustCompile(`\{(\w+)\}`).FindAllStringSubmatch(rt.path, -1) {
		out = append(out, &huma.Param{Name: m[1], In: "path", Required: true, Description: pathDoc(rt, m[1]), Schema: &huma.Schema{Type: huma.TypeString}})
	}
	for _, p := range rt.params {
		in, schema := "query", &huma.Schema{Type: huma.TypeString}
		if p.name[0] >= 'A' && p.name[0] <= 'Z' {
			in = "header"
		}
		switch {
		case p.number:
			schema = &huma.Schema{Type: huma.TypeInteger, Format: "int64", Minimum: new(float64)}
		case p.flag:
			schema.Type = huma.TypeBoolean
		}
		for _, v := range p.values {
			schema.Enum = append(schema.Enum, v)
		}
		out = append(out, &huma.Param{Name: p.name, In: in, Required: p.required, Description: p.doc, Schema: schema})
	}
	return out
}

// pathDoc describes the path parameter name of a route.
func pathDoc(rt *route, name string) string {
	switch {
	case name == "picture":
		return "Id of the picture."
	case name == "approvalId":
		return "Id of the approval."
	case name == "name":
		return "Name of the profile."
	case rt.tag == tagAccount:
		return "Id of the credential."
	case rt.tag == tagRules:
		return "Id of the rule."
	}
	return "The sessionId; for a conversation of an agent that is not a session yet, cliType:agentSessionId."
}

// failures describes the error answers of a route, by status.
func failures(rt *route, problem *huma.Schema) map[string]*huma.Response {
	by := make(map[int][]string)
	for _, code := range rt.codes() {
		status := reply.StatusOf(code)
		by[status] = append(by[status], string(code))
	}
	for _, status := range rt.refusals() {
		by[status] = append(by[status], string(runnel.InvalidRequest))
	}
	out := map[string]*huma.Response{"default": {Description: "Any other error.", Content: map[string]*huma.MediaType{"application/json": {Schema: problem}}}}
	for status, codes := range by {
		out[strconv.Itoa(status)] = &huma.Response{
			Description: http.StatusText(status) + ": " + strings.Join(codes, ", "),
			Content:     map[string]*huma.MediaType{"application/json": {Schema: problem}},
		}
	}
	if limited := out[strconv.Itoa(http.StatusTooManyRequests)]; limited != nil {
		limited.Headers = map[string]*huma.Param{
			"Retry-After": {Description: "Seconds to wait before the next request.", Schema: &huma.Schema{Type: huma.TypeInteger}},
		}
	}
	return out
}

func body(reg huma.Registry, v any, hint string) map[string]*huma.MediaType {
	return map[string]*huma.MediaType{"application/json": {Schema: reg.Schema(reflect.TypeOf(v), true, hint)}}
}

// needed reports whether a body has required fields. A missing body counts as
// an empty object.
func needed(reg huma.Registry, content map[string]*huma.MediaType) bool {
	for _, m := range content {
		if s := reg.SchemaFromRef(m.Schema.Ref); s != nil && len(s.Required) > 0 {
			return true
		}
	}
	return false
}

func (a *about) serveDocument(w http.ResponseWriter, _ *http.Request) error {
	data, err := a.document()
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(data) // an error means that the client has disconnected
	return nil
}

// docs returns the template of the page /docs. That page needs no script and
// nothing from other origins.
func docs() *template.Template {
	return template.Must(template.New("docs").Parse(`<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>Runnel API</title><meta name="viewport" content="width=device-width"></head>
<body>
<h1>Runnel API</h1>
<p>The whole of it, with the shapes of all bodies, is <a href="/openapi.json">/openapi.json</a>.</p>
<table>
<thead><tr><th>Route</th><th>What it does</th><th>Scope</th></tr></thead>
<tbody>
{{range .}}<tr><td><code>{{.Route}}</code></td><td>{{.Summary}}</td><td>{{.Scope}}</td></tr>
{{end}}</tbody>
</table>
</body>
</html>
`))
}

func (a *about) serveDocs(w http.ResponseWriter, _ *http.Request) error {
	type row struct {
		Route, Summary string
		Scope          auth.Scope
	}
	var rows []row
	for _, rt := range a.list {
		if rt.name != "" {
			rows = append(rows, row{rt.pattern(), rt.summary, rt.scope})
		}
	}
	var page bytes.Buffer
	if err := docs().Execute(&page, rows); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(page.Bytes()) // an error means that the client has disconnected
	return nil
}
