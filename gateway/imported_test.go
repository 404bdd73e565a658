package gateway

import (
	"errors"
	"io"
	"testing"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/store"
)

// begunImport begins an import whose file does not end, and returns the id of
// the session once a part of the file is in its log.
func (d *disk) begunImport(t *testing.T, g *Gateway) (id string, file *io.PipeWriter, result <-chan error) {
	t.Helper()
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() {
		_, err := ImportsOf(g).Import(t.Context(), "script", d.dir, r)
		done <- err
		_ = r.Close()
	}()
	for seq := range int64(300) {
		ev := event.Event{Session: "s", Seq: seq + 1, At: time.Unix(0, 0), Body: event.Notice{Level: event.LevelInfo, Code: "C", Message: "m"}}
		data, err := ev.MarshalJSON()
		if err == nil {
			_, err = w.Write(append(data, '\n'))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	loading, err := d.cat.Sessions(t.Context(), store.SessionFilter{State: event.StateLoading})
	if err != nil || len(loading) != 1 {
		t.Fatalf("%+v, %v", loading, err)
	}
	d.until(t, loading[0].ID, is[event.Notice])
	return loading[0].ID, w, done
}

// A file that breaks off leaves no session.
func TestBrokenImportLeavesNoSession(t *testing.T) {
	d := newDisk(t)
	g := d.open(t)
	defer closeIt(t, g)
	id, file, result := d.begunImport(t, g)
	broken := errors.New("connection lost")
	_ = file.CloseWithError(broken)
	if err := <-result; !errors.Is(err, broken) {
		t.Error(err)
	}
	d.wantNone(t, g, id)
}

// A crash during an import leaves no session.
func TestCrashDuringImportLeavesNoSession(t *testing.T) {
	d := newDisk(t)
	g := d.open(t)
	id, file, result := d.begunImport(t, g)
	dead, rec := d.copied(t, id)
	if rec.State != event.StateLoading {
		t.Errorf("the record is %+v", rec)
	}
	_ = file.CloseWithError(io.ErrUnexpectedEOF)
	<-result
	closeIt(t, g)
	g = dead.open(t)
	defer closeIt(t, g)
	dead.wantNone(t, g, id)
}

// wantNone fails the test if there is a session.
func (d *disk) wantNone(t *testing.T, g *Gateway, id string) {
	t.Helper()
	_, err := g.Status(t.Context(), id)
	wantCode(t, err, runnel.SessionNotFound)
	list, err := d.cat.Sessions(t.Context(), store.SessionFilter{Dead: true})
	if err != nil || len(list) != 0 {
		t.Errorf("left: %+v, %v", list, err)
	}
}
