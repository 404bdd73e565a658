package claude

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/runnel-dev/runnel/internal/jsonl"
)

// entry is one line of a stored conversation. It has the fields of a frame;
// some of them have other names.
type entry struct {
	frame
	StoredSession    string          `json:"sessionId"`
	ParentUUID       string          `json:"parentUuid"`
	LogicalParent    string          `json:"logicalParentUuid"` // the parent of an entry compact_boundary, which has no ParentUUID
	IsSidechain      bool            `json:"isSidechain"`
	IsMeta           bool            `json:"isMeta"`
	IsCompactSummary bool            `json:"isCompactSummary"`
	OnlyTranscript   bool            `json:"isVisibleInTranscriptOnly"` // the agent shows it only on its own screen
	TeamName         string          `json:"teamName"`
	StoredResult     json.RawMessage `json:"toolUseResult"`
	StoredStatus     *int            `json:"apiErrorStatus"`
	ErrorDetails     string          `json:"errorDetails"` // details of a failure, in addition to the field Error
	PromptSource     string          `json:"promptSource"`
	CWD              string          `json:"cwd"`
	Attachment       *struct {
		Type        string  `json:"type"`
		Prompt      content `json:"prompt"`
		CommandMode string  `json:"commandMode"`
		Identity    struct {
			ModelID string `json:"modelId"`
		} `json:"identity"`
	} `json:"attachment"`

	// entries about the conversation
	CustomTitle string `json:"customTitle"`
	AITitle     string `json:"aiTitle"`
	LastPrompt  string `json:"lastPrompt"`

	line  int    // number of the line in its file, from 0
	place int    // position among the lines of all files of the conversation
	size  int64  // size of the line, in bytes
	model string // model of the answer that follows
}

// isSent reports whether a program sent the entry as a prompt. The agent sets
// the same promptSource on its own reports about background tasks; these have
// an origin (recordings text and background).
func (e *entry) isSent() bool {
	return e.PromptSource == "sdk" && (e.Origin == nil || e.Origin.Kind != "task-notification")
}

// time returns the time of the entry; zero if it has none.
func (e *entry) time() time.Time {
	at, err := time.Parse(time.RFC3339Nano, e.Timestamp)
	if err != nil {
		return time.Time{}
	}
	return at
}

// Bounds of one line of a file. A prompt with attachments of 17 MiB is stored
// in a line of 24 MB.
const (
	maxStoredString = 16 << 20 // bytes of a string in the line; the rest is dropped
	maxStoredLine   = 64 << 20 // bytes of a line after its strings were cut; a longer line is unreadable
)

// unreadable is the type of an entry that represents a line that cannot be
// decoded.
const unreadable = "unreadable"

// The memory that an entry takes, and that each block in it takes in addition,
// in bytes. A line and a block have at least two bytes in the file.
const (
	perEntry = 1 << 10
	perBlock = 1 << 8
)

// readEntries decodes the conversation entries of a file. A line that cannot be
// decoded, or that has too many values, becomes an entry of type unreadable. An
// undecodable last line without a line end is skipped, because the agent may be
// writing it. readEntries returns the memory that the entries take in addition
// to their texts, in bytes. It fails with PayloadTooLarge if that is more than
// most. For pictures see [runnel.Conversation].
func readEntries(ctx context.Context, r io.Reader, most int64, pictures func([]byte)) (out []*entry, took int64, err error) {
	lines := jsonl.NewReader(newShortener(r, maxStoredString), maxStoredLine)
	for n := 0; ; n++ {
		if n%1024 == 0 && ctx.Err() != nil {
			return nil, took, ctx.Err()
		}
		line, err := lines.Next()
		if errors.Is(err, io.EOF) {
			return out, took, nil
		}
		tooLong, isTooLong := errors.AsType[*jsonl.TooLongError](err)
		if err != nil && !isTooLong {
			return nil, took, err
		}
		e := &entry{line: n, place: n, size: int64(len(line))}
		switch ok := !isTooLong && !jsonl.Crowded(line) && e.decode(jsonl.Shallow(line), pictures); {
		case ok && e.UUID != "":
			out = append(out, e)
			took += perEntry + e.blocks()*perBlock
		case !ok && !lines.Torn():
			if isTooLong {
				e.size = tooLong.Length
			}
			out = append(out, &entry{frame: frame{Type: unreadable}, line: n, place: n, size: e.size})
			took += perEntry
		}
		if took > most {
			return nil, took, tooLarge()
		}
	}
}

// decode decodes a line and reports whether it is a JSON object. It ignores a
// field of an unexpected type. For pictures see [runnel.Conversation].
func (e *entry) decode(line []byte, pictures func([]byte)) bool {
	if err := json.Unmarshal(line, e); err != nil {
		if _, ok := errors.AsType[*json.UnmarshalTypeError](err); !ok {
			return false
		}
	}
	if e.Message != nil {
		if e.Type != "user" {
			pictures = nil
		}
		e.Message.Content.dropData(pictures)
	}
	if e.Attachment != nil {
		e.Attachment.Prompt.dropData(pictures)
	}
	// A conversation has no such entries, but a file may repeat the lists in
	// them any number of times.
	e.Request, e.Response, e.Event, e.Compact = nil, nil, nil, compaction{}
	e.Tools, e.Errors, e.UserMessages, e.ModelUsage, e.SinceLast = nil, nil, nil, nil, nil
	return bytes.HasPrefix(bytes.TrimSpace(line), []byte("{"))
}

// blocks returns the number of blocks in the entry.
func (e *entry) blocks() (n int64) {
	if e.Message != nil {
		n = e.Message.Content.count()
	}
	if e.Attachment != nil {
		n += e.Attachment.Prompt.count()
	}
	return n
}

// count returns the number of blocks in c and in its blocks.
func (c content) count() int64 {
	n := int64(cap(c))
	for i := range c {
		n += c[i].Content.count()
	}
	return n
}

// A tree holds the entries of a file by their ids.
type tree struct {
	entries []*entry
	byID    map[string]*entry // of entries with the same id, the last one
	before  map[*entry]*entry // for each entry, the last entry of the main thread before it in the file
}

func newTree(entries []*entry) *tree {
	tr := &tree{entries: entries, byID: make(map[string]*entry, len(entries)), before: make(map[*entry]*entry)}
	var last *entry
	for _, e := range entries {
		tr.byID[e.UUID] = e
		if tr.before[e] = last; !e.IsSidechain {
			last = e
		}
	}
	return tr
}

// parent returns the entry before e in the conversation, also across a
// compaction; nil if there is none. If that entry is missing because its line
// cannot be read, parent returns the entry of the main thread before e in the
// file.
func (tr *tree) parent(e *entry) *entry {
	id := e.ParentUUID
	if id == "" && e.Subtype == "compact_boundary" {
		id = e.LogicalParent
	}
	if id == "" {
		return nil
	}
	if p := tr.byID[id]; p != nil {
		return p
	}
	return tr.before[e]
}

// chain returns the entries of the conversation's current branch, oldest first.
// Unreadable entries are inserted by their position in the file.
//
// The entries form a tree: a rewind, a second writer and every parallel tool
// call create branches. The current branch is the one with the newest leaf of
// the main thread, and includes the tool calls and results that ran in
// parallel. The agent itself resumes from the last compaction; chain also
// returns the entries before it.
func chain(all []*entry) []*entry {
	var gaps, entries []*entry
	for _, e := range all {
		if e.Type == unreadable {
			gaps = append(gaps, e)
		} else {
			entries = append(entries, e)
		}
	}
	tr := newTree(entries)
	var path []*entry
	on := make(map[string]bool)
	for e := tr.newestLeaf(); e != nil && !on[e.UUID]; e = tr.parent(e) {
		on[e.UUID] = true
		path = append(path, e)
	}
	slices.Reverse(path)
	return withGaps(tr.reattach(path, on), gaps)
}

// withGaps inserts each unreadable entry before the first entry of path that
// follows it in the file.
func withGaps(path, gaps []*entry) []*entry {
	out := make([]*entry, 0, len(path)+len(gaps))
	for _, e := range path {
		for len(gaps) > 0 && gaps[0].place < e.place {
			out, gaps = append(out, gaps[0]), gaps[1:]
		}
		out = append(out, e)
	}
	return append(out, gaps...)
}

// newestLeaf returns the leaf of the current branch. For each leaf it finds the
// nearest message: the leaf itself or an entry above it. It returns the leaf
// whose message is in the main thread and is the last one in the file.
//
// The time is linear in the number of entries, for any number of leaves.
func (tr *tree) newestLeaf() *entry {
	nearest := make(map[*entry]*entry, len(tr.entries))
	hasChild := make(map[string]bool)
	for _, e := range tr.byID {
		if p := tr.parent(e); p != nil {
			hasChild[p.UUID] = true
		}
	}
	var best, bestMessage, fallback *entry
	for _, e := range tr.entries {
		if hasChild[e.UUID] || tr.byID[e.UUID] != e {
			continue
		}
		message := tr.nearestMessage(e, nearest)
		if message == nil {
			continue
		}
		fallback = e
		if message.IsSidechain || message.TeamName != "" || message.IsMeta {
			continue
		}
		if bestMessage == nil || message.place >= bestMessage.place {
			best, bestMessage = e, message
		}
	}
	if best == nil {
		return fallback
	}
	return best
}

// nearestMessage returns e if it is a message, or else the nearest message
// above it; nil if there is none. known has the results of earlier calls. It
// has nil for the entries that this call has visited, so that a cycle ends the
// search.
func (tr *tree) nearestMessage(e *entry, known map[*entry]*entry) *entry {
	var passed []*entry
	var found *entry
	for ; e != nil; e = tr.parent(e) {
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

// reattach inserts the tool calls and results that ran in parallel. Each of
// them is a branch, so a walk from the leaf finds only one.
func (tr *tree) reattach(path []*entry, on map[string]bool) []*entry {
	lastOf := make(map[string]int) // native message → index of its last entry on the path
	for i, e := range path {
		if id := e.messageID(); id != "" {
			lastOf[id] = i
		}
	}
	siblings, results := make(map[string][]*entry), make(map[string][]*entry)
	for _, e := range tr.entries {
		if on[e.UUID] || e.IsSidechain || tr.byID[e.UUID] != e {
			continue
		}
		if id := e.messageID(); id != "" {
			siblings[id] = append(siblings[id], e)
		} else if p := tr.byID[e.ParentUUID]; p != nil && e.isResult() && p.messageID() != "" {
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

// messageID returns the id of the native message of an assistant entry; "" for
// other entries.
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

// result returns an entry with results of tools as a frame, as the agent prints
// it.
func (e *entry) result() frame {
	f := e.frame
	f.ToolUseResult = e.StoredResult
	return f
}
