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

	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/httpapi/browser"
	"github.com/runnel-dev/runnel/httpapi/reply"
	"github.com/runnel-dev/runnel/httpapi/stream"
)

// about are the handlers about the server itself.
type about struct {
	version  string
	metrics  *metrics
	list     []*route // of the API; set once all routes are known
	document []byte   // the OpenAPI document
}

func (a *about) routes() []route {
	return []route{
		{method: http.MethodGet, path: "/metrics", scope: auth.Read, name: "metrics", summary: "Metrics in Prometheus' format",
			status: http.StatusOK, stream: "text/plain", serve: a.metrics.serve},
		{method: http.MethodGet, path: "/openapi.json", bound: true, name: "openapi", summary: "Read this document",
			status: http.StatusOK, out: map[string]any{}, serve: a.serveDocument},
		{method: http.MethodGet, path: "/docs", scope: auth.Read, bound: true, name: "docs", summary: "Read the list of routes",
			status: http.StatusOK, serve: a.serveDocs},
	}
}

// describe makes the OpenAPI document from the list of routes.
func (a *about) describe(list []*route) error {
	a.list = list
	reg := huma.NewMapRegistry("#/components/schemas/", schemaName)
	doc := &huma.OpenAPI{
		OpenAPI: "3.1.0",
		Info: &huma.Info{Title: "Runnel", Version: a.version,
			Description: "One gateway in front of every coding agent. Every error is " +
				"{\"error\":{\"type\",\"message\",\"details?\"}}; its HTTP status follows from its type, see x-statuses of Problem.type."},
		Components: &huma.Components{Schemas: reg, SecuritySchemes: map[string]*huma.SecurityScheme{
			"token":  {Type: "http", Scheme: "bearer", Description: "made with `runnel token create`"},
			"cookie": {Type: "apiKey", In: "cookie", Name: browser.CookieName, Description: "of the page, after its login; with the key"},
			"key":    {Type: "apiKey", In: "header", Name: browser.KeyHeader, Description: "of the page, after its login; a WebSocket offers it as subprotocol \"" + browser.KeyProtocol + "KEY\""},
		}},
	}
	problem := reg.Schema(reflect.TypeFor[reply.ErrorBody](), true, "Error")
	for _, rt := range a.list {
		if rt.name != "" {
			doc.AddOperation(operation(reg, rt, problem))
		}
	}
	code := reg.Map()["Problem"].Properties["type"]
	code.Enum = codes()
	code.Extensions = map[string]any{"x-statuses": reply.Statuses()}
	d := describer{reg, stream.Describe()}
	d.bodies()
	d.streams(doc)
	var err error
	a.document, err = json.MarshalIndent(doc, "", " ")
	return err
}

func operation(reg huma.Registry, rt *route, problem *huma.Schema) *huma.Operation {
	op := &huma.Operation{
		OperationID: rt.name, Method: rt.method, Path: rt.path, Summary: rt.summary,
		Responses: map[string]*huma.Response{
			"default": {Description: "What went wrong", Content: map[string]*huma.MediaType{"application/json": {Schema: problem}}},
		},
	}
	for _, m := range regexp.MustCompile(`\{(\w+)\}`).FindAllStringSubmatch(rt.path, -1) {
		op.Parameters = append(op.Parameters, &huma.Param{Name: m[1], In: "path", Required: true, Schema: &huma.Schema{Type: "string"}})
	}
	for _, p := range rt.params {
		in, typ := "query", "string"
		if p.name[0] >= 'A' && p.name[0] <= 'Z' {
			in = "header"
		}
		if p.number {
			typ = "integer"
		}
		op.Parameters = append(op.Parameters, &huma.Param{Name: p.name, In: in, Description: p.doc, Schema: &huma.Schema{Type: typ}})
	}
	if rt.scope == "" {
		op.Security = []map[string][]string{{}}
	} else {
		op.Security = []map[string][]string{{"token": {}}, {"cookie": {}, "key": {}}}
		op.Description = "Needs the scope " + string(rt.scope) + "."
	}
	if rt.in != nil {
		content := body(reg, rt.in, rt.name+"Request")
		op.RequestBody = &huma.RequestBody{Required: needed(reg, content), Content: content}
	}
	if rt.upload {
		op.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{
			"application/octet-stream": {Schema: &huma.Schema{Type: "string", Format: "binary"}}}}
	}
	ok := &huma.Response{Description: http.StatusText(rt.status)}
	switch {
	case rt.status == http.StatusSwitchingProtocols:
	case rt.stream != "":
		ok.Content = map[string]*huma.MediaType{rt.stream: {Schema: &huma.Schema{Type: "string"}}}
	case rt.out != nil:
		ok.Content = body(reg, rt.out, rt.name+"Answer")
	}
	op.Responses[strconv.Itoa(rt.status)] = ok
	return op
}

func body(reg huma.Registry, v any, hint string) map[string]*huma.MediaType {
	return map[string]*huma.MediaType{"application/json": {Schema: reg.Schema(reflect.TypeOf(v), true, hint)}}
}

// needed reports whether a body has fields that cannot be left out. No body is an
// empty object.
func needed(reg huma.Registry, content map[string]*huma.MediaType) bool {
	for _, m := range content {
		if s := reg.SchemaFromRef(m.Schema.Ref); s != nil && len(s.Required) > 0 {
			return true
		}
	}
	return false
}

func schemaName(t reflect.Type, hint string) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	name := huma.DefaultSchemaNamer(t, hint)
	switch pkg := t.PkgPath(); {
	case strings.HasSuffix(pkg, "/upsert") && (name == "Approval" || name == "Notice" || name == "Usage"):
		return "Upsert" + name // types of package event have the plain names
	case strings.HasSuffix(pkg, "/event") && name == "Attachment":
		return "SentAttachment"
	case name == "Message" && strings.HasSuffix(pkg, "/stream"):
		return "SocketMessage"
	case name == "EventDocument":
		return "Event"
	case name == "Ref":
		return "Attachment"
	}
	return name
}

func codes() []any {
	var out []any
	for _, c := range reply.Codes() {
		out = append(out, c)
	}
	return out
}

func (a *about) serveDocument(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "application/json")
	_, err := w.Write(a.document)
	return err
}

// docs is static: it needs no script and nothing from elsewhere.
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
	_, err := w.Write(page.Bytes())
	return err
}
