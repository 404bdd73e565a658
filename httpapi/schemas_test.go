package httpapi

import (
	"net/http"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"
)

// The OpenAPI document is made from Go types. If two types contradict each
// other in it, describe returns an error that names them.
func TestDocumentOfContradictingTypesIsAnError(t *testing.T) {
	type shared struct{ Field string }
	one := func() any {
		type Twin struct{ One string }
		return Twin{}
	}()
	other := func() any {
		type Twin struct{ Other string }
		return Twin{}
	}()
	for name, tt := range map[string]struct {
		in, out any
		want    string
	}{
		"two types of one name":            {one, other, "have the same name in the document: Twin"},
		"a type sent and received":         {shared{}, shared{}, "requests and answers share Shared"},
		"a type that has no contradiction": {one, shared{}, ""},
	} {
		list := append(documented(), route{method: http.MethodPost, path: "/api/further", name: "further", status: http.StatusOK, in: tt.in, out: tt.out})
		_, err := describe(list)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: got %v, want %q", name, err, tt.want)
		}
	}
	s := newSchemas()
	s.define("Once", new(huma.Schema))
	s.define("Once", new(huma.Schema))
	if s.err == nil || !strings.HasSuffix(s.err.Error(), "Once") {
		t.Errorf("a component that is defined twice: got %v", s.err)
	}
}
