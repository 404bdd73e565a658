package codex

import (
	"bytes"
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

// namesFile has the names that users gave to conversations.
const namesFile = "session_index.jsonl"

// rolloutPlaces returns where the files of conversations are.
func rolloutPlaces(home string) []runnel.StoredPlace {
	return []runnel.StoredPlace{
		{Dir: filepath.Join(home, "sessions"), Pattern: "*/*/*/rollout-*.jsonl"},
		{Dir: filepath.Join(home, "archived_sessions"), Pattern: "rollout-*.jsonl"},
	}
}

// StoredPlaces implements [runnel.Placer].
func (p *Provider) StoredPlaces() []runnel.StoredPlace {
	home := homeOf(p.program)
	return append(rolloutPlaces(home), runnel.StoredPlace{Dir: home, Pattern: namesFile, Shared: true})
}

// StoredFile implements [runnel.Placer].
func (p *Provider) StoredFile(path string) (f runnel.StoredFile, ok bool) {
	home, id := homeOf(p.program), rolloutID(path)
	if id == "" {
		return f, false
	}
	for _, at := range rolloutPlaces(home) {
		if f, ok = agentconn.StoredFile(at.Dir, at.Pattern, path); ok {
			f.Title = threadNames(home)[id]
			return f, true
		}
	}
	return f, false
}

// StoredFiles implements [runnel.Summarizer].
func (p *Provider) StoredFiles(ctx context.Context) iter.Seq2[runnel.StoredFile, error] {
	return func(yield func(runnel.StoredFile, error) bool) {
		home := homeOf(p.program)
		names := threadNames(home)
		for _, at := range rolloutPlaces(home) {
			for f, err := range agentconn.StoredFiles(ctx, at.Dir, at.Pattern) {
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
// agent appends each change to one file, namesFile.
func threadNames(home string) map[string]string {
	ends, err := agentconn.ReadEnds(home, filepath.Join(home, namesFile), 0, maxNames)
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
	return agentconn.Summarizer{
		Agent: product.Name, Dir: homeOf(p.program), Head: summaryHead, Tail: summaryTail, Line: summarizeLine,
		Complete: func(s *agentconn.Summary) bool { return s.ID != "" && s.ID == rolloutID(f.Path) },
	}.Summarize(f)
}

// summarizeLine reads one line of the file.
func summarizeLine(s *agentconn.Summary, line []byte) {
	switch {
	case bytes.Contains(line, []byte(`"type":"session_meta"`)) && s.ID == "":
		summarizeMeta(s, line)
	case bytes.Contains(line, []byte(`"type":"UserMessage"`)), bytes.Contains(line, []byte(`"type":"AgentMessage"`)):
		summarizeMessage(s, line)
	}
}

// summarizeMeta reads the line that describes the conversation.
func summarizeMeta(s *agentconn.Summary, line []byte) {
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
	s.ID, s.Dir, s.Created = l.Payload.ID, l.Payload.CWD, l.Payload.Created
	if u, err := url.Parse(s.Dir); err == nil && u.Scheme == "file" {
		s.Dir = u.Path
	}
}

// summarizeMessage reads the line of a finished message.
func summarizeMessage(s *agentconn.Summary, line []byte) {
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
		s.Prompted(words.String())
	case "AgentMessage":
		s.Said(words.String())
	}
}
