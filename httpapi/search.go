package httpapi

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/httpapi/reply"
	"github.com/runnel-dev/runnel/store"
)

// Numbers of hits on a page.
const (
	hitsDefault = 20
	hitsMax     = 100
)

func (s *sessions) searchRoutes() []route {
	return inTurn(&s.searches, []route{
		handle(route{path: "/api/search", scope: auth.Read, bound: true, name: "search",
			summary: "Search the items of all sessions", about: "Finds prompts, answers, tool calls with their outputs, and changes to files, newest first, also in ended and archived sessions, and in conversations that agents have stored in files and that are no sessions yet, if the server lists conversations. Fails with TIMEOUT after 10 seconds. A finished item can be found about a second later. Case and accents do not matter. Of an item the first 64 KiB can be found, and of a longer output the first and the last 32 KiB. Reasoning and plans cannot be found.",
			params: []param{
				{name: "q", required: true, doc: `Words that the item contains, in any order: at most 32 in 1000 bytes. Quotation marks enclose a phrase. A final * finds all words that begin like this one, if it has at least two letters. Punctuation separates words, and a word that contains it is a phrase. Chinese, Japanese and Korean text is found as it is written.`},
				{name: "kind", doc: "Kinds of items, separated by commas: prompt, answer, command (tool calls and their outputs), diff (changes to files). Default: all kinds."},
				{name: "cliType", doc: "Kind of agent. Default: all kinds."},
				{name: "projectId", doc: "Id of a project. Default: all projects."},
				{name: "projectDir", doc: "Absolute path of a project's directory, instead of its id."},
				{name: "since", doc: "Earliest time of an item, as in 2026-01-31T12:00:00Z. Default: no limit."},
				{name: "until", doc: "Latest time of an item. Default: no limit."},
				{name: "before", doc: "Position before which the page begins: next of the page before. Default: the first page."},
				{name: "limit", doc: "Maximum number of items on the page, at most 100. Default: 20."},
			}, fails: []runnel.Code{runnel.Timeout}}, s.search),
	})
}

func (s *sessions) search(r *http.Request) (gateway.SearchPage, error) {
	p := r.URL.Query()
	q := gateway.SearchQuery{Text: p.Get("q"), CLIType: p.Get("cliType"), ProjectID: p.Get("projectId"), ProjectDir: p.Get("projectDir")}
	if kinds := p.Get("kind"); kinds != "" {
		for name := range strings.SplitSeq(kinds, ",") {
			kind := store.SearchKind(name)
			if !slices.Contains(store.SearchKinds, kind) {
				return gateway.SearchPage{}, reply.Invalid("kind: unknown value; want prompt, answer, command or diff, separated by commas")
			}
			q.Kinds = append(q.Kinds, kind)
		}
		if len(q.Kinds) > len(store.SearchKinds) {
			return gateway.SearchPage{}, reply.Invalid("kind: has a value twice")
		}
	}
	for name, at := range map[string]*time.Time{"since": &q.Since, "until": &q.Until} {
		text := p.Get(name)
		if text == "" {
			continue
		}
		var err error
		if *at, err = time.Parse(time.RFC3339, text); err != nil {
			return gateway.SearchPage{}, reply.Invalid(name + ": must be a time such as 2026-01-31T12:00:00Z")
		}
	}
	limit, err := reply.Number(r, "limit", hitsDefault)
	if err != nil {
		return gateway.SearchPage{}, err
	}
	q.Limit = int(min(max(limit, 1), hitsMax))
	if q.Before, err = reply.Number(r, "before", 0); err != nil {
		return gateway.SearchPage{}, err
	}
	return gateway.SearchOf(s.gw).Query(r.Context(), q)
}
