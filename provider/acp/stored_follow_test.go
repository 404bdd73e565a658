package acp

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
)

// A collector collects the events of a followed conversation, with each item only
// once started and ended.
type collector struct {
	t      *testing.T
	f      runnel.Following
	events []event.Event
}

// next reads what is new.
func (c *collector) next() {
	c.t.Helper()
	evs, err := c.f.Next(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	c.events = append(c.events, evs...)
}

// finish ends the following, and compares its events with those of the history.
func (c *collector) finish(p runnel.Provider, id string) {
	c.t.Helper()
	c.next()
	c.events = append(c.events, c.f.Finish()...)
	c.f.Close()
	if d := cmp.Diff(whatBecame(history(c.t, p, id)), whatBecame(c.events)); d != "" {
		c.t.Errorf("history and followed differ:\n%s", d)
	}
	seen := make(map[string]int)
	for _, ev := range c.events {
		switch b := ev.Body.(type) {
		case event.ItemStart:
			seen["start of "+b.ItemID]++
		case event.ItemDone:
			seen["end of "+b.ItemID]++
		case event.ResponseStart:
			seen["start of turn "+ev.Turn]++
		}
	}
	for what, n := range seen {
		if n > 1 {
			c.t.Errorf("%d times: %s", n, what)
		}
	}
	closed(c.t, c.events)
}

// whatBecame returns what turns and items have become, by their ids.
func whatBecame(evs []event.Event) (out []string) {
	for _, ev := range evs {
		switch ev.Body.(type) {
		case event.ItemStart, event.ItemDelta, event.ResponseStart:
			continue
		}
		data, _ := json.Marshal(ev.Body)
		out = append(out, ev.Turn+" "+string(data))
	}
	slices.Sort(out)
	return out
}

// Copilot's files are stored line by line, and opencode's database part by part,
// as the agents write them.
func TestFollowedConversationHasTheItemsOfItsHistory(t *testing.T) {
	n := 0
	eachRecording(t, func(t *testing.T, a Agent, _ fixture, _ string, arc *txtar.Archive) {
		if a.Name != "copilot" && a.Name != "opencode" {
			return
		}
		p, id, ok := storedHome(t, a, arc)
		if !ok {
			return
		}
		n++
		if a.Name == "copilot" {
			followLines(t, p, id)
		} else {
			followRows(t, p, id)
		}
	})
	if n < 20 {
		t.Errorf("only %d recordings have stored conversations", n)
	}
}

// followLines stores the file of a conversation line by line.
func followLines(t *testing.T, p runnel.Provider, id string) {
	t.Helper()
	c, err := p.(runnel.Finder).Find(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(c.File)
	if err != nil {
		t.Fatal(err)
	}
	lines := slices.Collect(strings.Lines(string(data)))
	prompt := slices.IndexFunc(lines, func(line string) bool { return strings.Contains(line, `"type":"user.message"`) })
	write := func(text string) {
		if err := os.WriteFile(c.File, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(strings.Join(lines[:prompt+1], ""))
	f, err := p.(runnel.Follower).Follow(t.Context(), runnel.Conversation{AgentSessionID: id})
	if err != nil {
		t.Fatal(err)
	}
	col := &collector{t: t, f: f}
	for i := prompt + 1; i <= len(lines); i++ {
		write(strings.Join(lines[:i], ""))
		col.next()
		if i < len(lines) {
			write(strings.Join(lines[:i], "") + lines[i][:len(lines[i])/2])
			col.next()
		}
	}
	col.finish(p, id)
}

// followRows stores the parts of a conversation one after another, each first as
// the agent stores it while it works on the part.
func followRows(t *testing.T, p runnel.Provider, id string) {
	t.Helper()
	db, err := sql.Open("sqlite", p.(keptForkingProvider).path())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	exec := func(query string, values ...any) {
		t.Helper()
		if _, err := db.ExecContext(t.Context(), query, values...); err != nil {
			t.Fatal(err)
		}
	}
	exec("PRAGMA journal_mode = WAL")
	exec("CREATE TABLE all_messages AS SELECT * FROM message")
	exec("CREATE TABLE all_parts AS SELECT part.* FROM part JOIN message ON message.id = part.message_id ORDER BY message.time_created, message.id, part.id")
	rows := partsOf(t, db)
	exec("DELETE FROM part")
	exec("DELETE FROM message")
	var col *collector
	next := func() {
		if col == nil {
			f, err := p.(runnel.Follower).Follow(t.Context(), runnel.Conversation{AgentSessionID: id})
			if runnel.CodeOf(err) == runnel.SessionNotFound {
				return // no prompt yet
			}
			if err != nil {
				t.Fatal(err)
			}
			col = &collector{t: t, f: f}
		}
		col.next()
	}
	for i, r := range rows {
		if i == 0 || rows[i-1].message != r.message {
			exec("INSERT INTO message SELECT * FROM all_messages WHERE id = ?", r.message)
			exec("UPDATE message SET data = json_remove(data, '$.time.completed') WHERE id = ?", r.message)
			next()
		}
		exec("INSERT INTO part SELECT * FROM all_parts WHERE id = ?", r.part)
		for _, early := range r.before() {
			exec("UPDATE part SET data = ?, time_updated = time_created WHERE id = ?", early, r.part)
			next()
		}
		exec("UPDATE part SET data = ?, time_updated = ? WHERE id = ?", r.data, 1000+i, r.part)
		next()
		if i+1 == len(rows) || rows[i+1].message != r.message {
			exec("DELETE FROM message WHERE id = ?", r.message)
			exec("INSERT INTO message SELECT * FROM all_messages WHERE id = ?", r.message)
			next()
		}
	}
	if col == nil {
		t.Fatal("the conversation was never found")
	}
	col.finish(p, id)
}

type partRow struct{ message, part, data string }

// partsOf returns the parts of a conversation in their order.
func partsOf(t *testing.T, db *sql.DB) (out []partRow) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), "SELECT message_id, id, data FROM all_parts")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var r partRow
		if err := rows.Scan(&r.message, &r.part, &r.data); err != nil {
			t.Fatal(err)
		}
		out = append(out, r)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

// before returns the forms in which opencode stores a part before it is
// complete.
func (r partRow) before() (forms []string) {
	var p map[string]any
	if json.Unmarshal([]byte(r.data), &p) != nil {
		return nil
	}
	encode := func() {
		data, err := json.Marshal(p)
		if err == nil {
			forms = append(forms, string(data))
		}
	}
	times, _ := p["time"].(map[string]any)
	state, _ := p["state"].(map[string]any)
	switch {
	case p["type"] == "tool" && (state["status"] == "completed" || state["status"] == "error"):
		p["state"] = map[string]any{"status": "pending", "input": map[string]any{}, "raw": ""}
		encode()
		running := map[string]any{"status": "running", "input": state["input"]}
		if p["tool"] == "bash" {
			running["title"], running["metadata"] = state["title"], map[string]any{"output": "half of", "description": "d"}
		}
		p["state"] = running
		encode()
	case times["end"] != nil:
		whole := fmt.Sprint(p["text"])
		for _, n := range []int{0, len(whole) / 2, len(whole)} {
			p["text"], p["time"] = strings.ToValidUTF8(whole[:n], ""), map[string]any{"start": times["start"]}
			encode()
		}
	}
	return forms
}

// The text of an answer and the output of a command appear in the session before
// the turn ends.
func TestFollowedItemsAppearWhileTheAgentWorks(t *testing.T) {
	for name, step := range map[string]string{"copilot": "tool@1.0.102", "opencode": "tool@1.18.33"} {
		t.Run(name, func(t *testing.T) {
			arc, err := txtar.ParseFile(filepath.Join("testdata", name, step+".txtar"))
			if err != nil {
				t.Fatal(err)
			}
			p, id, _ := storedHome(t, known(t, name), arc)
			f, err := p.(runnel.Follower).Follow(t.Context(), runnel.Conversation{AgentSessionID: id})
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			evs, err := f.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var items []string
			var last event.Event // of the started and ended items
			for _, ev := range evs {
				switch b := ev.Body.(type) {
				case event.ItemStart:
					last = ev
				case event.ItemDone:
					last = ev
					items = append(items, fmt.Sprintf("%T", b.FinalItem))
				}
				if event.Ends(ev.Body) {
					t.Errorf("the turn has ended: %+v", ev)
				}
			}
			if !slices.Contains(items, "event.FunctionCallOutput") || !slices.Contains(items, "event.Message") {
				t.Errorf("items: %q", items)
			}
			if done, ok := last.Body.(event.ItemDone); !ok || fmt.Sprintf("%T", done.FinalItem) != "event.Message" {
				t.Errorf("the last message is not complete after its model call: %+v", last)
			}
			if again, err := f.Next(t.Context()); err != nil || len(again) > 0 {
				t.Errorf("nothing is new: %+v, %v", again, err)
			}
		})
	}
}

// A busySource reports one change. The first read of it fails, and the second
// returns an event.
type busySource struct{ asked, read int }

func (b *busySource) hasChanged(context.Context) (bool, error) {
	b.asked++
	return b.asked == 1, nil
}

func (b *busySource) events(context.Context) (evs, end []event.Event, err error) {
	if b.read++; b.read == 1 {
		return nil, nil, runnel.Fail(runnel.AgentError, "busy")
	}
	return []event.Event{{Body: event.Notice{Code: "READ"}}}, nil, nil
}

func (b *busySource) rest() (evs, end []event.Event, err error) {
	return b.events(context.Background())
}

func TestChangeThatCannotBeReadIsReadLater(t *testing.T) {
	b := new(busySource)
	f := follow(b)
	for i, want := range []int{0, 1, 0} {
		if evs, err := f.Next(t.Context()); err != nil || len(evs) != want {
			t.Errorf("call %d: %d events, %v; want %d", i, len(evs), err, want)
		}
	}
	if b.read != 2 {
		t.Errorf("read %d times", b.read)
	}
}
