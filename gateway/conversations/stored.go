package conversations

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"maps"
	"slices"
)

// A Stored is a conversation in files. State changes whenever one of these
// files changes, or when the conversation gains or loses a file.
type Stored struct {
	Conversation
	State string
}

// Stored looks for changed files of the kinds of agents that want selects, waits
// until they are summarized, and returns the conversations in these files,
// newest change first. want is called with mu held. incomplete has the CLITypes
// of the selected agents of which conversations may be missing, because their
// files could not be listed or are too many.
func (x *Index) Stored(ctx context.Context, want func(cliType string) bool) (list []Stored, incomplete map[string]bool, err error) {
	for _, done := range x.refresh(Query{only: want}) {
		select {
		case <-done:
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	incomplete = make(map[string]bool)
	for _, s := range x.sources {
		if s.files == nil || !want(s.cliType) {
			continue
		}
		if !s.complete {
			incomplete[s.cliType] = true
		}
		states := s.states()
		for _, c := range s.conversations() {
			list = append(list, Stored{c, states[c.AgentSessionID]})
		}
	}
	slices.SortFunc(list, func(a, b Stored) int { return order(a.Conversation, b.Conversation) })
	return list, incomplete, nil
}

// states returns the State of each conversation, by its id. The caller holds
// Index.mu.
func (s *source) states() map[string]string {
	sums := make(map[string]hash.Hash)
	for _, path := range slices.Sorted(maps.Keys(s.entries)) {
		e := s.entries[path]
		if e.none {
			continue
		}
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
