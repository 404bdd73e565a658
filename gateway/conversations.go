package gateway

import (
	"context"
	"path/filepath"
	"slices"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/gateway/conversations"
	"github.com/runnel-dev/runnel/store"
)

// ConversationsFile is the name of the index of conversations in the data
// directory.
const ConversationsFile = "conversations.index"

// openConversations returns the index of the conversations that agents have
// stored. If the configuration does not list them, it returns nil and deletes
// the index of an earlier process.
func openConversations(cfg Config) *conversations.Index {
	file := ""
	if cfg.DataDir != "" {
		file = filepath.Join(cfg.DataDir, ConversationsFile)
	}
	if !cfg.Conversations {
		if file != "" {
			if err := conversations.Remove(file); err != nil {
				cfg.Logger.Warn("the index of conversations cannot be deleted", "error", err)
			}
		}
		return nil
	}
	c := conversations.Config{Providers: cfg.Providers, File: file, Logger: cfg.Logger}
	if cfg.Filter != nil {
		c.Redact = redactor(cfg)
	}
	return conversations.New(c)
}

// redactor returns a function that removes the secrets that cfg.Filter, which
// must not be nil, removes from events.
func redactor(cfg Config) func(string) string {
	return func(s string) string { return cfg.Filter(runnel.Options{}).Text(s) }
}

// A Conversation is one that an agent of this machine has stored.
type Conversation struct {
	conversations.Conversation
	SessionID string `json:"sessionId,omitempty" doc:"Id of the newest session that continues the conversation. Absent if the conversation is not a session yet."`

	Hidden bool `json:"hidden,omitempty" doc:"Whether the conversation is hidden, because its session was deleted. Only with the parameter hidden."`

	Writer *runnel.Writer `json:"writer,omitempty" doc:"A process outside of Runnel that has the conversation open, such as the agent in a terminal. Absent if there is none, or if a writer cannot be known."`
}

// A ConversationPage is a part of the list of conversations.
type ConversationPage struct {
	Conversations []Conversation `json:"conversations" doc:"The conversations, newest change first."`
	Next          string         `json:"next,omitempty" doc:"Position for the parameter after of the next page. Absent on the last page."`
	Checking      []string       `json:"checking,omitempty" doc:"Kinds of agents whose conversations are still being read. Their conversations may be missing or outdated; repeat the request later."`
	Disabled      bool           `json:"disabled,omitempty" doc:"Whether the server lists no conversations, because its setting list-conversations is false."`
}

// A ConversationQuery selects stored conversations.
type ConversationQuery struct {
	CLIType    string // Default: all kinds of agents
	ProjectDir string // Default: all directories
	After      string // ConversationPage.Next of the page before. Default: the first page
	Limit      int    // maximum number of conversations
	Hidden     bool   // also those whose session was deleted. Default: they are left out, so that a page may have fewer conversations
}

// Conversations lists the conversations that the agents of a Gateway have
// stored, whether or not they are sessions.
type Conversations struct{ g *Gateway }

// ConversationsOf returns the stored conversations of the agents of g.
func ConversationsOf(g *Gateway) Conversations { return Conversations{g} }

// List returns the conversations that q selects, newest change first; see
// [conversations.Index.List]. If ctx is from [WithProject], it returns only
// conversations of that project.
func (c Conversations) List(ctx context.Context, q ConversationQuery) (ConversationPage, error) {
	out := ConversationPage{Conversations: []Conversation{}}
	if c.g.stored == nil {
		out.Disabled = true
		return out, nil
	}
	own := onlyProject(ctx)
	if q.ProjectDir != "" && q.ProjectDir != own {
		q.ProjectDir = canonical(q.ProjectDir)
	}
	if own != "" {
		if q.ProjectDir != "" && q.ProjectDir != own {
			return out, nil
		}
		q.ProjectDir = own
	}
	if q.CLIType != "" {
		p, err := c.g.opener.providers.Choose(q.CLIType)
		if err != nil {
			return out, err
		}
		q.CLIType = p.Name()
	}
	page, err := c.g.stored.List(ctx, conversations.Query{CLIType: q.CLIType, ProjectDir: q.ProjectDir, After: q.After, Limit: q.Limit})
	if err != nil {
		return out, err
	}
	out.Next, out.Checking = page.Next, page.Checking
	continued, err := c.continued(ctx, page.Conversations, own)
	if err != nil {
		return out, storeError(err)
	}
	for _, found := range page.Conversations {
		listed := Conversation{Conversation: found, SessionID: continued[keyOf(found)].ID}
		listed.Hidden = listed.SessionID == "" && c.g.hidden.isHidden(keyOf(found))
		if !listed.Hidden || q.Hidden {
			out.Conversations = append(out.Conversations, listed)
		}
	}
	c.g.writers.mark(ctx, out.Conversations)
	return out, nil
}

// Changed returns a channel that is closed once a conversation in a file has
// changed after version. It is never closed if conversations are not listed.
func (c Conversations) Changed(version int64) <-chan struct{} {
	if c.g.stored == nil {
		return nil
	}
	return c.g.stored.Grown(version)
}

// Changes reports whether a conversation of a project has changed after version,
// or any conversation if project is "". It returns the version for the next
// call. A watcher starts with a negative version.
func (c Conversations) Changes(version int64, project string) (changed bool, now int64) {
	if c.g.stored == nil {
		return false, 0
	}
	list, all, now := c.g.stored.Changes(version)
	return all || slices.ContainsFunc(list, func(of conversations.Changed) bool { return project == "" || of.ProjectDir == project }), now
}

// keyOf returns the reference by which clients name a conversation that is no
// session.
func keyOf(c conversations.Conversation) string { return c.CLIType + ":" + c.AgentSessionID }

// continued returns the newest session that continues each of the
// conversations, by keyOf. If dir is not empty, it searches only the sessions of
// that project.
func (c Conversations) continued(ctx context.Context, list []conversations.Conversation, dir string) (map[string]store.Session, error) {
	ids := make(map[string][]string) // by kind of agent
	for _, found := range list {
		ids[found.CLIType] = append(ids[found.CLIType], found.AgentSessionID)
	}
	var open []store.Session // clients may know an agent's id before the record with it is written
	isOpen := make(map[string]bool)
	for _, e := range c.g.sessions.all() {
		rec, _ := e.snapshot()
		open, isOpen[rec.ID] = append(open, rec), true
	}
	newest := make(map[string]store.Session)
	for _, p := range c.g.cfg.Providers {
		owner := conversations.Owner(p)
		if len(ids[owner]) == 0 {
			continue
		}
		sessions, err := c.g.cfg.Catalogue.SessionsByAgent(ctx, p.Name(), ids[owner]...)
		if err != nil {
			return nil, err
		}
		sessions = slices.DeleteFunc(sessions, func(r store.Session) bool { return isOpen[r.ID] })
		for _, rec := range append(sessions, open...) {
			key := owner + ":" + rec.AgentSessionID
			if rec.CLIType != p.Name() || rec.AgentSessionID == "" || rec.State == event.StateLoading || dir != "" && rec.ProjectDir != dir {
				continue
			}
			if old, ok := newest[key]; !ok || rec.CreatedAt.After(old.CreatedAt) {
				newest[key] = rec
			}
		}
	}
	return newest, nil
}
