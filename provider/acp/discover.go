package acp

import (
	"context"
	"encoding/json"
	"iter"
	"slices"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/agentconn"
	"github.com/runnel-dev/runnel/internal/jsonrpc"
	"github.com/runnel-dev/runnel/internal/text"
	"github.com/runnel-dev/runnel/internal/translate"
)

// Maximum numbers of pages and of conversations that list reads.
const (
	maxPages  = 1000
	maxListed = 100_000
)

// listed is a page of the agent's list of conversations.
type listed struct {
	Sessions []json.RawMessage `json:"sessions"`
	Next     string            `json:"nextCursor"`
}

type listedSession struct {
	ID      string    `json:"sessionId"`
	Dir     string    `json:"cwd"`
	Title   string    `json:"title"`
	Updated time.Time `json:"updatedAt"`
}

// SharesWith implements [runnel.Sharer].
func (p *provider) SharesWith() string { return p.agent.Shares }

// Discover implements [runnel.Discoverer]. It starts an agent, reads its list
// of stored conversations, and stops it.
func (p listingProvider) Discover(ctx context.Context, dir string) iter.Seq2[runnel.Conversation, error] {
	return func(yield func(runnel.Conversation, error) bool) {
		if _, _, err := p.command(runnel.Options{}); err != nil {
			return // not installed
		}
		found, err := p.list(ctx, dir)
		for _, c := range found {
			if !yield(c, nil) {
				return
			}
		}
		if err != nil {
			yield(runnel.Conversation{}, err)
		}
	}
}

func (p listingProvider) list(ctx context.Context, dir string) (found []runnel.Conversation, err error) {
	ctx, cancel := context.WithTimeout(ctx, historyTimeout)
	defer cancel()
	opt := runnel.Options{Dir: agentconn.EmptyDir()} // a project may have settings of its own
	c, err := p.start(ctx, opt)
	if err != nil {
		return nil, err
	}
	err = c.Handshake(ctx, func(next func() ([]byte, error)) error {
		h := handshake{p: p.provider, c: c, opt: opt}
		if err := h.run(next); err != nil {
			return err
		}
		found, err = h.list(dir)
		return err
	})
	if err == nil {
		err = c.Close()
	}
	return found, err
}

// list reads the agent's list of conversations, newest first. The list is empty
// if the agent cannot list conversations or is not logged in.
func (h *handshake) list(dir string) (found []runnel.Conversation, err error) {
	if !h.c.tr.session.caps.List {
		return nil, nil
	}
	params := map[string]any{}
	if dir != "" {
		params["cwd"] = dir
	}
	seen := map[string]bool{}
	for range maxPages {
		m, err := h.call(jsonrpc.ID{}, methodList, params)
		if err != nil {
			return found, err
		}
		if m.Error != nil {
			if m.Error.Code == codeAuthRequired {
				return found, nil // not logged in
			}
			return found, runnel.Fail(runnel.AgentError, h.p.DisplayName()+" failed to list its conversations: "+reasonOf(m.Error.Message), m.Error)
		}
		page := translate.DecodeLenient[listed](m.Result)
		for _, raw := range page.Sessions {
			s := translate.DecodeLenient[listedSession](raw)
			if s.ID == "" || len(s.ID) > 500 || seen[s.ID] || len(s.Dir) > 4096 || dir != "" && s.Dir != dir || len(found) >= maxListed {
				continue
			}
			seen[s.ID] = true
			found = append(found, runnel.Conversation{AgentSessionID: s.ID, Dir: s.Dir, Title: text.OneLine(runnel.TitleOf(s.Title), 200), UpdatedAt: s.Updated})
		}
		if page.Next == "" || page.Next == params["cursor"] || len(found) >= maxListed {
			break
		}
		params["cursor"] = page.Next
	}
	slices.SortStableFunc(found, func(a, b runnel.Conversation) int { return b.UpdatedAt.Compare(a.UpdatedAt) })
	return found, nil
}
