package gateway

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/attach"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/store"
)

// remove deletes a session and returns what that freed.
func remove(t *testing.T, g *Gateway, id string) Deletion {
	t.Helper()
	d, err := HousekeepingOf(g).Delete(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	_, err = g.Status(t.Context(), id)
	wantCode(t, err, runnel.SessionNotFound)
	return d
}

// A deletion ends the running turn and drops the queue. Before it, the preview
// says the same as the deletion itself.
func TestDeletionEndsWhatRuns(t *testing.T) {
	d := newDisk(t)
	g := d.open(t)
	defer closeIt(t, g)
	id := d.create(t, g)
	sent := send(t, g, id, "hang")
	if _, err := g.Send(t.Context(), id, Prompt{Text: "text", Queue: true}); err != nil {
		t.Fatal(err)
	}
	d.until(t, id, is[event.ItemDelta])
	agent, err := g.Status(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	preview, err := HousekeepingOf(g).Deletion(t.Context(), id)
	if err != nil || preview.FreedBytes == 0 || preview.TurnID != sent.TurnID || preview.Queued != 1 {
		t.Errorf("preview: %+v, %v", preview, err)
	}
	if tr := preview.Transcript; tr == nil || tr.AgentSessionID != agent.AgentSessionID {
		t.Errorf("preview of the transcript: %+v, want %s", tr, agent.AgentSessionID)
	}
	done := remove(t, g, id)
	if done.TurnID != sent.TurnID || done.Queued != 1 || done.FreedBytes < preview.FreedBytes {
		t.Errorf("deleted: %+v, previewed %+v", done, preview)
	}
	if left, err := d.cat.Queue(t.Context(), ""); err != nil || len(left) != 0 {
		t.Errorf("left in the queue: %v, %v", left, err)
	}
	if b, ok := d.ends(t, sent).Body.(event.ResponseDone); !ok || b.Status != event.StatusCancelled {
		t.Errorf("the turn ended with %+v", b)
	}
	_, err = HousekeepingOf(g).Delete(t.Context(), id)
	wantCode(t, err, runnel.SessionNotFound)
	_, err = HousekeepingOf(g).Deletion(t.Context(), id)
	wantCode(t, err, runnel.SessionNotFound)
}

// A session that is not open, or has ended, is deleted, too.
func TestDeletionOfASessionThatIsNotOpen(t *testing.T) {
	d := newDisk(t)
	g := d.open(t)
	ended, dormant := d.create(t, g), d.create(t, g)
	d.ends(t, send(t, g, dormant, "text"))
	if err := g.Kill(t.Context(), ended); err != nil {
		t.Fatal(err)
	}
	closeIt(t, g)
	g = d.open(t)
	defer closeIt(t, g)
	for _, id := range []string{ended, dormant} {
		if freed := remove(t, g, id); freed.TurnID != "" || freed.SessionID != id {
			t.Errorf("deleted %+v", freed)
		}
	}
	if list, err := g.List(t.Context(), Filter{Dead: true, Archived: true}); err != nil || len(list) != 0 {
		t.Errorf("left: %+v, %v", list, err)
	}
}

// The deletion of a session removes its debug capture and the uploads that no
// other session has used.
func TestDeletionRemovesFilesOfTheSessionOnly(t *testing.T) {
	d, data := newDisk(t), canonical(t.TempDir())
	g := d.capturing(t, data)
	id, other := d.create(t, g), d.create(t, g)
	setCapture(t, g, id, true)
	upload := func(text string) attach.Upload {
		up, err := g.Upload(bytes.NewBufferString(text), "a.txt")
		if err != nil {
			t.Fatal(err)
		}
		return up
	}
	use := func(id string, refs ...attach.Ref) {
		t.Helper()
		sent, err := g.Send(t.Context(), id, Prompt{Text: "text", Attachments: refs})
		if err != nil {
			t.Fatal(err)
		}
		d.ends(t, sent)
		d.untilIdle(t, g, id)
	}
	own, byPath, shared, unused := upload("own"), upload("by its path"), upload("shared"), upload("unused")
	use(id, attach.Ref{Upload: own.ID}, attach.Ref{Upload: shared.ID})
	use(id, attach.Ref{Path: byPath.Path}, attach.Ref{Upload: own.ID})
	use(other, attach.Ref{Upload: shared.ID})
	closeIt(t, g)
	g = d.capturing(t, data)
	defer closeIt(t, g)
	capture := filepath.Join(data, "captures", id+".jsonl")
	info, err := os.Stat(capture)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Kill(t.Context(), other); err != nil { // an ended session still has its uploads
		t.Fatal(err)
	}
	freed := remove(t, g, id)
	if freed.Uploads != 2 || freed.Captured != info.Size() || freed.FreedBytes <= info.Size()+own.Size+byPath.Size {
		t.Errorf("deleted: %+v", freed)
	}
	for path, want := range map[string]bool{own.Path: false, byPath.Path: false, shared.Path: true, unused.Path: true, capture: false} {
		if _, err := os.Stat(path); (err == nil) != want {
			t.Errorf("%s: %v", path, err)
		}
	}
	if freed := remove(t, g, other); freed.Uploads != 1 {
		t.Errorf("deleted: %+v", freed)
	}
}

// brokenDeletion is a catalogue that deletes no session.
type brokenDeletion struct{ store.Catalogue }

func (brokenDeletion) DeleteSession(context.Context, string) error { return errors.New("no space") }

// A deletion that fails leaves the session whole: it can be used and deleted.
func TestFailedDeletionLeavesTheSession(t *testing.T) {
	d, data := newDisk(t), canonical(t.TempDir())
	g := d.open(t, func(c *Config) {
		c.Providers, c.DataDir, c.Catalogue = []runnel.Provider{&printing{}}, data, brokenDeletion{d.cat}
	})
	id := d.create(t, g)
	setCapture(t, g, id, true)
	d.ends(t, send(t, g, id, "text"))
	_, err := HousekeepingOf(g).Delete(t.Context(), id)
	wantCode(t, err, runnel.StoreUnavailable)
	if text := capturedText(t, g, id); text == "" {
		t.Error("the capture is gone")
	}
	d.ends(t, send(t, g, id, "text"))
	closeIt(t, g)
	g = d.capturing(t, data)
	defer closeIt(t, g)
	remove(t, g, id)
}

// A crash after the deletion of the record leaves files, which the next start
// removes.
func TestStartRemovesFilesOfADeletedSession(t *testing.T) {
	d, data := newDisk(t), canonical(t.TempDir())
	g := d.capturing(t, data)
	id := d.create(t, g)
	setCapture(t, g, id, true)
	closeIt(t, g)
	if err := d.cat.DeleteSession(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	g = d.capturing(t, data)
	defer closeIt(t, g)
	files, err := os.ReadDir(filepath.Join(data, "captures"))
	if err != nil || len(files) != 0 {
		t.Errorf("left: %v, %v", files, err)
	}
}

// The answer names the file of the agent's own transcript, which stays.
func TestDeletionNamesTheTranscript(t *testing.T) {
	d := newDisk(t)
	file := filepath.Join(t.TempDir(), "conversation.jsonl")
	p := &findable{file: file}
	g := d.open(t, func(c *Config) { c.Providers = []runnel.Provider{p} })
	defer closeIt(t, g)
	id := d.create(t, g)
	if freed, err := HousekeepingOf(g).Deletion(t.Context(), id); err != nil || freed.Transcript != nil && freed.Transcript.AgentSessionID == "" {
		t.Errorf("before the first turn: %+v, %v", freed, err)
	}
	d.ends(t, send(t, g, id, "text"))
	d.untilStatus(t, g, id, func(st Status) bool { return st.AgentSessionID != "" })
	freed := remove(t, g, id)
	if freed.Transcript == nil || freed.Transcript.Path != file || !slices.Contains(p.asked, freed.Transcript.AgentSessionID) {
		t.Errorf("got %+v, asked for %v", freed.Transcript, p.asked)
	}
}

// findable is the scripted agent as an agent that stores its conversations in
// files.
type findable struct {
	forking
	file  string
	asked []string
}

func (f *findable) Find(_ context.Context, id string) (runnel.Conversation, error) {
	f.asked = append(f.asked, id)
	return runnel.Conversation{AgentSessionID: id, File: f.file}, nil
}

// fullCatalogue is a catalogue that can refuse to change records.
type fullCatalogue struct {
	store.Catalogue
	full atomic.Bool
}

func (c *fullCatalogue) PutSession(ctx context.Context, s store.Session) error {
	if c.full.Load() {
		return errors.New("no space")
	}
	return c.Catalogue.PutSession(ctx, s)
}

// A deletion keeps an upload that another session has just used, even if the
// record of that session is not written yet.
func TestDeletionKeepsUploadOfUnwrittenRecord(t *testing.T) {
	d := newDisk(t)
	cat := &fullCatalogue{Catalogue: d.cat}
	g := d.open(t, func(c *Config) {
		c.Providers, c.DataDir, c.Catalogue = []runnel.Provider{&printing{}}, canonical(t.TempDir()), cat
	})
	defer closeIt(t, g)
	defer cat.full.Store(false)
	id, other := d.create(t, g), d.create(t, g)
	up, err := g.Upload(bytes.NewBufferString("shared"), "a.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, session := range []string{id, other} {
		cat.full.Store(session == other)
		sent, err := g.Send(t.Context(), session, Prompt{Text: "text", Attachments: []attach.Ref{{Upload: up.ID}}})
		if err != nil {
			t.Fatal(err)
		}
		d.ends(t, sent)
	}
	if freed := remove(t, g, id); freed.Uploads != 0 {
		t.Errorf("deleted: %+v", freed)
	}
	if _, err := os.Stat(up.Path); err != nil {
		t.Error(err)
	}
}
