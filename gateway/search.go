package gateway

import (
	"context"
	"strconv"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/store"
)

// A SearchQuery selects items of sessions; see [store.SearchQuery].
type SearchQuery struct {
	Text       string
	Kinds      []store.SearchKind
	CLIType    string // "" for all
	ProjectID  string // "" for all
	ProjectDir string // "" for all
	Since      time.Time
	Until      time.Time
	Before     int64 // number in SearchPage.Next of the previous page. Default: the first page
	Limit      int   // maximum number of items
}

// A SearchPage is a part of the result of a query.
type SearchPage struct {
	Hits     []SearchHit `json:"hits" doc:"The items that match, newest first."`
	Next     string      `json:"next,omitempty" doc:"Position for the parameter before of the next page. Absent on the last page."`
	Indexing bool        `json:"indexing,omitempty" doc:"Whether the server is still adding earlier sessions to its search index. Their items may be missing; repeat the request later."`
	Disabled bool        `json:"disabled,omitempty" doc:"Whether the server finds nothing, because its setting search is false or it could not open its search index."`
}

// A SearchHit is an item that matches a query.
type SearchHit struct {
	SessionID  string           `json:"sessionId"`
	Title      string           `json:"title" doc:"Title of the session."`
	CLIType    string           `json:"cliType"`
	ProjectDir string           `json:"projectDir" doc:"Absolute path of the directory that the agent works in."`
	TurnID     string           `json:"turnId,omitempty"`
	ItemID     string           `json:"itemId" doc:"Id of the item, as in its upserts. The output of a tool call belongs to the item of the call."`
	Seq        int64            `json:"seq" doc:"Position of the event that completed the item or its output. GET /api/session/{id}/items?before=SEQ+1 returns a page that contains the item."`
	Kind       store.SearchKind `json:"kind" enum:"prompt,answer,command,diff" doc:"prompt: a message of the user. answer: a message of the agent. command: a tool call or its output. diff: changes to files."`
	At         time.Time        `json:"at" doc:"When the item was completed, to the millisecond."`
	Snippet    []SnippetPart    `json:"snippet" doc:"Text around the first match, on one line of at most about 240 bytes: the texts of all parts, one after another."`
}

// A SnippetPart is a part of a snippet.
type SnippetPart struct {
	Text  string `json:"text"`
	Match bool   `json:"match,omitempty" doc:"Whether this part matches the query."`
}

// Search finds items of the sessions of a Gateway.
type Search struct{ g *Gateway }

// SearchOf returns the search in the sessions of g.
func SearchOf(g *Gateway) Search { return Search{g} }

// searchPages is how many pages of the index are read for one page of hits, if
// sessions were deleted and their items are still in the index.
const searchPages = 5

// searchTime limits how long a search may take. A few searches run at a time,
// so one that takes longer would block the others.
const searchTime = 10 * time.Second

// Query returns the items that q selects, newest first. Also dead and archived
// sessions are searched. If ctx is from [WithProject], only sessions of that
// project are.
func (s Search) Query(ctx context.Context, q SearchQuery) (SearchPage, error) {
	page := SearchPage{Hits: []SearchHit{}}
	if s.g.indexer == nil {
		page.Disabled = true
		return page, nil
	}
	f, ok := Filter{ProjectID: q.ProjectID, ProjectDir: q.ProjectDir}.within(onlyProject(ctx))
	if f.ProjectDir != "" {
		id := projectID(f.ProjectDir)
		ok = ok && (f.ProjectID == "" || f.ProjectID == id)
		f.ProjectID = id
	}
	if !ok {
		return page, nil
	}
	page.Indexing = s.g.indexer.behind.Load()
	sessions := make(map[string]*Status)
	limited, stop := context.WithTimeout(ctx, searchTime)
	defer stop()
	for range searchPages {
		found, err := s.g.cfg.Search.Search(limited, store.SearchQuery{
			Text: q.Text, Kinds: q.Kinds, CLIType: q.CLIType, ProjectID: f.ProjectID,
			Since: q.Since, Until: q.Until, Before: q.Before, Limit: q.Limit,
		})
		if limited.Err() != nil && ctx.Err() == nil {
			return SearchPage{}, runnel.Fail(runnel.Timeout, "the search took longer than 10 seconds; search for rarer words, or give a kind, a folder or a time")
		}
		if err != nil {
			return SearchPage{}, storeError(err)
		}
		for _, it := range found.Found {
			st, err := s.session(ctx, sessions, it.Session)
			if err != nil {
				return SearchPage{}, err
			}
			if st != nil && f.inProject(projectID(st.ProjectDir), st.ProjectDir) {
				page.add(*st, it)
			}
		}
		if q.Before = found.Next; q.Before == 0 || len(page.Hits) > 0 {
			break
		}
	}
	if q.Before > 0 {
		page.Next = strconv.FormatInt(q.Before, 10)
	}
	return page, nil
}

// add adds an item. The page has an item once, even if both its call and its
// output match.
func (p *SearchPage) add(st Status, it store.SearchFound) {
	for _, h := range p.Hits {
		if h.SessionID == it.Session && h.ItemID == it.Item && h.Kind == it.Kind {
			return
		}
	}
	h := SearchHit{
		SessionID: it.Session, Title: st.Title, CLIType: st.CLIType, ProjectDir: st.ProjectDir,
		TurnID: it.Turn, ItemID: it.Item, Seq: it.Seq, Kind: it.Kind, At: it.At, Snippet: []SnippetPart{},
	}
	for _, part := range it.Snippet {
		h.Snippet = append(h.Snippet, SnippetPart(part))
	}
	p.Hits = append(p.Hits, h)
}

// session returns the record of a session, or nil if it was deleted. It caches
// the records in known.
func (s Search) session(ctx context.Context, known map[string]*Status, id string) (*Status, error) {
	if st, ok := known[id]; ok {
		return st, nil
	}
	rec, err := s.g.opener.record(ctx, id)
	if runnel.CodeOf(err) == runnel.SessionNotFound {
		known[id] = nil
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if e := s.g.sessions.peek(id); e != nil {
		rec, _ = e.snapshot()
	}
	st := Describe(rec)
	known[id] = &st
	return &st, nil
}
