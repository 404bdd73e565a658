package httpapi

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"mime"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/httpapi/reply"
	"github.com/runnel-dev/runnel/httpapi/stream"
)

// undescribed returns why the document does not describe an answer of the
// route, or "" if it does. Errors of the transport belong to no operation.
func undescribed(rt *route, w *httptest.ResponseRecorder) string {
	if w.Code == rt.status && rt.name != "" && w.Body.Len() > 0 {
		typ, _, _ := mime.ParseMediaType(w.Header().Get("Content-Type"))
		if rt.out != nil && typ == "application/json" || slices.Contains(rt.media, typ) {
			return ""
		}
		return fmt.Sprintf("the document does not list the media type %q for %s", typ, rt.pattern())
	}
	transport := []int{
		http.StatusMethodNotAllowed, http.StatusRequestURITooLong, http.StatusUpgradeRequired,
		http.StatusRequestHeaderFieldsTooLarge, http.StatusNotImplemented, http.StatusHTTPVersionNotSupported,
	}
	if w.Code < 400 || rt.name == "" || slices.Contains(transport, w.Code) || w.Body.Len() == 0 {
		return ""
	}
	typ := runnel.Code(code(w))
	if slices.Contains(rt.codes(), typ) && reply.StatusOf(typ) == w.Code || typ == runnel.InvalidRequest && slices.Contains(rt.refusals(), w.Code) {
		return ""
	}
	return fmt.Sprintf("the document does not list %d %s for %s: %s", w.Code, typ, rt.pattern(), w.Body)
}

const committed = "../docs/openapi.json"

// The committed document is the one that a server returns.
func TestDocumentIsCommitted(t *testing.T) {
	made, err := Document()
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(committed, made, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if data, err := os.ReadFile(committed); err != nil || string(data) != string(made) {
		t.Errorf("%s is not the document of these routes: run make generate (%v)", committed, err)
	}
	rg := newRig(t)
	if got := rg.do("GET", "/openapi.json", "").Body.String(); got != string(made) {
		t.Error("GET /openapi.json is not the document that runnel openapi prints")
	}
}

// The document avoids what generators of clients cannot handle.
func TestDocumentSuitsGenerators(t *testing.T) {
	d := theDocument(t)
	for name, s := range d.Components.Schemas {
		walk(s, name, func(s *schema, path string) {
			if several, ok := s.Type.([]any); ok {
				t.Errorf("%s: several types: %v", path, several)
			}
			if s.Type == "array" && s.Items == nil {
				t.Errorf("%s: a list of anything", path)
			}
			if len(s.OneOf) > 1 && s.Discriminator == nil && path != "HistoryEntry" && !strings.HasSuffix(path, ".attachments") {
				t.Errorf("%s: one of several, and no property says which", path)
			}
		})
		if s.Discriminator == nil {
			continue
		}
		for value, target := range s.Discriminator.Mapping {
			p := d.Resolve(&schema{Ref: target}).Properties[s.Discriminator.PropertyName]
			if p == nil || !slices.Contains(p.Enum, any(value)) {
				t.Errorf("%s: %s is not %s of %s", name, value, s.Discriminator.PropertyName, target)
			}
			if !slices.ContainsFunc(s.OneOf, func(o *schema) bool { return o.Ref == target }) {
				t.Errorf("%s: %s is no member", name, target)
			}
		}
	}
	for _, name := range []string{"Event", "FinalItem", "Upsert", "TurnEvent", "Options", "ClientMessage", "ServerMessage", "TurnFrame", "SessionFrame", "Error"} {
		if d.Components.Schemas[name] == nil {
			t.Errorf("there is no component %s", name)
		}
	}
	if d.Paths[d.WebSocket.Path] != nil {
		t.Error("the WebSocket is an operation")
	}
	for path, methods := range d.Paths {
		for method, op := range methods {
			where := method + " " + path
			if len(op.Tags) != 1 || !slices.ContainsFunc(d.Tags, func(tag struct{ Name string }) bool { return tag.Name == op.Tags[0] }) {
				t.Errorf("%s: tags %v", where, op.Tags)
			}
			if op.Description == "" || op.OperationID == "" {
				t.Errorf("%s: has no description or no operationId", where)
			}
			for _, status := range []string{"400", "403", "500", "default"} {
				if op.Responses[status].Content["application/json"].Schema == nil {
					t.Errorf("%s: has no %s", where, status)
				}
			}
			for status, res := range op.Responses {
				if res.Content["application/octet-stream"].Schema != nil {
					t.Errorf("%s %s: bytes of any kind", where, status)
				}
			}
			for _, p := range op.Parameters {
				if p.Schema.Type == "string" && strings.Contains(p.Name, "all") {
					t.Errorf("%s: %s is a flag and no boolean", where, p.Name)
				}
			}
		}
	}
}

// Every event, frame and message has a description.
func TestDocumentSaysWhatThingsOnTheWireMean(t *testing.T) {
	d := theDocument(t)
	for _, name := range []string{"Event", "TurnFrame", "SessionFrame", "ClientMessage", "ServerMessage"} {
		for value, s := range d.Members(d.Components.Schemas[name]) {
			if s.Description == "" {
				t.Errorf("%s: nothing is said of %s; see httpapi/stream/meaning.go", name, value)
			}
		}
	}
}

// Every field and every enumerated type has a description, except fields that
// refer to another component and fields that have only one value.
func TestDocumentDescribesEveryField(t *testing.T) {
	d := theDocument(t)
	used := make(map[string]bool)
	for component, s := range d.Components.Schemas {
		if len(s.Enum) > 0 && s.Description == "" {
			t.Errorf("%s: has no description; see typeMeanings in httpapi/stream/fields.go", component)
		}
		for name, p := range s.Properties {
			used[name], used[component+"."+name] = true, true
			if p.Description == "" && p.Ref == "" && len(p.Enum) != 1 {
				t.Errorf("%s.%s: has no description; give it a doc tag, or see httpapi/stream/fields.go", component, name)
			}
		}
	}
	meaning := stream.Describe().Meaning
	for name := range meaning.Fields {
		if !used[name] {
			t.Errorf("there is no field %s", name)
		}
	}
	for name := range meaning.Types {
		if d.Components.Schemas[name] == nil {
			t.Errorf("there is no component %s", name)
		}
	}
}

// Requests allow only the described fields, except in options. Answers allow
// further fields.
func TestRequestsAreStrictAndAnswersOpen(t *testing.T) {
	d := theDocument(t)
	requests, answers := []*schema{d.WebSocket.Client}, []*schema{d.WebSocket.Server}
	for _, methods := range d.Paths {
		for _, op := range methods {
			if op.RequestBody != nil {
				for _, content := range op.RequestBody.Content {
					requests = append(requests, content.Schema)
				}
			}
			for _, res := range op.Responses {
				for _, content := range res.Content {
					answers = append(answers, content.Schema)
				}
			}
		}
	}
	open := map[string]bool{"Options": true, "Settings": true}
	for name, s := range reachable(d, requests) {
		if s.Type == "object" && s.Additional != false && !open[name] {
			t.Errorf("a request takes any field: %s", name)
		}
	}
	for name, s := range reachable(d, answers) {
		walk(s, name, func(s *schema, path string) {
			if s.Additional == false {
				t.Errorf("an answer may have no further field: %s", path)
			}
		})
	}
	for name := range d.Components.Schemas {
		if reachable(d, requests)[name] == nil && reachable(d, answers)[name] == nil {
			t.Errorf("nothing refers to %s", name)
		}
	}
}

// reachable returns the components that roots refer to.
func reachable(d document, roots []*schema) map[string]*schema {
	out := make(map[string]*schema)
	for len(roots) > 0 {
		root := roots[0]
		roots = roots[1:]
		walk(root, "", func(s *schema, _ string) {
			name := strings.TrimPrefix(s.Ref, "#/components/schemas/")
			if s.Ref != "" && out[name] == nil {
				out[name] = d.Resolve(s)
				roots = append(roots, out[name])
			}
		})
	}
	return out
}

// walk calls f for a schema and those inside it; it follows no reference.
func walk(s *schema, path string, f func(s *schema, path string)) {
	if s == nil {
		return
	}
	f(s, path)
	walk(s.Items, path, f)
	for _, one := range s.OneOf {
		walk(one, path, f)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		walk(s.Properties[name], path+"."+name, f)
	}
	walk(s.AdditionalSchema(), path+".*", f)
}

// A type with constants has exactly their values in the document.
func TestClosedTypesHaveTheValuesOfTheirConstants(t *testing.T) {
	listed := enums()
	open := map[reflect.Type]bool{reflect.TypeFor[runnel.Capability](): true} // an agent may have others
	texts := described(newRig(t).router.list)
	parsed := parsedFolders{}
	for typ := range texts {
		if len(parsed.constants(t, typ)) > 0 && listed[typ] == nil && !open[typ] {
			t.Errorf("%v has constants, and the document lists no values", typ)
		}
	}
	if len(texts) < 15 {
		t.Errorf("only %d types of texts are described", len(texts))
	}
	for typ, values := range listed {
		var want, got []string
		for _, v := range values {
			got = append(got, reflect.ValueOf(v).String())
		}
		want = parsed.constants(t, typ)
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(want, got) {
			t.Errorf("%v: the document lists %v; its constants are %v", typ, got, want)
		}
	}
}

// described returns the string types in bodies, frames and messages, except for
// fields that list their values themselves.
func described(list []*route) map[reflect.Type]bool {
	texts, seen := make(map[reflect.Type]bool), make(map[reflect.Type]bool)
	var walk func(t reflect.Type)
	walk = func(t reflect.Type) {
		if t == nil || seen[t] {
			return
		}
		seen[t] = true
		switch t.Kind() {
		case reflect.Pointer, reflect.Slice:
			walk(t.Elem())
		case reflect.Map:
			walk(t.Key())
			walk(t.Elem())
		case reflect.String:
			if t.Name() != "string" {
				texts[t] = true
			}
		case reflect.Struct:
			for f := range t.Fields() {
				if f.Tag.Get("json") != "-" && f.Tag.Get("enum") == "" {
					walk(f.Type)
				}
			}
		}
	}
	for _, rt := range list {
		walk(reflect.TypeOf(rt.in))
		walk(reflect.TypeOf(rt.out))
	}
	d := stream.Describe()
	for _, values := range []map[string]any{d.Payloads, d.Items, d.Frames, d.Control, d.Client, d.Server, d.Live} {
		for _, v := range values {
			walk(reflect.TypeOf(v))
		}
	}
	walk(reflect.TypeFor[runnel.Options]())
	return texts
}

// parsedFolders has the files of folders, without tests, once they were parsed.
type parsedFolders map[string][]*ast.File

func parseFolder(t *testing.T, dir string) (parsed []*ast.File) {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, f.Name()), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		parsed = append(parsed, file)
	}
	return parsed
}

// constants returns the values of all constants of a type.
func (p parsedFolders) constants(t *testing.T, typ reflect.Type) (out []string) {
	t.Helper()
	dir := filepath.Join("..", strings.TrimPrefix(typ.PkgPath(), "github.com/runnel-dev/runnel"))
	if p[dir] == nil {
		p[dir] = parseFolder(t, dir)
	}
	for _, f := range p[dir] {
		ast.Inspect(f, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			if id, ok := spec.Type.(*ast.Ident); !ok || id.Name != typ.Name() {
				return true
			}
			for _, v := range spec.Values {
				if lit, ok := v.(*ast.BasicLit); ok && lit.Kind == token.STRING {
					text, _ := strconv.Unquote(lit.Value)
					out = append(out, text)
				}
			}
			return true
		})
	}
	return out
}
