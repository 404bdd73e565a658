package agentconn

import (
	"bytes"
	"cmp"
	"path/filepath"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/text"
)

// A Summary has the facts in a stored file that describe its conversation.
type Summary struct {
	ID, Dir     string // id and directory of the conversation
	Created     time.Time
	Prompt      string // the first one
	LastMessage string
}

// Prompted adds a prompt of the user.
func (s *Summary) Prompted(words string) {
	s.Prompt = cmp.Or(s.Prompt, words)
	s.Said(words)
}

// Said adds a message of the user or the agent.
func (s *Summary) Said(words string) { s.LastMessage = cmp.Or(words, s.LastMessage) }

// A Summarizer summarizes the conversations in an agent's files, which have one
// JSON object per line.
type Summarizer struct {
	Agent      string // name of the agent, for errors
	Dir        string // folder that contains all files
	Head, Tail int64  // bytes that are read at the two ends of a file

	// Line reads one line of a file.
	Line func(s *Summary, line []byte)

	// Complete reports whether a file contains a conversation, after all lines
	// have been read. It may add facts that are not in the file.
	Complete func(s *Summary) bool
}

// Summarize returns the conversation in a file, as described for
// [runnel.Summarizer].
func (r Summarizer) Summarize(f runnel.StoredFile) (runnel.Conversation, error) {
	ends, err := ReadEnds(r.Dir, f.Path, r.Head, r.Tail)
	if err != nil {
		return runnel.Conversation{}, runnel.Fail(runnel.SessionNotFound, "the file cannot be read", err)
	}
	var s Summary
	for _, part := range [][]byte{ends.Head, ends.Tail} {
		for line := range bytes.Lines(part) {
			r.Line(&s, line)
		}
	}
	if !r.Complete(&s) || !filepath.IsAbs(s.Dir) {
		return runnel.Conversation{}, runnel.Fail(runnel.SessionNotFound, "the file is not a conversation with "+r.Agent)
	}
	return runnel.Conversation{
		AgentSessionID: s.ID, Dir: s.Dir, File: f.Path, Size: f.Size, CreatedAt: s.Created, UpdatedAt: f.ModTime,
		Title: text.OneLine(cmp.Or(f.Title, runnel.TitleOf(s.Prompt)), 200), LastMessage: text.OneLine(s.LastMessage, 200),
	}, nil
}
