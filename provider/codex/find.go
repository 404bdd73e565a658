package codex

import (
	"context"
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/agentconn"
	"github.com/runnel-dev/runnel/internal/translate"
)

// Find implements [runnel.Finder]. It finds a conversation by file name and
// starts no app-server.
func (p *Provider) Find(_ context.Context, id string) (runnel.Conversation, error) {
	absent := runnel.Fail(runnel.SessionNotFound, "Codex has no such conversation.")
	if uuid.Validate(id) != nil {
		return runnel.Conversation{}, absent
	}
	home := homeOf(p.program)
	var files []string
	for _, dir := range []string{filepath.Join("sessions", "*", "*", "*"), "archived_sessions"} {
		for _, pattern := range rollouts(id) {
			found, _ := filepath.Glob(filepath.Join(quoteMeta(home), dir, pattern)) // the pattern is valid
			files = append(files, found...)
		}
	}
	slices.SortFunc(files, newestRollout)
	for i, file := range files { // reverting a conversation to an earlier turn starts another file
		if c, ok := meta(file, id); ok {
			c.Older = files[i+1:]
			return c, nil
		}
	}
	return runnel.Conversation{}, absent
}

// newestRollout compares two files of a conversation, so that a sort puts the
// newest first. A file name begins with the creation time of the conversation.
// It ends with an id that contains the creation time of the file.
func newestRollout(a, b string) int {
	name := func(path string) string { return strings.TrimSuffix(filepath.Base(path), ".jsonl") }
	return strings.Compare(name(b), name(a))
}

// quoteMeta returns the glob pattern that matches only path.
func quoteMeta(path string) string {
	if runtime.GOOS == "windows" { // globs have no escapes there; of these characters, paths contain only brackets
		return path
	}
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// meta returns the conversation that the first line of a file describes. It
// reports false if the file is not a conversation with this id.
func meta(file, id string) (c runnel.Conversation, ok bool) {
	f, st, err := agentconn.OpenPlain(os.OpenFile, file)
	if err != nil {
		return c, false
	}
	defer f.Close()
	line, err := firstLine(f)
	if err != nil {
		return c, false
	}
	head := translate.DecodeLenient[struct {
		Type    string          `json:"type"`
		Payload json.RawMessage `json:"payload"`
	}](line)
	about := translate.DecodeLenient[struct {
		ID  string `json:"id"`
		CWD string `json:"cwd"`
	}](head.Payload)
	if head.Type != "session_meta" || about.ID != id {
		return c, false
	}
	if u, err := url.Parse(about.CWD); err == nil && u.Scheme == "file" {
		about.CWD = u.Path
	}
	return runnel.Conversation{AgentSessionID: id, Dir: about.CWD, File: file, Size: st.Size(), UpdatedAt: st.ModTime()}, filepath.IsAbs(about.CWD)
}
