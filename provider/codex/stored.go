package codex

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"maps"
	"net/url"
	"os"
	"slices"
	"strings"
	"unicode"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/translate"
)

// maxRead bounds the files of a conversation that ReadStored reads, in bytes.
const maxRead = 64 << 20

// ReadStored implements [runnel.StoredReader]. It reads the finished items in
// the conversation's files, which have the ids that an app-server returns, and
// starts no app-server. It leaves out the work of subagents.
func (p *Provider) ReadStored(ctx context.Context, ref runnel.Conversation) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		turns, err := storedTurns(ctx, p, ref.AgentSessionID)
		if err != nil {
			yield(event.Event{}, err)
			return
		}
		h := newHistorian(ref.AgentSessionID, func(thread string, _ *string) ([]nativeTurn, *string, error) {
			if thread != ref.AgentSessionID {
				return nil, nil, nil
			}
			return turns, nil, nil
		})
		errStopped := errors.New("stopped")
		err = h.all(func(evs []event.Event) error {
			for _, ev := range evs {
				if !yield(ev, nil) {
					return errStopped
				}
			}
			return ctx.Err()
		})
		if err != nil && !errors.Is(err, errStopped) {
			yield(event.Event{}, err)
		}
	}
}

// storedTurns returns the turns in the files of a conversation that p finds.
func storedTurns(ctx context.Context, p runnel.Finder, id string) ([]nativeTurn, error) {
	c, err := p.Find(ctx, id)
	if err != nil {
		return nil, err
	}
	files, size := append([]string{c.File}, c.Older...), int64(0)
	for _, file := range files {
		if st, err := os.Stat(file); err == nil {
			size += st.Size()
		}
	}
	if size > maxRead {
		return nil, runnel.Fail(runnel.PayloadTooLarge, "the conversation is too large to be read from its files")
	}
	s := &storedLines{ctx: ctx, thread: id, at: make(map[string]int)}
	if err := join(s, files, endless); err != nil && !errors.Is(err, errContinues) {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, runnel.Fail(runnel.AgentError, "the conversation's file cannot be read now", err)
	}
	return s.turns, nil
}

// storedLines collects the turns in the lines of a conversation's files.
type storedLines struct {
	ctx    context.Context
	thread string
	turns  []nativeTurn
	at     map[string]int // index in turns, by id
}

// A storedLine is a line about a turn or a finished item.
type storedLine struct {
	Type    string `json:"type"`
	Payload struct {
		Type        string     `json:"type"` // task_started, task_complete, turn_aborted, item_completed
		Thread      string     `json:"thread_id"`
		Turn        string     `json:"turn_id"`
		Root        string     `json:"root_turn_id"`
		StartedAt   int64      `json:"started_at"`
		CompletedAt int64      `json:"completed_at"`
		Item        storedItem `json:"item"`
		ItemStarted int64      `json:"started_at_ms"`
		ItemEnded   int64      `json:"completed_at_ms"`
	} `json:"payload"`
}

// A storedItem is a finished item in the form of the file.
type storedItem struct {
	Type    string          `json:"type"`
	ID      string          `json:"id"`
	Client  string          `json:"client_id"`
	Phase   string          `json:"phase"`
	Status  string          `json:"status"`
	Content json.RawMessage `json:"content"`
	Text    string          `json:"text"`
	Summary []string        `json:"summary_text"`

	Command []string `json:"command"`
	CWD     string   `json:"cwd"`
	Source  string   `json:"source"`
	Output  string   `json:"aggregated_output"`
	Exit    *int     `json:"exit_code"`

	Changes map[string]struct {
		Type    string `json:"type"` // add, delete, update
		Content string `json:"content"`
		Diff    string `json:"unified_diff"`
		Move    string `json:"move_path"`
	} `json:"changes"`
}

// Write reads one line; see [join]. It ignores a line that has no meaning here.
func (s *storedLines) Write(line []byte) (int, error) {
	l := translate.DecodeLenient[storedLine](line)
	p := &l.Payload
	if l.Type != "event_msg" || p.Turn == "" || p.Thread != "" && p.Thread != s.thread {
		return len(line), s.ctx.Err()
	}
	switch p.Type {
	case "task_started":
		tn := s.turn(p.Turn)
		tn.Root, tn.StartedAt = p.Root, p.StartedAt
	case "task_complete":
		tn := s.turn(p.Turn)
		tn.Status, tn.EndedAt = "completed", p.CompletedAt
	case "turn_aborted":
		tn := s.turn(p.Turn)
		tn.Status, tn.EndedAt = "interrupted", cmp.Or(p.CompletedAt, tn.StartedAt)
	case "item_completed":
		if it, ok := p.Item.native(); ok {
			it.StartedAt, it.CompletedAt = p.ItemStarted, p.ItemEnded
			tn := s.turn(p.Turn)
			tn.Items = append(tn.Items, it)
		}
	}
	return len(line), s.ctx.Err()
}

// turn returns the turn with this id.
func (s *storedLines) turn(id string) *nativeTurn {
	i, known := s.at[id]
	if !known {
		i = len(s.turns)
		s.at[id], s.turns = i, append(s.turns, nativeTurn{ID: id, Status: "inProgress"})
	}
	return &s.turns[i]
}

// native returns the item as an app-server returns it. It reports false for a
// type of item that has no text to search.
func (it storedItem) native() (item, bool) {
	out := item{ID: it.ID, Status: it.Status}
	switch it.Type {
	case "UserMessage":
		out.Type, out.ClientID, out.Content = "userMessage", it.Client, it.Content
	case "AgentMessage":
		out.Type, out.Phase = "agentMessage", it.Phase
		for _, part := range translate.Each[struct {
			Text string `json:"text"`
		}](it.Content) {
			out.Text += part.Text
		}
	case "Plan":
		out.Type, out.Text = "plan", it.Text
	case "Reasoning":
		out.Type, out.Summary = "reasoning", it.Summary
	case "CommandExecution":
		out.Type, out.Source, out.Output, out.Exit = "commandExecution", it.Source, it.Output, it.Exit
		out.Command, out.CWD = joinWords(it.Command), it.CWD
		if u, err := url.Parse(it.CWD); err == nil && u.Scheme == "file" {
			out.CWD = u.Path
		}
	case "FileChange":
		out.Type = "fileChange"
		for _, path := range slices.Sorted(maps.Keys(it.Changes)) {
			c := it.Changes[path]
			change := fileChange{Path: path, Diff: cmp.Or(c.Diff, c.Content)}
			change.Kind.Type, change.Kind.Move = c.Type, c.Move
			out.Changes = append(out.Changes, change)
		}
	default:
		return out, false
	}
	return out, true
}

// joinWords joins the words of a command as a shell reads them.
func joinWords(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = w
		if w == "" || strings.ContainsFunc(w, func(r rune) bool {
			return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("_-./:=@%+,", r)
		}) {
			quoted[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return strings.Join(quoted, " ")
}
