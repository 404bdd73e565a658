package acp

import (
	"bytes"
	"cmp"
	"context"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/agentconn"
	"github.com/runnel-dev/runnel/internal/text"
)

// storedQuirks describe the files in which an agent stores conversations. An
// agent without them lists its conversations itself, if it can.
type storedQuirks struct {
	dir     func(env []string) string           // folder that contains all files
	pattern string                              // paths of the files below dir; see [agentconn.StoredFiles]
	line    func(*storedSummary, []byte)        // reads one line of a file
	folder  func(dir, file string) string       // the conversation's directory. Default: line sets it
	updates func(lines [][]byte) []storedUpdate // returns the updates for the lines of a file. Default: the agent replays conversations

	database func(env []string) string // path of a database in place of the files
}

// Bytes that Summarize reads at the two ends of a file.
const (
	summaryHead = 64 << 10
	summaryTail = 64 << 10
)

// filed lists the conversations in an agent's files.
type filed struct{ of *provider }

func (f filed) dir() string {
	return f.of.agent.quirks().stored.dir(slices.Concat(os.Environ(), f.of.env))
}

// StoredFiles implements [runnel.Summarizer].
func (f filed) StoredFiles(ctx context.Context) iter.Seq2[runnel.StoredFile, error] {
	return agentconn.StoredFiles(ctx, f.dir(), f.of.agent.quirks().stored.pattern)
}

// Summarize implements [runnel.Summarizer]. A file without a prompt contains
// no conversation: the agent writes one when it starts.
func (f filed) Summarize(_ context.Context, file runnel.StoredFile) (runnel.Conversation, error) {
	q, dir := f.of.agent.quirks().stored, f.dir()
	ends, err := agentconn.ReadEnds(dir, file.Path, summaryHead, summaryTail)
	if err != nil {
		return runnel.Conversation{}, runnel.Fail(runnel.SessionNotFound, "the file cannot be read", err)
	}
	var s storedSummary
	for _, part := range [][]byte{ends.Head, ends.Tail} {
		for line := range bytes.Lines(part) {
			q.line(&s, line)
		}
	}
	if q.folder != nil {
		s.dir = q.folder(dir, file.Path)
	}
	if uuid.Validate(s.id) != nil || !named(file.Path, s.id) || s.prompt == "" || !filepath.IsAbs(s.dir) {
		return runnel.Conversation{}, runnel.Fail(runnel.SessionNotFound, "the file is not a conversation with "+f.of.DisplayName())
	}
	return runnel.Conversation{
		AgentSessionID: s.id, Dir: s.dir, File: file.Path, Size: file.Size, CreatedAt: s.created, UpdatedAt: file.ModTime,
		Title: text.OneLine(runnel.TitleOf(s.prompt), 200), LastMessage: text.OneLine(s.lastMessage, 200),
	}, nil
}

// named reports whether the name of a file is that of the conversation id. It
// ends with the id, or with the first eight characters of the id, or its folder
// has the id as name.
func named(file, id string) bool {
	name := strings.TrimSuffix(filepath.Base(file), ".jsonl")
	return name == id || strings.HasSuffix(name, "-"+id[:8]) || filepath.Base(filepath.Dir(file)) == id
}

// storedSummary has the facts in a file that describe its conversation.
type storedSummary struct {
	id, dir     string
	created     time.Time
	prompt      string // the first one
	lastMessage string
}

// storedPart is a part of a stored message.
type storedPart struct {
	Text string `json:"text"`
}

// prompted adds a prompt of the user.
func (s *storedSummary) prompted(words string) {
	s.prompt = cmp.Or(s.prompt, words)
	s.said(words)
}

// said adds a message of the user or the agent.
func (s *storedSummary) said(words string) { s.lastMessage = cmp.Or(words, s.lastMessage) }
