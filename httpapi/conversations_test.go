package httpapi

import (
	"context"
	"fmt"
	"iter"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/provider/script"
)

// storing is the scripted agent with stored conversations.
type storing struct {
	runnel.Provider
	stored []runnel.Conversation
}

func (s storing) StoredFiles(context.Context) iter.Seq2[runnel.StoredFile, error] {
	return func(yield func(runnel.StoredFile, error) bool) {
		for i, c := range s.stored {
			if !yield(runnel.StoredFile{Path: filepath.Join("/agent", fmt.Sprint(i)), ModTime: c.UpdatedAt, Size: int64(i)}, nil) {
				return
			}
		}
	}
}

func (s storing) Summarize(_ context.Context, f runnel.StoredFile) (runnel.Conversation, error) {
	return s.stored[f.Size], nil
}

// withStored lets the server list these conversations.
func withStored(stored ...runnel.Conversation) func(*Config, *gateway.Config) {
	return func(_ *Config, c *gateway.Config) {
		c.Providers, c.Conversations = []runnel.Provider{storing{script.New(), stored}}, true
	}
}

// storingMore is an agent that has stored another conversation each time its
// files are listed.
type storingMore struct {
	runnel.Provider
	lists atomic.Int64
}

func (*storingMore) Name() string { return "storing" }

func (s *storingMore) StoredFiles(context.Context) iter.Seq2[runnel.StoredFile, error] {
	return func(yield func(runnel.StoredFile, error) bool) {
		for i := range s.lists.Add(1) {
			if !yield(runnel.StoredFile{Path: filepath.Join("/agent", fmt.Sprint(i)), Size: i}, nil) {
				return
			}
		}
	}
}

func (*storingMore) Summarize(_ context.Context, f runnel.StoredFile) (runnel.Conversation, error) {
	return runnel.Conversation{AgentSessionID: fmt.Sprint(f.Size), Dir: "/agent"}, nil
}

func idsOf(p gateway.ConversationPage) []string {
	out := []string{}
	for _, c := range p.Conversations {
		out = append(out, c.AgentSessionID)
	}
	return out
}

func TestStoredConversationsAreListedByPage(t *testing.T) {
	a, b := t.TempDir(), t.TempDir()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var stored []runnel.Conversation
	for i := range 5 {
		dir := a
		if i%2 == 1 {
			dir = b
		}
		stored = append(stored, runnel.Conversation{AgentSessionID: fmt.Sprint(i), Dir: dir, Title: fmt.Sprint("title ", i), LastMessage: "end", CreatedAt: at, UpdatedAt: at.Add(time.Duration(i) * time.Minute), Size: 7})
	}
	rg := newRig(t, withStored(stored...))
	list := func(query string) gateway.ConversationPage {
		t.Helper()
		return call[gateway.ConversationPage](rg, "GET", "/api/conversations"+query, "", 200)
	}
	all := list("")
	if !slices.Equal(idsOf(all), []string{"4", "3", "2", "1", "0"}) || all.Next != "" || all.Disabled || len(all.Checking) > 0 {
		t.Errorf("%+v", all)
	}
	if c := all.Conversations[0]; c.CLIType != "script" || c.ProjectDir != a || c.Title != "title 4" || c.LastMessage != "end" || !c.CreatedAt.Equal(at) || c.Size != 7 || c.SessionID != "" {
		t.Errorf("%+v", c)
	}
	var paged []string
	for query := "?limit=2"; query != ""; {
		page := list(query)
		paged = append(paged, idsOf(page)...)
		if query = ""; page.Next != "" {
			query = "?limit=2&after=" + page.Next
		}
	}
	if !slices.Equal(paged, idsOf(all)) {
		t.Errorf("pages have %q", paged)
	}
	for query, want := range map[string][]string{
		"?projectDir=" + url.QueryEscape(b): {"3", "1"}, "?cliType=script&limit=1": {"4"}, "?projectDir=/none": {},
		"?projectDir=" + url.QueryEscape(b+"/../"+filepath.Base(b)): {"3", "1"}, "?limit=0": {"4"},
	} {
		if got := idsOf(list(query)); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
	for query, want := range map[string]string{"?after=x": "INVALID_REQUEST", "?limit=-1": "INVALID_REQUEST", "?cliType=none": "UNSUPPORTED_CLI_TYPE"} {
		if w := rg.do("GET", "/api/conversations"+query, ""); w.Code != 400 || code(w) != want {
			t.Errorf("%s: %d %s", query, w.Code, w.Body)
		}
	}
	rg.answers(theDocument(t), "GET", "/api/conversations", "/api/conversations?limit=1", "")
}

func TestStoredConversationNamesItsSession(t *testing.T) {
	rg := newRig(t)
	id := rg.create()
	rg.events(id, rg.prompt(id, "text"))
	native := call[gateway.Status](rg, "GET", "/api/session/"+id+"/status", "", 200).AgentSessionID
	if native == "" {
		t.Fatal("the agent reported no id")
	}
	rg2 := newRig(t, withStored(runnel.Conversation{AgentSessionID: native, Dir: rg.dir}, runnel.Conversation{AgentSessionID: "other", Dir: rg.dir}), func(_ *Config, c *gateway.Config) {
		c.Catalogue, c.Log = rg.cat, rg.log
	})
	page := call[gateway.ConversationPage](rg2, "GET", "/api/conversations", "", 200)
	for _, c := range page.Conversations {
		if want := map[string]string{native: id}[c.AgentSessionID]; c.SessionID != want {
			t.Errorf("%s has the session %q, want %q", c.AgentSessionID, c.SessionID, want)
		}
	}
	if len(page.Conversations) != 2 {
		t.Errorf("%+v", page)
	}
}

// A token of one project sees only conversations of this project, also if a
// file claims a directory that leads there through a link.
func TestStoredConversationsOfOtherProjectsAreInvisible(t *testing.T) {
	mine, theirs := t.TempDir(), t.TempDir()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var stored []runnel.Conversation
	for i, dir := range []string{mine, theirs, mine + "/sub", mine + "/../" + filepath.Base(theirs), filepath.Dir(mine), "", "/"} {
		stored = append(stored, runnel.Conversation{AgentSessionID: fmt.Sprint(i), Dir: dir, UpdatedAt: at})
	}
	rg := newRig(t, withStored(stored...))
	if all := call[gateway.ConversationPage](rg, "GET", "/api/conversations", "", 200); len(all.Conversations) != len(stored) {
		t.Errorf("%+v", all)
	}
	rg.token = rg.bind(mine, "read")
	for query, want := range map[string]string{
		"": "0", "?projectDir=" + url.QueryEscape(mine): "0", "?projectDir=" + url.QueryEscape(theirs): "", "?projectDir=/": "", "?cliType=script": "0", "?projectDir=" + url.QueryEscape(mine+"/sub"): "",
	} {
		page := call[gateway.ConversationPage](rg, "GET", "/api/conversations"+query, "", 200)
		if got := strings.Join(idsOf(page), " "); got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
}

func TestStoredConversationsCanBeSwitchedOff(t *testing.T) {
	rg := newRig(t, withStored(runnel.Conversation{AgentSessionID: "x"}), func(_ *Config, c *gateway.Config) { c.Conversations = false })
	if page := call[gateway.ConversationPage](rg, "GET", "/api/conversations", "", 200); !page.Disabled || len(page.Conversations) != 0 {
		t.Errorf("%+v", page)
	}
}
