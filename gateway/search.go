package gateway

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/gateway/conversations"
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

// A SearchHit is an item that matches a query. It belongs to a session, or to a
// stored conversation that is no session yet.
type SearchHit struct {
	SessionID  string           `json:"sessionId,omitempty" doc:"Id of the session. Absent if the item belongs to a conversation that an agent has stored and that is no session yet: POST /api/session/{cliType}:{agentSessionId}/load makes it one, with the same itemId."`
	AgentID    string           `json:"agentSessionId,omitempty" doc:"The agent's own id of the conversation. Only without sessionId."`
	Title      string           `json:"title" doc:"Title of the session or the conversation."`
	CLIType    string           `json:"cliType"`
	ProjectDir string           `json:"projectDir" doc:"Absolute path of the directory that the agent works in."`
	TurnID     string           `json:"turnId,omitempty"`
	ItemID     string           `json:"itemId" doc:"Id of the item, as in its upserts. The output of a tool call belongs to the item of the call."`
	Seq        int64            `json:"seq,omitempty" doc:"Position of the event that completed the item or its output. GET /api/session/{id}/items?before=SEQ+1 returns a page that contains the item. Absent without sessionId."`
	Kind       store.SearchKind `json:"kind" enum:"prompt,answer,command,diff" doc:"prompt: a message of the user. answer: a message of the agent. command: a tool call or its output. diff: changes to files."`
	At         time.Time        `json:"at" doc:"When the item was completed, to the millisecond."`
	Snippet    []SnippetPart    `json:"snippet" doc:"Text around the first match, on one line of at most about 240 bytes: the texts of all parts, one after another."`
}

// A SnippetPart is a part of a snippet.
type SnippetPart struct {
	Text  string `json:"text"`
	Match bool   `json:"match,omitempty" doc:"Whether this part matches the query."`
}

// Search finds items of the sessions of a Gateway, and of the conversations that
// its agents have stored.
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
// sessions are searched, and the conversations that agents have stored in files.
// If ctx is from [WithProject], only sessions and conversations of that project
// are.
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
	if n := s.g.natives; n != nil {
		page.Indexing = page.Indexing || n.behind.Load()
		n.search() // for the next search: files may have changed
	}
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
		natives, err := s.natives(ctx, found.Found)
		if err != nil {
			return SearchPage{}, err
		}
		for _, it := range found.Found {
			if isNative(it.Session) {
				if c, ok := natives[it.Session]; ok && f.inProject(projectID(c.ProjectDir), c.ProjectDir) {
					page.addNative(c, it)
				}
				continue
			}
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

// add adds an item of a session.
func (p *SearchPage) add(st Status, it store.SearchFound) {
	p.put(SearchHit{SessionID: it.Session, Title: st.Title, CLIType: st.CLIType, ProjectDir: st.ProjectDir, Seq: it.Seq}, it)
}

// addNative adds an item of a conversation that is no session.
func (p *SearchPage) addNative(c conversations.Conversation, it store.SearchFound) {
	p.put(SearchHit{AgentID: c.AgentSessionID, Title: c.Title, CLIType: c.CLIType, ProjectDir: c.ProjectDir}, it)
}

// put adds an item to the page. The page has an item once, even if both its
// call and its output match.
func (p *SearchPage) put(h SearchHit, it store.SearchFound) {
	h.TurnID, h.ItemID, h.Kind, h.At, h.Snippet = it.Turn, it.Item, it.Kind, it.At, []SnippetPart{}
	if slices.ContainsFunc(p.Hits, func(o SearchHit) bool {
		return o.SessionID == h.SessionID && o.AgentID == h.AgentID && o.CLIType == h.CLIType && o.ItemID == h.ItemID && o.Kind == h.Kind
	}) {
		return
	}
	for _, part := range it.Snippet {
		h.Snippet = append(h.Snippet, SnippetPart(part))
	}
	p.Hits = append(p.Hits, h)
}

// natives returns the conversations among found that are still stored and that
// no session continues, by their names in the index.
func (s Search) natives(ctx context.Context, found []store.SearchFound) (map[string]conversations.Conversation, error) {
	if s.g.natives == nil {
		return nil, nil
	}
	var keys []conversations.Key
	for _, it := range found {
		if cli, id, ok := strings.Cut(it.Session, ":"); ok {
			keys = append(keys, conversations.Key{CLIType: cli, AgentSessionID: id})
		}
	}
	known := s.g.stored.Known(keys...)
	list := slices.Collect(maps.Values(known))
	continued, err := ConversationsOf(s.g).continued(ctx, list, "")
	if err != nil {
		return nil, storeError(err)
	}
	natives := make(map[string]conversations.Conversation, len(list))
	for _, c := range list {
		if _, is := continued[keyOf(c)]; !is && !s.g.hidden.isHidden(keyOf(c)) {
			natives[keyOf(c)] = c
		}
	}
	return natives, nil
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
