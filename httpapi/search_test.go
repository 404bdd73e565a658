package httpapi

import (
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/store/sqlite"
)

// withSearch gives the server a search index.
func withSearch(t *testing.T) func(*Config, *gateway.Config) {
	t.Helper()
	x, err := sqlite.OpenSearch(t.Context(), t.TempDir(), "log", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = x.Close() })
	return func(_ *Config, c *gateway.Config) { c.Search = x }
}

// searchUntil repeats a search until it has n hits.
func (rg *rig) searchUntil(n int, query string) gateway.SearchPage {
	rg.t.Helper()
	for range 200 {
		page := call[gateway.SearchPage](rg, "GET", "/api/search?"+query, "", 200)
		if len(page.Hits) == n {
			return page
		}
		time.Sleep(50 * time.Millisecond) //nolint:forbidigo // no answer reports that an item has been indexed
	}
	rg.t.Fatalf("no %d hits for %s", n, query)
	return gateway.SearchPage{}
}

func TestSearchOverTheAPI(t *testing.T) {
	rg := newRig(t, withSearch(t))
	id := rg.create()
	for i := range 3 {
		call[any](rg, "POST", "/api/session/"+id+"/send", fmt.Sprintf(`{"content":"text zebra %d","queue":true}`, i), 202)
	}
	all := rg.searchUntil(3, "q=zebra&kind=prompt")
	if h := all.Hits[0]; h.SessionID != id || h.ItemID == "" || h.CLIType != "script" || h.Title != "text zebra 0" || len(h.Snippet) != 3 || !h.Snippet[1].Match || h.Snippet[1].Text != "zebra" {
		t.Errorf("hit %+v", h)
	}
	first := rg.searchUntil(2, "q=zebra&kind=prompt&limit=2")
	rest := rg.searchUntil(1, "q=zebra&kind=prompt&limit=2&before="+first.Next)
	if rest.Next != "" || rest.Hits[0].Seq != all.Hits[2].Seq {
		t.Errorf("pages %+v, %+v", first, rest)
	}
	now := url.QueryEscape(time.Now().Add(time.Minute).Format(time.RFC3339))
	for query, n := range map[string]int{
		"q=scripted&kind=answer":                                      3,
		"q=scripted&kind=prompt,diff":                                 0,
		"q=zebra&kind=prompt&cliType=codex":                           0,
		"q=zebra&kind=prompt&projectDir=" + url.QueryEscape(rg.dir):   3,
		"q=zebra&kind=prompt&projectDir=" + url.QueryEscape(rg.token): 0,
		"q=zebra&kind=prompt&projectId=" + gateway.ProjectID(rg.dir):  3,
		"q=zebra&kind=prompt&since=" + now:                            0,
		"q=zebra&kind=prompt&until=" + now:                            3,
		"q=%22text+zebra+1%22":                                        1,
		"q=zeb*&kind=prompt&limit=100000":                             3,
	} {
		rg.searchUntil(n, query)
	}
	for _, query := range []string{
		"", "q=", "q=*", "q=a&kind=prose", "q=a&kind=prompt,prompt,prompt,prompt,prompt", "q=a&since=yesterday", "q=a&until=1", "q=a&limit=x", "q=a&before=-1", "q=%22",
	} {
		if w := rg.do("GET", "/api/search?"+query, ""); w.Code != 400 || code(w) != "INVALID_REQUEST" {
			t.Errorf("%s: %d %s", query, w.Code, w.Body)
		}
	}
	rg.answers(theDocument(t), "GET", "/api/search", "/api/search?q=zebra", "")
}

func TestSearchOfAnotherProjectFindsNothing(t *testing.T) {
	rg := newRig(t, withSearch(t))
	rg.prompt(rg.create(), "text zebra")
	rg.searchUntil(1, "q=zebra&kind=prompt")
	mine := rg.dir
	for dir, n := range map[string]int{mine: 1, t.TempDir(): 0} {
		secret, _, err := rg.keyed.Create(t.Context(), auth.Grant{Name: "bound", Scopes: []auth.Scope{auth.Read}, Project: dir})
		if err != nil {
			t.Fatal(err)
		}
		rg.token = secret
		for _, query := range []string{"q=zebra", "q=zebra&projectDir=" + url.QueryEscape(dir), "q=zebra&projectId=" + gateway.ProjectID(dir)} {
			rg.searchUntil(n, query+"&kind=prompt")
		}
		for _, query := range []string{"q=zebra&projectDir=/", "q=zebra&projectId=0123456789abcdef"} {
			rg.searchUntil(0, query)
		}
		if n == 0 {
			rg.searchUntil(0, "q=zebra&projectId="+gateway.ProjectID(mine))
		}
	}
}
