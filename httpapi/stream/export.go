package stream

import (
	"bufio"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"iter"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/httpapi/access"
	"github.com/runnel-dev/runnel/httpapi/reply"
	"github.com/runnel-dev/runnel/upsert"
)

// Capture writes the file of a session's debug capture.
func (s *Streams) Capture(w http.ResponseWriter, r *http.Request) error {
	f, st, err := gateway.CapturesOf(s.cfg.Gateway).Open(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	if f == nil {
		return reply.NewError(http.StatusNotFound, "this session has no debug capture; switch it on with POST /api/session/{id}/capture")
	}
	defer f.Close()
	return s.download(w, r, st, "application/jsonl", "capture.jsonl", func(_ context.Context, w io.Writer, _ gateway.Status) error {
		_, err := io.Copy(w, f)
		return err
	})
}

// Export writes a session as a file: its events unchanged, or its items as text
// for people. Browsers download the file and never render it.
func (s *Streams) Export(w http.ResponseWriter, r *http.Request) error {
	st, err := s.cfg.Gateway.Status(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	format := r.URL.Query().Get("format")
	var media string
	var write func(context.Context, io.Writer, gateway.Status) error
	switch format {
	case "jsonl":
		media, write = "application/jsonl", s.exportEvents
	case "md":
		media, write = "text/markdown; charset=utf-8", s.exportMarkdown
	case "html":
		media, write = "text/html; charset=utf-8", s.exportHTML
	default:
		return reply.Invalid("format: want jsonl, md or html")
	}
	return s.download(w, r, st, media, format, write)
}

// download answers with a file of a session that write writes. The name of the
// file is the session's id with a suffix.
func (s *Streams) download(w http.ResponseWriter, r *http.Request, st gateway.Status, media, suffix string, write func(context.Context, io.Writer, gateway.Status) error) error {
	id, l := access.Caller(r.Context()).ID, s.cfg.Limits
	if err := s.exports.add(id, total(l.Streams, "max-streams"), each(l.Exports, "max-exports-per-credential")); err != nil {
		return s.refuse("exports at once; wait until one ends", err)
	}
	defer s.exports.remove(id)
	h := w.Header()
	h.Set("Content-Type", media)
	h.Set("Content-Disposition", fmt.Sprintf("attachment; filename=%q", st.SessionID+"."+suffix))
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'")
	rc := http.NewResponseController(w)
	out := bufio.NewWriterSize(&deadlineWriter{w, rc, s.cfg.WriteStall}, 32<<10)
	w.WriteHeader(http.StatusOK)
	counted := &unreadWriter{out, s, func() { _ = rc.SetWriteDeadline(time.Now()) }}
	if err := write(r.Context(), counted, st); err != nil {
		panic(http.ErrAbortHandler) // the answer has begun: abort it, so that it does not look complete
	}
	if err := out.Flush(); err != nil {
		panic(http.ErrAbortHandler)
	}
	return nil
}

// An unreadWriter counts the bytes of each Write as unread until Write returns;
// see [Limits.UnreadBytes]. It counts a large Write as a whole, although the
// buffer in out writes it to the client in smaller parts.
type unreadWriter struct {
	out *bufio.Writer
	s   *Streams
	cut func()
}

func (u *unreadWriter) Write(p []byte) (int, error) {
	defer u.s.Unread(len(p), u.cut)()
	return u.out.Write(p)
}

// A deadlineWriter gives each write its own deadline.
type deadlineWriter struct {
	io.Writer
	rc    *http.ResponseController
	stall time.Duration
}

func (d *deadlineWriter) Write(p []byte) (int, error) {
	_ = d.rc.SetWriteDeadline(time.Now().Add(d.stall))
	return d.Writer.Write(p)
}

func (s *Streams) exportEvents(ctx context.Context, w io.Writer, st gateway.Status) error {
	written := make(map[string]bool)
	for cursor := runnel.NewCursor(s.cfg.Gateway.Log(), st.SessionID, 0); ; {
		evs, err := cursor.Read(ctx)
		if err != nil || len(evs) == 0 {
			return err
		}
		for _, ev := range evs {
			data, err := json.Marshal(ev)
			if err != nil {
				return err
			}
			if _, err := w.Write(append(data, '\n')); err != nil {
				return err
			}
			if err := s.exportPictures(w, ev, written); err != nil {
				return err
			}
		}
	}
}

// exportPictures writes the pictures that an event names, except those in
// written, and adds them to it.
func (s *Streams) exportPictures(w io.Writer, ev event.Event, written map[string]bool) error {
	for _, id := range event.Pictures(ev.Body) {
		if written[id] { // a log can name a picture many times, and reading one takes long
			continue
		}
		written[id] = true
		data, err := gateway.PicturesOf(s.cfg.Gateway).Read(ev.Session, id)
		if err != nil {
			continue
		}
		line, err := json.Marshal(event.PictureLine{Type: event.PictureLineType, Session: ev.Session, Picture: id, Data: data})
		if err != nil {
			return err
		}
		if _, err := w.Write(append(line, '\n')); err != nil {
			return err
		}
	}
	return nil
}

// outs yields a session's history with each item once. It holds back an item
// that is unfinished at the end of a chunk until the item or its turn ends.
func (s *Streams) outs(ctx context.Context, session string) iter.Seq2[upsert.Out, error] {
	return func(yield func(upsert.Out, error) bool) {
		var held []upsert.Upsert
		put := func(o upsert.Out) bool {
			switch o := o.(type) {
			case upsert.Upsert:
				held = slices.DeleteFunc(held, func(h upsert.Upsert) bool { return h.ItemID == o.ItemID })
				if o.Status == upsert.StatusCreate || o.Status == upsert.StatusUpdate {
					held = append(held, o)
					return true
				}
			case upsert.TurnEvent:
				if o.Type == upsert.TurnStarted {
					break
				}
				for _, h := range held {
					if h.TurnID == o.TurnID && !yield(h, nil) {
						return false
					}
				}
				held = slices.DeleteFunc(held, func(h upsert.Upsert) bool { return h.TurnID == o.TurnID })
			}
			return yield(o, nil)
		}
		for history, more := newHistoryReader(s.cfg.Gateway.Log(), session, runnel.Checkpoint{}, 0), true; more; {
			c, err := history.next(ctx)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, o := range c.entries {
				if !put(o) {
					return
				}
			}
			more = c.more
		}
		for _, h := range held {
			if !yield(h, nil) {
				return
			}
		}
	}
}

func (s *Streams) exportMarkdown(ctx context.Context, w io.Writer, st gateway.Status) error {
	fmt.Fprintf(w, "# %s\n\n%s in %s, %s\n", oneLine(st.Title), st.CLIType, codeSpan(st.ProjectDir), st.CreatedAt.Format(time.RFC3339))
	for o, err := range s.outs(ctx, st.SessionID) {
		if err != nil {
			return err
		}
		head, text, code := describe(o)
		switch {
		case head == "" && text == "":
		case head == "" && !code:
			fmt.Fprintf(w, "\n%s\n", text)
		case code:
			fence := strings.Repeat("`", max(3, longestRun(text, '`')+1))
			fmt.Fprintf(w, "\n**%s**\n\n%s\n%s\n%s\n", oneLine(head), fence, strings.TrimRight(text, "\n"), fence)
		default:
			fmt.Fprintf(w, "\n## %s\n\n%s\n", oneLine(head), text)
		}
	}
	return nil
}

// exportHTML writes a page that contains only escaped text and the pictures of
// prompts: no scripts, no styles, no links.
func (s *Streams) exportHTML(ctx context.Context, w io.Writer, st gateway.Status) error {
	title := html.EscapeString(oneLine(st.Title))
	fmt.Fprintf(w, "<!doctype html>\n<html><head><meta charset=\"utf-8\"><meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:\"><title>%s</title></head>\n<body>\n<h1>%s</h1>\n<p>%s in <code>%s</code></p>\n",
		title, title, html.EscapeString(st.CLIType), html.EscapeString(st.ProjectDir))
	for o, err := range s.outs(ctx, st.SessionID) {
		if err != nil {
			return err
		}
		head, text, code := describe(o)
		level := "h2"
		if code {
			level = "h3"
		}
		if head != "" {
			fmt.Fprintf(w, "<%s>%s</%s>\n", level, html.EscapeString(oneLine(head)), level)
		}
		if text != "" {
			fmt.Fprintf(w, "<pre>%s</pre>\n", html.EscapeString(text))
		}
		s.htmlPictures(w, st.SessionID, o)
	}
	_, err := io.WriteString(w, "</body></html>\n")
	return err
}

// htmlPictures writes the pictures of a prompt into a page.
func (s *Streams) htmlPictures(w io.Writer, session string, o upsert.Out) {
	u, ok := o.(upsert.Upsert)
	if !ok || u.Message == nil {
		return
	}
	for _, a := range u.Message.Attachments {
		if a.Picture == "" {
			continue
		}
		data, err := gateway.PicturesOf(s.cfg.Gateway).Read(session, a.Picture)
		if err != nil {
			continue
		}
		fmt.Fprintf(w, "<p><img alt=\"%s\" src=\"data:%s;base64,%s\"></p>\n",
			html.EscapeString(cmp.Or(oneLine(a.Name), "picture")), event.PictureType(data), base64.StdEncoding.EncodeToString(data))
	}
}

// describe returns the heading and the text of an entry for people. code
// reports whether the text is preformatted.
func describe(o upsert.Out) (head, text string, code bool) {
	switch o := o.(type) {
	case upsert.Upsert:
		return describeItem(o)
	case upsert.TurnEvent:
		if o.Type == upsert.TurnError {
			return "Failed", o.ErrorMessage, false
		}
		if o.Status == event.StatusCancelled {
			return "Cancelled", "", false
		}
	case upsert.Approval:
		if o.Status == upsert.ApprovalResolved {
			answer := "Answered: " + o.Choice
			if note := event.RuleNote(o.By, o.Rule); note != "" {
				answer += ", " + note
			}
			return "", answer, false
		}
		return "", "Asked: " + o.Approval.Title, false
	case upsert.Notice:
		return "", o.Message, false
	}
	return "", "", false
}

func describeItem(u upsert.Upsert) (head, text string, code bool) {
	switch {
	case u.Message != nil && u.Message.Origin == event.OriginUser:
		return "Prompt", u.Message.Content, false
	case u.Message != nil:
		return "", u.Message.Content, false
	case u.Thinking != nil:
		return "Reasoning", u.Thinking.Content, true
	case u.ToolCall != nil:
		text = string(u.ToolCall.ToolArguments)
		if u.ToolCall.ToolOutput != nil {
			text += "\n\n" + *u.ToolCall.ToolOutput
		}
		return u.ToolCall.ToolName, text, true
	case u.Plan != nil:
		var b strings.Builder
		for _, e := range u.Plan.Entries {
			fmt.Fprintf(&b, "- %s: %s\n", e.Status, oneLine(e.Content))
		}
		return "Plan", b.String(), false
	}
	return "", "", false
}

// codeSpan returns s as code within a line of Markdown.
func codeSpan(s string) string {
	s = oneLine(s)
	run := longestRun(s, '`')
	if run == 0 {
		return "`" + s + "`"
	}
	marks := strings.Repeat("`", run+1)
	return marks + " " + s + " " + marks
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

func longestRun(s string, c rune) int {
	longest, run := 0, 0
	for _, r := range s {
		if r != c {
			run = 0
			continue
		}
		run++
		longest = max(longest, run)
	}
	return longest
}
