package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A listedConversation is what this program reads of a list of conversations.
type listedConversation struct {
	AgentSessionID string    `json:"agentSessionId"`
	UpdatedAt      time.Time `json:"updatedAt"`
}

// conversations returns all conversations that the server lists, in pages of
// 500, and whether the server is still reading some.
func (s *runnel) conversations(ctx context.Context) (all []listedConversation, checking bool, err error) {
	for after := ""; ; {
		body, _, err := s.get(ctx, "/api/conversations?limit=500&after="+url.QueryEscape(after))
		if err != nil {
			return nil, false, err
		}
		var page struct {
			Conversations []listedConversation
			Next          string
			Checking      []string
		}
		if err := json.Unmarshal(body, &page); err != nil {
			return nil, false, err
		}
		all, checking = append(all, page.Conversations...), checking || len(page.Checking) > 0
		if after = page.Next; after == "" {
			return all, checking, nil
		}
	}
}

// complete lists the conversations until the server has read all of them, and
// holds returns true. It returns how long that took.
func (s *runnel) complete(ctx context.Context, holds func([]listedConversation) bool) (time.Duration, error) {
	for began := time.Now(); ; {
		all, checking, err := s.conversations(ctx)
		if err != nil {
			return 0, err
		}
		if !checking && holds(all) {
			return time.Since(began), nil
		}
		if err := ctx.Err(); err != nil {
			return 0, err
		}
	}
}

// stored returns a server that does not run yet, and the conversations that
// agents have stored in its home directory in a year.
func (b *bench) stored() (*runnel, *year, error) {
	s, err := newRunnel(b.w, b.w.path("bin"))
	if err != nil {
		return nil, nil, err
	}
	b.w.logf("writing %s conversations with %d MB", thousands(b.size.year), b.size.yearMB)
	y, err := newYear(b.w.root, s.home)
	if err == nil {
		err = y.write(b.size.year, int64(b.size.yearMB)<<20)
	}
	return s, y, err
}

// conversationRows measures the list of the conversations that agents have
// stored in a year.
func (b *bench) conversationRows(ctx context.Context) error {
	s, y, err := b.stored()
	if err != nil {
		return err
	}
	if err := s.start(ctx); err != nil {
		return err
	}
	defer func() { s.stop() }()
	whole := func(all []listedConversation) bool { return len(all) == y.count }
	cold, err := s.complete(ctx, whole)
	if err != nil {
		return fmt.Errorf("%d conversations: %w", y.count, err)
	}
	s.stop() // stores the index
	if err := s.start(ctx); err != nil {
		return err
	}
	restarted, err := s.complete(ctx, whole)
	if err != nil {
		return err
	}
	var warm, changed []time.Duration
	for range 3 * b.size.rounds {
		took, err := s.complete(ctx, whole)
		if err != nil {
			return err
		}
		warm = append(warm, took)
	}
	for range b.size.rounds {
		id, at, err := y.touch()
		if err != nil {
			return err
		}
		took, err := s.complete(ctx, func(all []listedConversation) bool {
			return slices.ContainsFunc(all, func(c listedConversation) bool { return c.AgentSessionID == id && !c.UpdatedAt.Before(at) })
		})
		if err != nil {
			return err
		}
		changed = append(changed, took)
	}
	what := fmt.Sprintf("%s stored conversations in %s", thousands(y.count), megabytes(int(y.bytes)))
	b.report.add(row{
		ID: "conversations cold", What: what + ": first list of all, without an index", Ours: millis(cold), Numbers: []number{atMost("", ms(cold), "ms", 60_000)},
		Note: "in pages of 500, until the server has read the beginning and the end of every file",
	})
	b.report.add(row{
		ID: "conversations warm", What: what + ": list of all", Ours: millis(median(warm)), Numbers: []number{atMost("", ms(median(warm)), "ms", 1000)},
		Note: fmt.Sprintf("median of %d, in pages of 500; after a restart of the server %s", len(warm), millis(restarted)),
	})
	b.report.add(row{
		ID: "conversations changed", What: what + ": list of all that shows a change of one file", Ours: millis(median(changed)), Numbers: []number{atMost("", ms(median(changed)), "ms", 1000)},
		Note: fmt.Sprintf("median of %d, in pages of 500", len(changed)),
	})
	return nil
}

// touch appends a line to one of the files of Claude Code, and returns the id
// of the conversation and the time of the change.
func (y *year) touch() (id string, at time.Time, err error) {
	err = filepath.WalkDir(filepath.Join(y.home, ".claude", "projects"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		id, at = strings.TrimSuffix(filepath.Base(path), ".jsonl"), time.Now().Add(-time.Second)
		if _, err = f.WriteString(`{"type":"summary"}` + "\n"); err != nil {
			return err
		}
		return filepath.SkipAll
	})
	return id, at, err
}
