package claude

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"

	"github.com/google/uuid"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/agentconn"
	"github.com/runnel-dev/runnel/internal/text"
)

// peek is the number of bytes that describe reads at each end of a file.
const peek = 64 << 10

// Discover implements [runnel.Discoverer]. It reads only the beginning and the
// end of each file.
func (p *Provider) Discover(ctx context.Context, dir string) iter.Seq2[runnel.Conversation, error] {
	return func(yield func(runnel.Conversation, error) bool) {
		root, err := agentconn.OpenFolder(p.projectsDir())
		if err != nil {
			return // the agent has stored no conversations
		}
		defer root.Close()
		seen := make(map[string]bool) // by conversation; of several files, the newest is used
		for _, c := range list(root, dir) {
			if ctx.Err() != nil {
				yield(runnel.Conversation{}, ctx.Err())
				return
			}
			if seen[c.AgentSessionID] || !describe(root.Name(), &c) {
				continue
			}
			seen[c.AgentSessionID] = true
			if !yield(c, nil) {
				return
			}
		}
	}
}

// list returns the conversations below projects, newest first. It sets only the
// id, the file, the size and the time of the last change.
func list(root *os.Root, dir string) []runnel.Conversation {
	folders := []string{slug(dir)}
	if dir == "" {
		folders = agentconn.ReadFolder(root, ".")
	}
	var names []string
	for _, folder := range folders {
		for _, name := range agentconn.ReadFolder(root, folder) {
			names = append(names, path.Join(folder, name))
		}
	}
	var out []runnel.Conversation
	for _, name := range names {
		id, ok := strings.CutSuffix(path.Base(name), ".jsonl")
		if !ok {
			continue
		}
		st, err := root.Lstat(name)
		if err != nil || !st.Mode().IsRegular() || uuid.Validate(id) != nil {
			continue
		}
		out = append(out, runnel.Conversation{
			AgentSessionID: id, File: filepath.Join(root.Name(), filepath.FromSlash(name)), Size: st.Size(), UpdatedAt: st.ModTime(),
		})
	}
	slices.SortStableFunc(out, newest)
	return out
}

// storedPattern matches the files of conversations below projectsDir.
const storedPattern = "*/*.jsonl"

// StoredPlaces implements [runnel.Placer].
func (p *Provider) StoredPlaces() []runnel.StoredPlace {
	return []runnel.StoredPlace{{Dir: p.projectsDir(), Pattern: storedPattern}}
}

// StoredFile implements [runnel.Placer].
func (p *Provider) StoredFile(path string) (f runnel.StoredFile, ok bool) {
	if conversationID(path) == "" {
		return f, false
	}
	return agentconn.StoredFile(p.projectsDir(), storedPattern, path)
}

// StoredFiles implements [runnel.Summarizer].
func (p *Provider) StoredFiles(ctx context.Context) iter.Seq2[runnel.StoredFile, error] {
	return func(yield func(runnel.StoredFile, error) bool) {
		for f, err := range agentconn.StoredFiles(ctx, p.projectsDir(), storedPattern) {
			if (err != nil || conversationID(f.Path) != "") && !yield(f, err) {
				return
			}
		}
	}
}

// Summarize implements [runnel.Summarizer].
func (p *Provider) Summarize(_ context.Context, f runnel.StoredFile) (runnel.Conversation, error) {
	c := runnel.Conversation{AgentSessionID: conversationID(f.Path), File: f.Path, Size: f.Size, UpdatedAt: f.ModTime}
	if c.AgentSessionID == "" || !describe(p.projectsDir(), &c) {
		return runnel.Conversation{}, notStored(nil)
	}
	return c, nil
}

// projectsDir returns the folder that has a folder for each directory in which
// the agent was used.
func (p *Provider) projectsDir() string { return filepath.Join(configDir(p.parent()), "projects") }

// conversationID returns the id in the name of a conversation's file, or "".
func conversationID(file string) string {
	id := strings.TrimSuffix(filepath.Base(file), ".jsonl")
	if uuid.Validate(id) != nil {
		return ""
	}
	return id
}

// describe sets the conversation's directory, time of creation, title and last
// message from its file below projects. It reports whether the file holds a
// conversation. It leaves out a directory whose conversations are in another
// folder: an agent in a sandbox can write any directory into the files of its own
// folder.
func describe(projects string, c *runnel.Conversation) bool {
	ends, err := agentconn.ReadEnds(projects, c.File, peek, peek)
	if err != nil {
		return false
	}
	k := fileSummary{folder: filepath.Base(filepath.Dir(c.File))}
	k.addAll(ends.Head)
	k.addAll(ends.Tail)
	c.Dir, c.CreatedAt, c.Title = k.cwd, k.created, text.OneLine(cmp.Or(k.title, k.lastPrompt), 200)
	c.LastMessage = text.OneLine(k.lastMessage, 200)
	return k.hasMessages || c.Title != ""
}

// fileSummary has the facts in a file that describe its conversation.
type fileSummary struct {
	folder                 string // that contains the file
	title, lastPrompt, cwd string
	other                  string // directory of the entry before
	lastMessage            string
	created                time.Time
	hasMessages            bool
}

// add reads one line of the file.
func (k *fileSummary) add(line []byte) {
	var e entry
	if err := json.Unmarshal(line, &e); err != nil {
		if _, ok := errors.AsType[*json.UnmarshalTypeError](err); !ok {
			return
		}
	}
	if k.cwd == "" && e.CWD != k.other {
		if folderName(e.CWD) == k.folder || slug(e.CWD) == k.folder {
			k.cwd = e.CWD
		}
		k.other = e.CWD
	}
	if at := e.time(); k.created.IsZero() && !at.IsZero() {
		k.created = at
	}
	switch {
	case e.CustomTitle != "":
		k.title = e.CustomTitle
	case e.AITitle != "" && k.title == "":
		k.title = e.AITitle
	case e.LastPrompt != "":
		k.lastPrompt = e.LastPrompt
	case e.Type == "assistant":
		k.hasMessages = true // the prompt may be outside the part that was read
		k.said(&e)
	case e.Type == "user" && !e.IsMeta && !e.isResult() && e.Message != nil:
		k.hasMessages = true
		prompt, _ := e.Message.Content.withoutWarning()
		if promptText := prompt.text(); k.lastPrompt == "" && !strings.HasPrefix(promptText, "<") {
			k.lastPrompt = promptText
		}
		k.said(&e)
	}
}

// said sets the last message to the text of an entry, if the user or the model
// wrote it in the main thread.
func (k *fileSummary) said(e *entry) {
	if e.Message == nil || e.IsSidechain || e.IsCompactSummary || e.Message.Model == syntheticModel {
		return
	}
	words, _ := e.Message.Content.withoutWarning()
	said := words.text()
	if said != "" && !strings.HasPrefix(said, "<") && !strings.HasPrefix(said, interruptedByUser) {
		k.lastMessage = said
	}
}

// addAll reads the lines of data.
func (k *fileSummary) addAll(data []byte) {
	for line := range bytes.Lines(data) {
		k.add(line)
	}
}

// slug returns the name of the folder below projects in which the agent stores
// the conversations of a directory.
func slug(dir string) string {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	return folderName(dir)
}

// folderName is slug for a path as the agent wrote it, which has no links unless
// the directory was replaced since.
func folderName(dir string) string {
	units := utf16.Encode([]rune(dir))
	out := make([]byte, 0, len(units))
	var hash int32
	for _, u := range units {
		hash = hash<<5 - hash + int32(u)
		if u < 128 && (u >= 'a' && u <= 'z' || u >= 'A' && u <= 'Z' || u >= '0' && u <= '9') {
			out = append(out, byte(u))
		} else {
			out = append(out, '-')
		}
	}
	if len(out) <= 200 {
		return string(out)
	}
	h := int64(hash)
	return string(out[:200]) + "-" + strconv.FormatInt(max(h, -h), 36)
}
