package conversations

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"slices"
)

// A Stored is a conversation in files. State changes whenever one of these
// files changes, or when the conversation gains or loses a file.
type Stored struct {
	Conversation
	State string
}

// A Listing has the conversations in files.
type Listing struct {
	Conversations []Stored        // newest change first
	Incomplete    map[string]bool // CLITypes of the agents of which conversations may be missing, because their files could not be listed or are too many
	Version       int64           // for [Index.Changes]
}

// Stored looks for changed files of the kinds of agents that want selects, waits
// until they are summarized, and returns the conversations in these files. want
// is called with mu held.
func (x *Index) Stored(ctx context.Context, want func(cliType string) bool) (Listing, error) {
	if err := x.lookFor(ctx, Query{only: want}); err != nil {
		return Listing{}, err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	l := Listing{Incomplete: make(map[string]bool), Version: x.changes.version}
	for _, s := range x.sources {
		if s.files == nil || !want(s.cliType) {
			continue
		}
		if !s.complete {
			l.Incomplete[s.cliType] = true
		}
		l.Conversations = append(l.Conversations, s.stored(nil)...)
	}
	slices.SortFunc(l.Conversations, func(a, b Stored) int { return order(a.Conversation, b.Conversation) })
	return l, nil
}

// StoredOf returns those of the conversations that the index has in files,
// without looking for changed files.
func (x *Index) StoredOf(keys []Key) (list []Stored) {
	ids := make(map[string]map[string]bool) // by CLIType
	for _, k := range keys {
		if ids[k.CLIType] == nil {
			ids[k.CLIType] = make(map[string]bool)
		}
		ids[k.CLIType][k.AgentSessionID] = true
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, s := range x.sources {
		if only := ids[s.cliType]; only != nil && s.files != nil {
			list = append(list, s.stored(only)...)
		}
	}
	return list
}

// stored returns the conversations in files, or only those whose ids are in
// only, if it is not nil. The caller holds Index.mu.
func (s *source) stored(only map[string]bool) (list []Stored) {
	states := s.states(only)
	for _, c := range s.conversations(only) {
		list = append(list, Stored{c, states[c.AgentSessionID]})
	}
	return list
}

// states returns the State of each conversation, by its id. The caller holds
// Index.mu.
func (s *source) states(only map[string]bool) map[string]string {
	paths := make([]string, 0, len(s.entries))
	for path, e := range s.entries {
		if !e.none && (only == nil || only[e.conversation.AgentSessionID]) {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	sums := make(map[string]hash.Hash)
	for _, path := range paths {
		e := s.entries[path]
		sum := sums[e.conversation.AgentSessionID]
		if sum == nil {
			sum = sha256.New()
			sums[e.conversation.AgentSessionID] = sum
		}
		fmt.Fprintf(sum, "%q %d %d %d\n", path, e.size, e.modTime, e.inode) // a hash returns no error
	}
	states := make(map[string]string, len(sums))
	for id, sum := range sums {
		states[id] = hex.EncodeToString(sum.Sum(nil)[:16])
	}
	return states
}

// A Key identifies a conversation.
type Key struct{ CLIType, AgentSessionID string }

// Known returns those of the conversations that the index has, without looking
// for changed files.
func (x *Index) Known(keys ...Key) map[Key]Conversation {
	known := make(map[Key]Conversation, len(keys))
	if len(keys) == 0 {
		return known
	}
	wanted := make(map[Key]bool, len(keys))
	for _, k := range keys {
		wanted[k] = true
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, c := range x.sorted() {
		if k := (Key{c.CLIType, c.AgentSessionID}); wanted[k] {
			x.redact(&c) // secrets may have become known since the file was read
			known[k] = c
		}
	}
	return known
}
