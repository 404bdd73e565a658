package store

import (
	"context"
	"time"
)

// A SearchIndex finds items of sessions by their text. It is made from an event
// log and can be made again, so it may be deleted at any time. All methods may
// be called concurrently.
type SearchIndex interface {
	// Indexed returns the position up to which the index has each session.
	Indexed(ctx context.Context) (map[string]SearchPosition, error)
	// AddItems adds the items of a session whose events are between the
	// positions after and seq, and moves the position of the session to seq. It
	// does both or nothing. It returns ErrConflict if the index does not have
	// the session up to after, 0 for a new session. If s has a State, AddItems
	// skips the items that the index has, by their Item, Kind and Seq, and seq
	// may be any.
	AddItems(ctx context.Context, s SearchSession, after, seq int64, items ...SearchItem) error
	// Forget removes sessions. When it returns nil, no file of the index holds
	// any of their text.
	Forget(ctx context.Context, sessions ...string) error
	// Search returns the items that q selects, newest first.
	Search(ctx context.Context, q SearchQuery) (SearchPage, error)
	// Size returns the size of the files of the index, in bytes.
	Size() int64
	// Close releases the files of the index.
	Close() error
}

// SearchKind is the kind of an item in a SearchIndex.
type SearchKind string

// The kinds of items that can be searched.
const (
	SearchPrompt  SearchKind = "prompt"  // a message of the user
	SearchAnswer  SearchKind = "answer"  // a message of the agent
	SearchCommand SearchKind = "command" // a tool call, or its output
	SearchDiff    SearchKind = "diff"    // changes to files
)

// SearchKinds lists all kinds.
var SearchKinds = []SearchKind{SearchPrompt, SearchAnswer, SearchCommand, SearchDiff}

// A SearchSession names a session, and its properties that queries select. It
// may also be a stored conversation that is no session: its ID is then
// cliType:agentSessionId, and the State is that of its file.
type SearchSession struct {
	ID        string
	CLIType   string
	ProjectID string
	State     string
}

// A SearchPosition is the position up to which the index has a session, and the
// State with which its last items were added.
type SearchPosition struct {
	Seq   int64
	State string
}

// A SearchItem is the text of one item, or of one part of it.
type SearchItem struct {
	Item string // id of the item that a client shows
	Turn string
	Seq  int64 // position of the event that completed the item; without a log, a number of the part
	Kind SearchKind
	At   time.Time
	Text string
}

// A SearchQuery selects items. An empty field selects all items.
type SearchQuery struct {
	// Text has words, phrases in quotation marks and beginnings of words with a
	// final asterisk. An item must match all of them, in any order. Required.
	Text      string
	Kinds     []SearchKind
	CLIType   string
	ProjectID string
	Since     time.Time // earliest time
	Until     time.Time // latest time

	Before int64 // Next of the previous page. Default: the first page
	Limit  int   // maximum number of items. Required
}

// A SearchPage is a part of the result of a query.
type SearchPage struct {
	Found []SearchFound
	Next  int64 // SearchQuery.Before of the next page; 0 on the last page
}

// A SearchFound is an item that matches a query. Text is a snippet of the item.
type SearchFound struct {
	SearchItem
	Session string
	Snippet []SearchPart
}

// A SearchPart is a part of a snippet.
type SearchPart struct {
	Text  string
	Match bool // the part matches the query
}
