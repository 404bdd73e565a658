package main

import (
	"cmp"
	"context"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/gateway/conversations"
	"github.com/runnel-dev/runnel/store"
)

// listedRow is a row of 'sessions list': a session, or a conversation that is
// no session.
type listedRow struct {
	session      *gateway.Status
	conversation gateway.Conversation
}

func (r listedRow) active() time.Time {
	if r.session != nil {
		return r.session.LastActiveAt
	}
	return r.conversation.UpdatedAt
}

// value returns the row in the format of the API.
func (r listedRow) value() any {
	if r.session != nil {
		return r.session
	}
	return r.conversation
}

// merged returns sessions, and the conversations that are no sessions, newest
// activity first. It leaves out hidden conversations unless hidden is set.
func merged(rows []gateway.Status, found []gateway.Conversation, hidden bool) []listedRow {
	out := make([]listedRow, 0, len(rows)+len(found))
	for i := range rows {
		out = append(out, listedRow{session: &rows[i]})
	}
	for _, c := range found {
		if c.SessionID == "" && (hidden || !c.Hidden) {
			out = append(out, listedRow{conversation: c})
		}
	}
	slices.SortStableFunc(out, func(a, b listedRow) int { return b.active().Compare(a.active()) })
	return out
}

// tellUnlisted reports whose conversations are missing.
func (a *app) tellUnlisted(page gateway.ConversationPage) {
	if len(page.Checking) > 0 {
		a.stderrf("Still reading the conversations of %s; run the command again to list them.", cell(strings.Join(page.Checking, ", ")))
	}
}

// pageSize is the number of conversations that the command requests at a time.
const pageSize = 500

// conversations returns all pages of the server's list.
func (r remoteSessions) conversations(ctx context.Context) (all gateway.ConversationPage, err error) {
	for after := ""; ; {
		var page gateway.ConversationPage
		if err := r.ad.get(ctx, "/api/conversations?hidden=true&limit=500&after="+url.QueryEscape(after), &page); err != nil {
			return all, err
		}
		all.Conversations = append(all.Conversations, page.Conversations...)
		if after == "" {
			all.Checking, all.Disabled = page.Checking, page.Disabled
		}
		if page.Next == "" || page.Next == after {
			return all, nil
		}
		after = page.Next
	}
}

// askWait is how long a command without a server waits for agents that list
// their conversations themselves.
const askWait = 20 * time.Second

// finder lists the stored conversations without a server.
type finder struct {
	app    *app
	config config
}

// conversations returns the conversations of all agents. recs are the sessions
// of the data directory. If file is not empty, the index is stored there.
func (f finder) conversations(ctx context.Context, recs []store.Session, file string) (all gateway.ConversationPage, err error) {
	if !f.config.ListConversations {
		return gateway.ConversationPage{Disabled: true}, nil
	}
	if err := f.app.useAgents(f.config.file, f.config.agents); err != nil {
		return all, err
	}
	f.app.knowKeys(f.config.agents)
	hidden, err := gateway.HiddenConversations(f.config.Data)
	if err != nil {
		return all, err
	}
	x := conversations.New(conversations.Config{
		Providers: f.app.providers, File: file, Redact: f.app.secrets.String, MaxWait: askWait, Logger: f.app.logger(f.config),
	})
	defer x.Close()
	owners := make(map[string]string)
	for _, p := range f.app.providers {
		owners[p.Name()] = conversations.Owner(p)
	}
	type key struct{ cliType, id string }
	ours := make(map[key]store.Session)
	for _, r := range recs {
		k := key{cmp.Or(owners[r.CLIType], r.CLIType), r.AgentSessionID}
		if known, ok := ours[k]; !ok || r.CreatedAt.After(known.CreatedAt) {
			ours[k] = r
		}
	}
	for q := (conversations.Query{Limit: pageSize}); ; {
		page, err := x.List(ctx, q)
		if err != nil {
			return all, err
		}
		for _, c := range page.Conversations {
			session := ours[key{c.CLIType, c.AgentSessionID}].ID
			all.Conversations = append(all.Conversations, gateway.Conversation{Conversation: c, SessionID: session, Hidden: session == "" && hidden[c.CLIType+":"+c.AgentSessionID]})
		}
		if q.After == "" {
			all.Checking = page.Checking
		}
		if q.After = page.Next; q.After == "" {
			gateway.WritersOf(ctx, f.app.providers, all.Conversations)
			return all, nil
		}
	}
}

func (n noSessions) conversations(ctx context.Context) (gateway.ConversationPage, error) {
	return n.find.conversations(ctx, nil, "")
}

func (l localSessions) conversations(ctx context.Context) (gateway.ConversationPage, error) {
	recs, err := l.st.Sessions(ctx, store.SessionFilter{Dead: true, Trim: gateway.Described})
	if err != nil {
		return gateway.ConversationPage{}, err
	}
	return l.find.conversations(ctx, recs, filepath.Join(l.find.config.Data, gateway.ConversationsFile))
}
