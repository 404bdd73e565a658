package acp

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"iter"
	"maps"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/translate"
)

const (
	// maxStoredParts bounds the parts of a conversation that ReadStored reads.
	maxStoredParts = 50_000
	// storedTime limits how long ReadStored may read the database.
	storedTime = 30 * time.Second
)

// ReadStored implements [runnel.StoredReader]. It reads the conversation from
// the agent's database, and translates it like a replay of the agent.
func (k kept) ReadStored(ctx context.Context, ref runnel.Conversation) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		updates, err := k.updates(ctx, ref, false)
		var evs, end []event.Event
		if err == nil {
			evs, end, err = k.of.replayed(ctx, ref.AgentSessionID, updates, ref.Pictures)
		}
		for _, ev := range append(evs, end...) {
			if !yield(ev, nil) {
				return
			}
		}
		if err != nil {
			yield(event.Event{}, err)
		}
	}
}

// updates returns the updates for a conversation in the database. If onlyFinal is
// set, they end before the first part that the agent still changes.
func (k kept) updates(ctx context.Context, ref runnel.Conversation, onlyFinal bool) (out []storedUpdate, err error) {
	c, err := k.Find(ctx, ref.AgentSessionID)
	if err != nil {
		return nil, err
	}
	parts := 0
	err = k.readFor(ctx, storedTime, func(ctx context.Context, db *sql.DB) (err error) {
		if err = db.QueryRowContext(ctx, "SELECT count(*) FROM (SELECT 1 FROM part WHERE session_id = ? LIMIT ?)", c.AgentSessionID, maxStoredParts+1).Scan(&parts); err == nil && parts <= maxStoredParts && c.Size <= maxStored {
			out, err = storedParts(ctx, db, c, onlyFinal)
		}
		return err
	})
	if err == nil && (parts > maxStoredParts || c.Size > maxStored) {
		err = runnel.Fail(runnel.PayloadTooLarge, "the conversation is too large to be read from the agent's database")
	}
	return out, err
}

// storedParts returns the updates for the parts of a conversation's messages,
// in the order of the agent's replay. For onlyFinal see [kept.updates].
func storedParts(ctx context.Context, db *sql.DB, c runnel.Conversation, onlyFinal bool) (out []storedUpdate, err error) {
	messages, err := storedMessages(ctx, db, c.AgentSessionID)
	if err != nil {
		return nil, err
	}
	parts, err := db.PrepareContext(ctx, "SELECT id, time_created, time_updated, data FROM part WHERE message_id = ? AND session_id = ? ORDER BY id LIMIT ?")
	if err != nil {
		return nil, err
	}
	defer parts.Close()
	for i, m := range messages {
		if m.grows = onlyFinal && i == len(messages)-1 && !m.finished; m.grows && m.role == "user" {
			break // the agent stores the parts of a prompt one after another, and then its own message
		}
		m.dir = cmp.Or(m.dir, c.Dir)
		rows, err := parts.QueryContext(ctx, m.message, c.AgentSessionID, maxStoredParts)
		if err == nil {
			out, err = m.appendParts(out, rows)
		}
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// appendParts appends the updates for the parts of a message, and closes rows.
func (m opencodePartRow) appendParts(out []storedUpdate, rows *sql.Rows) ([]storedUpdate, error) {
	defer rows.Close()
	for rows.Next() {
		p := m
		var created, updated int64
		var data []byte
		if err := rows.Scan(&p.ID, &created, &updated, &data); err != nil {
			return nil, err
		}
		p.created, p.updated = time.UnixMilli(created), time.UnixMilli(updated)
		p.opencodeStoredPart = translate.DecodeLenient[opencodeStoredPart](data)
		if p.grows && !p.isFinal() {
			break
		}
		out = append(out, p.updates()...)
	}
	return out, rows.Err()
}

// storedMessages returns the messages of a conversation as rows without a part.
func storedMessages(ctx context.Context, db *sql.DB, id string) (out []opencodePartRow, err error) {
	rows, err := db.QueryContext(ctx, `SELECT id, json_extract(data, '$.role'), json_extract(data, '$.path.cwd'), json_extract(data, '$.time.completed') IS NOT NULL FROM message
		WHERE session_id = ? AND json_valid(data) ORDER BY time_created, id LIMIT ?`, id, maxStoredParts)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var m opencodePartRow
		var role, dir sql.NullString
		if err := rows.Scan(&m.message, &role, &dir, &m.finished); err != nil {
			return nil, err
		}
		if m.role, m.dir = role.String, dir.String; m.role == "user" || m.role == "assistant" {
			out = append(out, m)
		}
	}
	return out, rows.Err()
}

// An opencodePartRow is a part of a message, as opencode stores it.
type opencodePartRow struct {
	opencodeStoredPart

	ID               string
	message          string // id of the message
	role             string // user or assistant
	dir              string // directory of the conversation
	finished         bool   // the message is complete
	grows            bool   // the agent may still change the message
	created, updated time.Time
}

type opencodeStoredPart struct {
	Type string `json:"type"`

	// type text and reasoning
	Text string `json:"text"`
	Time struct {
		Start float64 `json:"start"`
		End   float64 `json:"end"`
	} `json:"time"`

	// type file
	Mime     string `json:"mime"`
	Filename string `json:"filename"`
	URL      string `json:"url"`

	// type tool
	Tool   string `json:"tool"`
	CallID string `json:"callID"`
	State  struct {
		Status      string          `json:"status"` // pending, running, completed or error
		Input       json.RawMessage `json:"input"`
		Title       string          `json:"title"`
		Output      string          `json:"output"`
		Error       string          `json:"error"`
		Metadata    json.RawMessage `json:"metadata"`
		Attachments json.RawMessage `json:"attachments"`
	} `json:"state"`
}

// isFinal reports whether the agent does not change the updates for a part any
// more, except that it adds the result of a command.
func (p opencodePartRow) isFinal() bool {
	if p.Type == "tool" {
		return p.State.Status == "completed" || p.State.Status == "error" || p.State.Status == "running" && p.isShell()
	}
	return p.Time.Start == 0 || p.Time.End != 0
}

// updates returns the updates for a part, which are those of the agent's own
// replay (1.18.33).
func (p opencodePartRow) updates() []storedUpdate {
	kind, id := "agent_message_chunk", p.message
	if p.role == "user" {
		kind = "user_message_chunk"
	}
	var content any
	switch {
	case p.Type == "tool":
		return p.call()
	case p.Type == "step-finish": // of a model call, which ends its message
		return []storedUpdate{{at: p.created, whole: true}}
	case p.Type == "reasoning" && p.Text != "":
		kind, id, content = "agent_thought_chunk", p.ID, textBlock(p.Text)
	case p.Type == "text" && p.Text != "":
		content = textBlock(p.Text)
	case p.Type == "file":
		if f := p.file(); f != nil {
			content = f
		}
	}
	if content == nil {
		return nil
	}
	return []storedUpdate{{at: p.created, update: map[string]any{"sessionUpdate": kind, "messageId": id, "content": content}}}
}

// file returns the content block for a file, or nil if the replay has none.
func (p opencodePartRow) file() map[string]any {
	if strings.HasPrefix(p.URL, "file://") {
		return map[string]any{"type": "resource_link", "uri": p.URL, "name": cmp.Or(p.Filename, "file"), "mimeType": p.Mime}
	}
	mime, data, ok := dataURL(p.URL)
	if !ok {
		return nil
	}
	name := func(unnamed string) string {
		return (&url.URL{Scheme: "file", Path: filepath.ToSlash(filepath.Join(p.dir, cmp.Or(p.Filename, unnamed)))}).String()
	}
	switch {
	case strings.HasPrefix(mime, "image/"):
		return map[string]any{"type": "image", "mimeType": mime, "data": data, "uri": name("image")}
	case strings.HasPrefix(mime, "text/") || mime == "application/json":
		text, _ := base64.StdEncoding.DecodeString(data)
		return map[string]any{"type": "resource", "resource": map[string]any{"uri": name("file"), "mimeType": mime, "text": string(text)}}
	}
	return map[string]any{"type": "resource", "resource": map[string]any{"uri": name("file"), "mimeType": mime, "blob": data}}
}

// dataURL returns the media type and the base64 text of a data URL.
func dataURL(u string) (mime, data string, ok bool) {
	rest, isData := strings.CutPrefix(u, "data:")
	mime, data, ok = strings.Cut(rest, ";base64,")
	return mime, data, ok && isData && mime != "" && !strings.Contains(mime, ";")
}

// call returns the updates for a tool call and its state.
func (p opencodePartRow) call() []storedUpdate {
	in := translate.DecodeLenient[opencodeToolInput](p.State.Input)
	asked := map[string]any{"kind": opencodeToolKind(p.Tool), "title": cmp.Or(p.State.Title, p.Tool), "locations": storedPaths(p.path(in))}
	if bytes.HasPrefix(p.State.Input, []byte("{")) {
		asked["rawInput"] = p.State.Input
	}
	if p.isShell() {
		asked["title"] = cmp.Or(in.Command, in.Cmd, p.State.Title, p.Tool)
		if in.Workdir == "" && in.CWD == "" && asked["rawInput"] != nil {
			asked["rawInput"] = withMember(p.State.Input, "cwd", p.path(in))
		}
	}
	update := func(at time.Time, kind string, fields map[string]any) storedUpdate {
		fields["sessionUpdate"], fields["toolCallId"] = kind, p.CallID
		return storedUpdate{at: at, update: fields}
	}
	start := maps.Clone(asked)
	start["status"] = "pending"
	out := []storedUpdate{update(p.created, "tool_call", start)}
	switch p.State.Status {
	case "running":
		asked["status"] = "in_progress"
		if output := translate.DecodeLenient[opencodeMetadata](p.State.Metadata).Output; p.isShell() && output != "" && !p.grows {
			asked["content"] = []any{contentOf(textBlock(output))}
		}
		out = append(out, update(p.updated, "tool_call_update", asked))
	case "error":
		asked["status"], asked["content"] = "failed", []any{contentOf(textBlock(p.State.Error))}
		asked["rawOutput"] = struct {
			Error    string          `json:"error"`
			Metadata json.RawMessage `json:"metadata,omitempty"`
		}{p.State.Error, p.State.Metadata}
		out = append(out, update(p.updated, "tool_call_update", asked))
	case "completed":
		out = append(out, update(p.updated, "tool_call_update", p.completed(in)))
	}
	return out
}

// completed returns the fields of the update for a call that has completed.
func (p opencodePartRow) completed(in opencodeToolInput) map[string]any {
	shown := p.State.Output
	if strings.EqualFold(p.Tool, "read") {
		switch d := translate.DecodeLenient[opencodeMetadata](p.State.Metadata).Display; {
		case d.Type == "file" && d.Text != nil:
			shown = *d.Text
		case d.Type == "directory" && d.Entries != nil:
			shown = strings.Join(d.Entries, "\n")
		}
	}
	content := []any{contentOf(textBlock(shown))}
	if words := cmp.Or(in.New, in.Content); opencodeToolKind(p.Tool) == event.KindEdit && in.Old != nil && words != nil {
		content = append(content, map[string]any{"type": "diff", "path": in.File, "oldText": *in.Old, "newText": *words})
	}
	for _, a := range translate.Each[opencodeStoredPart](p.State.Attachments) {
		if mime, _, ok := dataURL(a.URL); ok && strings.HasPrefix(mime, "image/") {
			content = append(content, contentOf(map[string]any{"type": "image", "mimeType": mime}))
		}
	}
	fields := map[string]any{"status": "completed", "content": content, "rawOutput": struct {
		Output      string          `json:"output"`
		Metadata    json.RawMessage `json:"metadata,omitempty"`
		Attachments json.RawMessage `json:"attachments,omitempty"`
	}{p.State.Output, p.State.Metadata, p.State.Attachments}}
	if p.State.Title != "" {
		fields["title"] = p.State.Title
	}
	return fields
}

// opencodeToolInput has the arguments of a tool that the agent's replay uses.
type opencodeToolInput struct {
	Command string  `json:"command"`
	Cmd     string  `json:"cmd"`
	Workdir string  `json:"workdir"`
	CWD     string  `json:"cwd"`
	File    string  `json:"filePath"`
	Path    string  `json:"path"`
	Old     *string `json:"oldString"`
	New     *string `json:"newString"`
	Content *string `json:"content"`
}

// opencodeMetadata is what a tool reports in addition to its output.
type opencodeMetadata struct {
	Output  string `json:"output"` // of a running command
	Display struct {
		Type    string   `json:"type"`
		Text    *string  `json:"text"`
		Entries []string `json:"entries"`
	} `json:"display"`
}

func (p opencodePartRow) isShell() bool {
	return strings.EqualFold(p.Tool, "bash") || strings.EqualFold(p.Tool, "shell")
}

// path returns the path that a call is about, or "".
func (p opencodePartRow) path(in opencodeToolInput) string {
	switch opencodeToolKind(p.Tool) {
	case event.KindExecute:
		dir := cmp.Or(in.Workdir, in.CWD, p.dir)
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(p.dir, dir)
		}
		return dir
	case event.KindRead, event.KindEdit:
		return in.File
	case event.KindSearch:
		return in.Path
	}
	return ""
}

// opencodeToolKind returns the kind that the agent reports for a tool.
func opencodeToolKind(tool string) event.ToolKind {
	switch strings.ToLower(tool) {
	case "bash", "shell":
		return event.KindExecute
	case "webfetch":
		return event.KindFetch
	case "edit", "apply_patch", "patch", "write":
		return event.KindEdit
	case "grep", "glob", "context", "context7_resolve_library_id", "context7_get_library_docs":
		return event.KindSearch
	case "read":
		return event.KindRead
	case "task":
		return event.KindThink
	}
	return event.KindOther
}

// storedPaths returns a list of locations with one path, or without any.
func storedPaths(path string) []map[string]any {
	if path == "" {
		return []map[string]any{}
	}
	return []map[string]any{{"path": path}}
}

// contentOf returns the content of a tool call for a block.
func contentOf(block any) map[string]any { return map[string]any{"type": "content", "content": block} }

// withMember returns a valid JSON object with another member at its end.
func withMember(object json.RawMessage, name, value string) json.RawMessage {
	body := bytes.TrimSpace(bytes.TrimSuffix(bytes.TrimSpace(object), []byte("}")))
	member := storedUpdate{update: map[string]string{name: value}}.encode()
	if len(body) > 1 {
		body = append(bytes.Clone(body), ',')
	}
	return append(bytes.Clone(body), member[1:]...)
}
