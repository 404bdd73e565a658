package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
)

// A year makes the files that agents store about the conversations of a year.
// It repeats the lines that the real agents stored in the recordings of the
// providers, with new ids, times and texts.
type year struct {
	home  string
	words string // text from which the texts of conversations are cut
	lex   *lexicon
	end   time.Time
	from  []storedRecording
	count int   // conversations
	bytes int64 // in their files
}

// A storedRecording is the file of one recorded conversation.
type storedRecording struct {
	agent string
	lines []map[string]any
}

// storedIn lists, by agent, the recordings whose files a year repeats, and the
// part of each hundred conversations that are of this agent.
var storedIn = []struct {
	agent, pattern string
	percent        int
}{
	{"claude", "provider/claude/testdata/*@2.1.330.txtar", 50},
	{"codex", "provider/codex/testdata/stored/text@*.txtar", 30},
	{"gemini", "provider/acp/testdata/gemini/stored/*.txtar", 10},
	{"qwen", "provider/acp/testdata/qwen/stored/*.txtar", 10},
}

// newYear reads the recordings below root, the repository.
func newYear(root, home string) (*year, error) {
	y := &year{home: home, lex: newLexicon(), end: time.Now().Add(-time.Hour).UTC().Truncate(time.Second)}
	y.words = y.lex.text(8 << 20)
	for _, kind := range storedIn {
		files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(kind.pattern)))
		if err != nil {
			return nil, err
		}
		n := len(y.from)
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			if lines := storedLines(data); len(lines) > 0 {
				y.from = append(y.from, storedRecording{kind.agent, lines})
			}
		}
		if len(y.from) == n {
			return nil, fmt.Errorf("no recording of %s has a stored conversation", kind.pattern)
		}
	}
	return y, nil
}

var archived = regexp.MustCompile(`(?m)^-- (.*) --\n`)

// storedLines returns the lines of the only conversation that a recording has
// as a file. It returns none if the conversation has several files, or none.
func storedLines(archive []byte) (lines []map[string]any) {
	at := archived.FindAllSubmatchIndex(archive, -1)
	for i, m := range at {
		name := string(archive[m[2]:m[3]])
		if !strings.HasSuffix(name, ".jsonl") {
			continue
		}
		if lines != nil {
			return nil
		}
		end := len(archive)
		if i+1 < len(at) {
			end = at[i+1][0]
		}
		for line := range bytes.Lines(archive[m[1]:end]) {
			var v map[string]any
			if json.Unmarshal(line, &v) == nil { // some recordings have an incomplete line
				lines = append(lines, v)
			}
		}
	}
	return lines
}

// write writes n conversations with size bytes in all. The first is the oldest.
func (y *year) write(n int, size int64) error {
	for i := range n {
		at := y.end.Add(-time.Duration(n-i) * 365 * 24 * time.Hour / time.Duration(n))
		room := int(size / int64(n))
		switch i % 10 { // a few conversations are long
		case 0:
			room *= 4
		case 1, 2, 3:
			room = room * 4 / 3
		default:
			room /= 3
		}
		if err := y.conversation(i, at, room); err != nil {
			return err
		}
	}
	return nil
}

// conversation writes conversation i, which begins at a time, with at least
// this many bytes.
func (y *year) conversation(i int, at time.Time, size int) error {
	name, percent := "", i*37%100
	for _, kind := range storedIn {
		if percent -= kind.percent; percent < 0 {
			name = kind.agent
			break
		}
	}
	from := slices.DeleteFunc(slices.Clone(y.from), func(r storedRecording) bool { return r.agent != name })
	c := &repeating{y: y, rec: from[y.lex.r.IntN(len(from))], id: uuid.NewString(), at: at, dir: filepath.Join(y.home, "work", fmt.Sprintf("project-%d", i%40))}
	for c.out.Len() < size {
		if err := c.again(); err != nil {
			return err
		}
	}
	path, err := c.path()
	if err != nil {
		return err
	}
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, c.out.Bytes(), 0o600), os.Chtimes(path, c.at, c.at)); err != nil {
		return err
	}
	y.count, y.bytes = y.count+1, y.bytes+int64(c.out.Len())
	return nil
}

// A repeating writes one conversation: the recorded lines, again and again.
type repeating struct {
	y     *year
	rec   storedRecording
	id    string
	at    time.Time // of the next line
	begun time.Time
	dir   string
	out   bytes.Buffer

	ids   map[string]string // new ids, by recorded id
	texts map[string]string // new texts, by recorded text
	last  any               // id of the last line, to which the next one is joined
}

// path returns the path of the file, as the agent would name it.
func (c *repeating) path() (string, error) {
	home, folder := c.y.home, strings.ReplaceAll(c.dir, string(filepath.Separator), "-")
	switch c.rec.agent {
	case "claude":
		return filepath.Join(home, ".claude", "projects", folder, c.id+".jsonl"), nil
	case "codex":
		return filepath.Join(home, ".codex", "sessions", c.begun.Format("2006/01/02"), "rollout-"+c.begun.Format("2006-01-02T15-04-05")+"-"+c.id+".jsonl"), nil
	case "qwen":
		return filepath.Join(home, ".qwen", "projects", folder, "chats", c.id+".jsonl"), nil
	}
	project := filepath.Join(home, ".gemini", "tmp", filepath.Base(c.dir))
	return filepath.Join(project, "chats", "session-"+c.begun.Format("2006-01-02T15-04")+"-"+c.id[:8]+".jsonl"), errors.Join(
		os.MkdirAll(project, 0o700), os.WriteFile(filepath.Join(project, ".project_root"), []byte(c.dir), 0o600))
}

// again writes the recorded lines once more.
func (c *repeating) again() error {
	first := c.out.Len() == 0
	if first {
		c.begun = c.at
	}
	c.ids, c.texts = make(map[string]string), make(map[string]string)
	for _, v := range c.rec.lines {
		if set, ok := v["$set"].(map[string]any); !first && (v["type"] == "session_meta" || v["kind"] == "main" || ok && set["messages"] != nil) {
			continue // only the beginning of a conversation has these
		}
		c.at = c.at.Add(time.Duration(1+c.y.lex.r.IntN(20)) * time.Second)
		line := c.renew(v, "").(map[string]any)
		if parent, has := line["parentUuid"]; has && parent == nil && c.last != nil {
			line["parentUuid"] = c.last
		}
		if line["uuid"] != nil {
			c.last = line["uuid"]
		}
		data, err := json.Marshal(line)
		if err != nil {
			return err
		}
		c.out.Write(data)
		c.out.WriteByte('\n')
	}
	return nil
}

var (
	recordedID   = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	recordedTime = regexp.MustCompile(`^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$`)
	recordedDir  = regexp.MustCompile(`/tmp/runnel-fixture[^/]*/project`)
)

// textKeys are the keys of strings that people or models have written.
var textKeys = []string{"text", "content", "message", "output", "stdout", "lastPrompt", "last_agent_message", "response_text", "aggregated_output"}

// renew returns a recorded value with new ids, times, texts and folders.
func (c *repeating) renew(v any, key string) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[k] = c.renew(e, k)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = c.renew(e, key)
		}
		return out
	case string:
		switch {
		case recordedTime.MatchString(v):
			return c.at.Format("2006-01-02T15:04:05.000Z")
		case slices.Contains(textKeys, key) && len(v) > 3 && !strings.HasPrefix(v, "<"):
			return c.text(v)
		}
		return recordedDir.ReplaceAllLiteralString(recordedID.ReplaceAllStringFunc(v, c.newID), c.dir)
	}
	return v
}

// newID returns the id that stands for a recorded one. The first id of a
// recording with this end is that of the conversation.
func (c *repeating) newID(old string) string {
	if old == c.rec.conversation() {
		return c.id
	}
	if c.ids[old] == "" {
		c.ids[old] = uuid.NewString()
	}
	return c.ids[old]
}

// conversation returns the recorded id of the conversation.
func (r storedRecording) conversation() string {
	for _, v := range r.lines {
		if p, ok := v["payload"].(map[string]any); ok && v["type"] == "session_meta" {
			return fmt.Sprint(p["id"])
		}
		if id, ok := v["sessionId"].(string); ok {
			return id
		}
	}
	return ""
}

// text returns words in place of a recorded text: always the same in place of
// the same one, because agents store some texts twice.
func (c *repeating) text(old string) string {
	if c.texts[old] == "" {
		at := c.y.lex.r.IntN(len(c.y.words) - 4000)
		cut := c.y.words[at : at+60+c.y.lex.r.IntN(3000)]
		_, cut, _ = strings.Cut(cut, " ")
		c.texts[old] = cut
	}
	return c.texts[old]
}
