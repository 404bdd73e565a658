package codex

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"iter"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/agentconn"
	"github.com/runnel-dev/runnel/internal/translate"
)

// Bytes that Summarize reads at the two ends of a file. The first line of a
// file contains the agent's instructions, and the lines up to the first prompt
// contain those of the user and of skills.
const (
	summaryHead = 128 << 10
	summaryTail = 64 << 10
)

// maxNames is the number of bytes that are read at the end of the file with the
// names of conversations.
const maxNames = 1 << 20

// StoredFiles implements [runnel.Summarizer].
func (p *Provider) StoredFiles(ctx context.Context) iter.Seq2[runnel.StoredFile, error] {
	return func(yield func(runnel.StoredFile, error) bool) {
		home := p.home()
		names := threadNames(home)
		for _, at := range []struct{ dir, pattern string }{
			{"sessions", "*/*/*/rollout-*.jsonl"}, {"archived_sessions", "rollout-*.jsonl"},
		} {
			for f, err := range agentconn.StoredFiles(ctx, filepath.Join(home, at.dir), at.pattern) {
				id := rolloutID(f.Path)
				if err == nil && id == "" {
					continue
				}
				f.Title = names[id]
				if !yield(f, err) {
					return
				}
			}
		}
	}
}

// rolloutID returns the conversation's id in the name of a file, or "".
func rolloutID(file string) string {
	m := rollout.FindStringSubmatch(filepath.Base(file))
	if m == nil {
		return ""
	}
	return m[1]
}

// threadNames returns the names that users gave to conversations, by id. The
// agent appends each change to one file, session_index.jsonl.
func threadNames(home string) map[string]string {
	ends, err := agentconn.ReadEnds(home, filepath.Join(home, "session_index.jsonl"), 0, maxNames)
	if err != nil {
		return nil
	}
	names := make(map[string]string)
	for line := range bytes.Lines(ends.Tail) {
		named := translate.DecodeLenient[struct {
			ID   string `json:"id"`
			Name string `json:"thread_name"`
		}](line)
		names[named.ID] = oneLine(named.Name, 200)
	}
	return names
}

// Summarize implements [runnel.Summarizer]. It reports threads of subagents as
// missing: they are part of the conversation that started them.
func (p *Provider) Summarize(_ context.Context, f runnel.StoredFile) (runnel.Conversation, error) {
	ends, err := agentconn.ReadEnds(p.home(), f.Path, summaryHead, summaryTail)
	if err != nil {
		return runnel.Conversation{}, runnel.Fail(runnel.SessionNotFound, "the file cannot be read", err)
	}
	var s rolloutSummary
	for _, part := range [][]byte{ends.Head, ends.Tail} {
		for line := range bytes.Lines(part) {
			s.add(line)
		}
	}
	if s.id == "" || s.id != rolloutID(f.Path) || !filepath.IsAbs(s.dir) {
		return runnel.Conversation{}, runnel.Fail(runnel.SessionNotFound, "the file is not a conversation with Codex")
	}
	return runnel.Conversation{
		AgentSessionID: s.id, Dir: s.dir, File: f.Path, Size: f.Size, CreatedAt: s.created, UpdatedAt: f.ModTime,
		Title: oneLine(cmp.Or(f.Title, runnel.TitleOf(s.prompt)), 200), LastMessage: oneLine(s.lastMessage, 200),
	}, nil
}

// rolloutSummary has the facts in a file that describe its conversation.
type rolloutSummary struct {
	id, dir     string
	created     time.Time
	prompt      string // the first one
	lastMessage string
}

// add reads one line of the file.
func (s *rolloutSummary) add(line []byte) {
	switch {
	case bytes.Contains(line, []byte(`"type":"session_meta"`)) && s.id == "":
		s.begin(line)
	case bytes.Contains(line, []byte(`"type":"UserMessage"`)), bytes.Contains(line, []byte(`"type":"AgentMessage"`)):
		s.said(line)
	}
}

// begin reads the line that describes the conversation.
func (s *rolloutSummary) begin(line []byte) {
	l := translate.DecodeLenient[struct {
		Type    string `json:"type"`
		Payload struct {
			ID      string          `json:"id"`
			CWD     string          `json:"cwd"`
			Created time.Time       `json:"timestamp"`
			Source  json.RawMessage `json:"source"` // an object for a subagent
		} `json:"payload"`
	}](line)
	if l.Type != "session_meta" || bytes.HasPrefix(l.Payload.Source, []byte("{")) {
		return
	}
	s.id, s.dir, s.created = l.Payload.ID, l.Payload.CWD, l.Payload.Created
	if u, err := url.Parse(s.dir); err == nil && u.Scheme == "file" {
		s.dir = u.Path
	}
}

// said reads the line of a finished message.
func (s *rolloutSummary) said(line []byte) {
	l := translate.DecodeLenient[struct {
		Payload struct {
			Type string `json:"type"`
			Item struct {
				Type    string `json:"type"`
				Content []struct {
					Text string `json:"text"`
				} `json:"content"`
			} `json:"item"`
		} `json:"payload"`
	}](line)
	if l.Payload.Type != "item_completed" {
		return
	}
	var words strings.Builder
	for _, c := range l.Payload.Item.Content {
		words.WriteString(c.Text)
	}
	switch l.Payload.Item.Type {
	case "UserMessage":
		s.prompt = cmp.Or(s.prompt, words.String())
	case "AgentMessage":
	default:
		return
	}
	s.lastMessage = cmp.Or(words.String(), s.lastMessage)
}
