package claude

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/runnel-dev/runnel/internal/jsonl"
)

// entry is one line of a stored conversation. It has the fields of a frame,
// some of them under other names.
type entry struct {
	frame
	ParentUUID       string          `json:"parentUuid"`
	LogicalParent    string          `json:"logicalParentUuid"` // across a compaction
	IsSidechain      bool            `json:"isSidechain"`
	IsMeta           bool            `json:"isMeta"`
	IsCompactSummary bool            `json:"isCompactSummary"`
	TeamName         string          `json:"teamName"`
	StoredResult     json.RawMessage `json:"toolUseResult"`
	StoredStatus     *int            `json:"apiErrorStatus"`
	StoredSession    string          `json:"sessionId"`
	ErrorDetails     string          `json:"errorDetails"` // of a failure, beside its word
	CWD              string          `json:"cwd"`
	Attachment       *struct {
		Type        string  `json:"type"`
		Prompt      content `json:"prompt"`
		CommandMode string  `json:"commandMode"`
	} `json:"attachment"`

	// entries about the conversation
	CustomTitle string `json:"customTitle"`
	AITitle     string `json:"aiTitle"`
	LastPrompt  string `json:"lastPrompt"`

	line  int    // in the file, from 0
	model string // of the answer that follows
}

// time returns the time of the entry; zero if it has none.
func (e *entry) time() time.Time {
	at, err := time.Parse(time.RFC3339Nano, e.Timestamp)
	if err != nil {
		return time.Time{}
	}
	return at
}

// readEntries decodes the conversation entries of a file. It skips lines that
// do not decode: the last line may be half written.
func readEntries(ctx context.Context, r io.Reader) ([]*entry, error) {
	lines := jsonl.NewReader(r, 0)
	var out []*entry
	for n := 0; ; n++ {
		if n%1024 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		line, err := lines.Next()
		if _, long := errors.AsType[*jsonl.TooLongError](err); long {
			continue
		}
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		e := &entry{line: n}
		if err := json.Unmarshal(line, e); err != nil {
			if _, ok := errors.AsType[*json.UnmarshalTypeError](err); !ok {
				continue
			}
		}
		switch e.Type {
		case "user", "assistant", "progress", "system", "attachment":
			if e.UUID != "" {
				out = append(out, e)
			}
		}
	}
}

// chain returns the entries of the conversation as it stands now, oldest first.
//
// The file is a tree: a rewind, a second writer and every parallel tool call
// make branches. The branch with the newest leaf of the main thread counts,
// with the calls and results that ran in parallel to it. The agent itself
// begins at the last compaction; chain includes the entries before it.
func chain(entries []*entry) []*entry {
	byID := make(map[string]*entry, len(entries))
	for _, e := range entries {
		byID[e.UUID] = e // of entries with the same id, the last one
	}
	leaf := newestLeaf(entries, byID)
	if leaf == nil {
		return nil
	}
	var path []*entry
	on := make(map[string]bool)
	for e := leaf; e != nil && !on[e.UUID]; e = parent(e, byID) {
		on[e.UUID] = true
		path = append(path, e)
	}
	slices.Reverse(path)
	return reattach(path, on, entries, byID)
}

// parent returns the entry before e, also across a compaction; nil if there is
// none.
func parent(e *entry, byID map[string]*entry) *entry {
	if e.ParentUUID == "" && e.Subtype == "compact_boundary" {
		return byID[e.LogicalParent]
	}
	return byID[e.ParentUUID]
}

// newestLeaf returns the leaf to start from. Each leaf stands for the nearest
// message above it; the leaf whose message is part of the main thread and comes
// last in the file wins.
//
// The work is linear in the number of entries, however many leaves there are.
func newestLeaf(entries []*entry, byID map[string]*entry) *entry {
	nearest := make(map[*entry]*entry, len(entries))
	hasChild := make(map[string]bool)
	for _, e := range byID {
		if p := parent(e, byID); p != nil {
			hasChild[p.UUID] = true
		}
	}
	var best, bestSpoken, fallback *entry
	for _, e := range entries {
		if hasChild[e.UUID] || byID[e.UUID] != e {
			continue
		}
		spoken := nearestSpoken(e, byID, nearest)
		if spoken == nil {
			continue
		}
		fallback = e
		if spoken.IsSidechain || spoken.TeamName != "" || spoken.IsMeta {
			continue
		}
		if bestSpoken == nil || spoken.line >= bestSpoken.line {
			best, bestSpoken = e, spoken
		}
	}
	if best == nil {
		return fallback
	}
	return best
}

// nearestSpoken returns e, or else the nearest entry above it, that is a
// message; nil if there is none. known holds the results of earlier calls, and
// nil for entries on the way, so that a circle of entries ends.
func nearestSpoken(e *entry, byID map[string]*entry, known map[*entry]*entry) *entry {
	var passed []*entry
	var found *entry
	for ; e != nil; e = parent(e, byID) {
		if e.Type == "user" || e.Type == "assistant" {
			found = e
			break
		}
		if before, seen := known[e]; seen {
			found = before
			break
		}
		known[e] = nil
		passed = append(passed, e)
	}
	for _, p := range passed {
		known[p] = found
	}
	return found
}

// reattach inserts the calls and results that ran in parallel: they fork the
// chain, so a walk from the leaf meets only one of each.
func reattach(path []*entry, on map[string]bool, entries []*entry, byID map[string]*entry) []*entry {
	lastOf := make(map[string]int) // native message → its last place on the path
	for i, e := range path {
		if id := e.messageID(); id != "" {
			lastOf[id] = i
		}
	}
	siblings, results := make(map[string][]*entry), make(map[string][]*entry)
	for _, e := range entries {
		if on[e.UUID] || e.IsSidechain || byID[e.UUID] != e {
			continue
		}
		if id := e.messageID(); id != "" {
			siblings[id] = append(siblings[id], e)
		} else if p := byID[e.ParentUUID]; p != nil && e.isResult() && p.messageID() != "" {
			results[p.messageID()] = append(results[p.messageID()], e)
		}
	}
	byTime := func(a, b *entry) int { return strings.Compare(a.Timestamp, b.Timestamp) }
	out := make([]*entry, 0, len(path))
	for i, e := range path {
		out = append(out, e)
		if id := e.messageID(); id != "" && lastOf[id] == i {
			slices.SortStableFunc(siblings[id], byTime)
			slices.SortStableFunc(results[id], byTime)
			out = append(append(out, siblings[id]...), results[id]...)
		}
	}
	return out
}

// messageID returns the native message that an assistant entry is part of, ""
// for other entries.
func (e *entry) messageID() string {
	if e.Type != "assistant" || e.Message == nil {
		return ""
	}
	return e.Message.ID
}

// isResult reports whether the entry holds results of tools.
func (e *entry) isResult() bool {
	return e.Type == "user" && e.Message != nil &&
		slices.ContainsFunc(e.Message.Content, func(b block) bool { return b.Type == "tool_result" })
}

// result returns an entry with results of tools as the agent prints one.
func (e *entry) result() frame {
	f := e.frame
	f.ToolUseResult = e.StoredResult
	return f
}
