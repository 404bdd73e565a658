package acp

import (
	"context"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/agentconn"
)

// storedQuirks describe the files in which an agent stores conversations. An
// agent without them lists its conversations itself, if it can.
type storedQuirks struct {
	dir     func(env []string) string           // folder that contains all files
	pattern string                              // paths of the files below dir; see [agentconn.StoredFiles]
	line    func(*agentconn.Summary, []byte)    // reads one line of a file
	folder  func(dir, file, cwd string) string  // the conversation's directory, where line found cwd. Default: cwd
	updates func(lines [][]byte) []storedUpdate // returns the updates for the lines of a file. Default: the agent replays conversations

	// onlySearch means that updates serves only the search and a conversation
	// that is followed. The agent replays a conversation that is opened.
	onlySearch bool
	// database returns the path of a database in place of the files.
	database func(env []string) string
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

// StoredPlaces implements [runnel.Placer].
func (f filed) StoredPlaces() []runnel.StoredPlace {
	return []runnel.StoredPlace{{Dir: f.dir(), Pattern: f.of.agent.quirks().stored.pattern}}
}

// StoredFile implements [runnel.Placer].
func (f filed) StoredFile(path string) (runnel.StoredFile, bool) {
	return agentconn.StoredFile(f.dir(), f.of.agent.quirks().stored.pattern, path)
}

// Summarize implements [runnel.Summarizer]. A file without a prompt contains
// no conversation: the agent writes one when it starts.
func (f filed) Summarize(_ context.Context, file runnel.StoredFile) (runnel.Conversation, error) {
	q, dir := f.of.agent.quirks().stored, f.dir()
	return agentconn.Summarizer{
		Agent: f.of.DisplayName(), Dir: dir, Head: summaryHead, Tail: summaryTail, Line: q.line,
		Complete: func(s *agentconn.Summary) bool {
			if q.folder != nil {
				s.Dir = q.folder(dir, file.Path, s.Dir)
			}
			return uuid.Validate(s.ID) == nil && named(file.Path, s.ID) && s.Prompt != ""
		},
	}.Summarize(file)
}

// named reports whether the name of a file is that of the conversation id. It
// ends with the id, or with the first eight characters of the id, or its folder
// has the id as name.
func named(file, id string) bool {
	name := strings.TrimSuffix(filepath.Base(file), ".jsonl")
	return name == id || strings.HasSuffix(name, "-"+id[:8]) || filepath.Base(filepath.Dir(file)) == id
}

// storedPart is a part of a stored message.
type storedPart struct {
	Text string `json:"text"`
}
