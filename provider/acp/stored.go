package acp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/agentconn"
	"github.com/runnel-dev/runnel/internal/jsonl"
	"github.com/runnel-dev/runnel/internal/translate"
)

// Bounds of the file of a conversation, in bytes.
const (
	maxStored     = 64 << 20
	maxStoredLine = 16 << 20 // a longer line is skipped
)

// A storedUpdate is an update of the protocol with which the agent could have
// replayed a part of a stored conversation. The translator handles it like one
// of a replay.
type storedUpdate struct {
	at     time.Time
	update any    // becomes JSON
	model  string // model of the turn that the update begins
	usage  *usage // of a model call
	whole  bool   // a message of the model ends with the update
}

// encode returns the update as the agent would write it.
func (u storedUpdate) encode() json.RawMessage {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(u.update) // it consists of strings and of valid JSON
	return bytes.TrimSpace(b.Bytes())
}

// Find implements [runnel.Finder]. It starts no process.
func (f filed) Find(ctx context.Context, id string) (runnel.Conversation, error) {
	none := runnel.Fail(runnel.SessionNotFound, f.of.DisplayName()+" has no such conversation")
	if uuid.Validate(id) != nil {
		return runnel.Conversation{}, none
	}
	var found []runnel.Conversation
	for file, err := range f.StoredFiles(ctx) {
		if err != nil {
			return runnel.Conversation{}, err
		}
		if !named(file.Path, id) {
			continue
		}
		if c, err := f.Summarize(ctx, file); err == nil && c.AgentSessionID == id {
			found = append(found, c)
		}
	}
	if len(found) == 0 {
		return runnel.Conversation{}, none
	}
	slices.SortFunc(found, func(a, b runnel.Conversation) int { return b.UpdatedAt.Compare(a.UpdatedAt) })
	for _, c := range found[1:] {
		found[0].Older = append(found[0].Older, c.File)
	}
	return found[0], nil
}

// Writers implements [runnel.WriterFinder]. The agent does not tell which
// processes have a conversation open.
func (filed) Writers(context.Context) (list []runnel.Writer, known bool) { return nil, false }

// Written implements [runnel.WriterFinder].
func (f filed) Written(ctx context.Context, ref runnel.Conversation) (at time.Time) {
	for file, err := range f.StoredFiles(ctx) {
		if err == nil && uuid.Validate(ref.AgentSessionID) == nil && named(file.Path, ref.AgentSessionID) && file.ModTime.After(at) {
			at = file.ModTime
		}
	}
	return f.of.own.others(ref.AgentSessionID, at)
}

// readable reads the conversations in an agent's files.
type readable struct{ filed }

// PositionalTurns implements [runnel.PositionalHistorian]. The agent does not
// store the ids of turns, so turns match by their order.
func (readable) PositionalTurns() {}

// ReadsFiles implements [runnel.FileHistorian].
func (readable) ReadsFiles() {}

// History implements [runnel.Historian]. It reads the conversation from the
// agent's file, and translates it like a replay of the agent.
func (f readable) History(ctx context.Context, ref runnel.Conversation) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		evs, err := f.whole(ctx, ref)
		for _, ev := range evs {
			if !yield(ev, nil) {
				return
			}
		}
		if err != nil {
			yield(event.Event{}, err)
		}
	}
}

// whole returns all events of a conversation.
func (f readable) whole(ctx context.Context, ref runnel.Conversation) ([]event.Event, error) {
	c, err := f.locate(ctx, ref)
	if err != nil {
		return nil, err
	}
	evs, end, err := f.read(ctx, c.AgentSessionID, c.File, ref.Pictures)
	return append(evs, end...), err
}

// locate returns the conversation with its file.
func (f readable) locate(ctx context.Context, ref runnel.Conversation) (runnel.Conversation, error) {
	c, err := f.Find(ctx, ref.AgentSessionID)
	if err == nil && ref.File != "" && ref.File != c.File {
		if !slices.Contains(c.Older, ref.File) {
			return c, runnel.Fail(runnel.SessionNotFound, "the file does not belong to the conversation")
		}
		c.File = ref.File
	}
	return c, err
}

// read translates the file of a conversation. end has the events that end its
// last turn. For pictures see [runnel.Conversation].
func (f readable) read(ctx context.Context, id, file string, pictures func([]byte)) (evs, end []event.Event, err error) {
	lines, err := f.lines(ctx, file)
	if err != nil {
		return nil, nil, err
	}
	return f.of.replayed(ctx, id, f.of.agent.quirks().stored.updates(lines), pictures)
}

// replayed translates the updates for a stored conversation. For the results see
// [readable.read].
func (p *provider) replayed(ctx context.Context, id string, updates []storedUpdate, pictures func([]byte)) (evs, end []event.Event, err error) {
	t := newTranslator(p.agent)
	t.session.id, t.replay = id, &replay{show: true}
	t.out.Pictures = pictures
	for _, u := range updates {
		if ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
		t.out.Begin(u.at)
		if u.model != "" {
			t.session.settings.model = u.model
		}
		if u.update != nil {
			t.update(updateOf(u.encode()))
		}
		if t.turns.now != nil {
			t.turns.now.add(u.usage)
		}
		if t.turns.now != nil && u.whole {
			t.turns.now.threads.of("").close()
		}
	}
	if t.turns.now != nil {
		t.replay.showPrompt(&t.turns)
	}
	evs = t.out.Take()
	t.endReplay()
	return evs, t.out.Take(), nil
}

// lines returns the complete lines of a conversation's file.
func (f readable) lines(ctx context.Context, path string) (lines [][]byte, err error) {
	missing := func(err error) error {
		return runnel.Fail(runnel.SessionNotFound, f.of.DisplayName()+"'s file of the conversation cannot be read", err)
	}
	file, st, err := agentconn.OpenStored(f.dir(), path)
	if err != nil {
		return nil, missing(err)
	}
	defer file.Close()
	if st.Size() > maxStored {
		return nil, runnel.Fail(runnel.PayloadTooLarge, "the conversation's file is larger than 64 MiB")
	}
	in := jsonl.NewReader(io.LimitReader(file, maxStored), maxStoredLine)
	for {
		line, err := in.Next()
		_, tooLong := errors.AsType[*jsonl.TooLongError](err)
		switch {
		case errors.Is(err, io.EOF):
			return lines, nil
		case tooLong:
		case err != nil:
			return nil, missing(err)
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case !in.Torn() && json.Valid(line):
			lines = append(lines, bytes.Clone(line))
		}
	}
}

// searchable reads the text of the conversations in an agent's files, and
// follows them.
type searchable struct{ filed }

// ReadStored implements [runnel.StoredReader].
func (f searchable) ReadStored(ctx context.Context, ref runnel.Conversation) iter.Seq2[event.Event, error] {
	return readable(f).History(ctx, ref)
}

// A shellText is the output of a command as Gemini CLI and Qwen Code give it to
// the model.
type shellText string

// plain returns the output without the lines that the agent adds.
func (s shellText) plain() string {
	text := strings.TrimSuffix(strings.TrimPrefix(string(s), "<untrusted_context>\n"), "\n</untrusted_context>")
	text, ours := strings.CutPrefix(text, "Output: ")
	if !ours {
		return text
	}
	if at := strings.LastIndex(text, "\nProcess Group PGID: "); at >= 0 {
		text = text[:at]
	}
	if text == "(empty)" {
		return ""
	}
	return text
}

// storedTools has the kinds of the tools of Gemini CLI and Qwen Code, which
// their files do not store.
var storedTools = map[string]event.ToolKind{
	"read_file": event.KindRead, "read_many_files": event.KindRead,
	"write_file": event.KindEdit, "replace": event.KindEdit, "edit": event.KindEdit, "notebook_edit": event.KindEdit,
	"run_shell_command": event.KindExecute, "monitor": event.KindExecute,
	"list_directory": event.KindSearch, "glob": event.KindSearch, "grep_search": event.KindSearch, "search_file_content": event.KindSearch, "google_web_search": event.KindSearch, "web_search": event.KindSearch, "lsp": event.KindSearch,
	"web_fetch":   event.KindFetch,
	"save_memory": event.KindThink, "todo_write": event.KindThink, "ask_user_question": event.KindThink,
	"exit_plan_mode": event.KindSwitchMode, "enter_plan_mode": event.KindSwitchMode,
}

// storedLocations returns the locations of a call that reads or changes a file.
func storedLocations(kind event.ToolKind, args json.RawMessage) []map[string]any {
	if kind != event.KindRead && kind != event.KindEdit {
		return nil
	}
	in := translate.DecodeLenient[struct {
		File     string `json:"file_path"`
		Absolute string `json:"absolute_path"`
	}](args)
	for _, path := range []string{in.File, in.Absolute} {
		if filepath.IsAbs(path) {
			return []map[string]any{{"path": path}}
		}
	}
	return nil
}
