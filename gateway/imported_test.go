package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
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

// weighed is a log that reports the weight of each batch.
type weighed struct {
	runnel.Log
	batch func(weight int)
}

func (w weighed) Append(ctx context.Context, session string, head int64, evs ...event.Event) error {
	weight := 0
	for _, ev := range evs {
		weight += event.Weight(ev.Body)
	}
	w.batch(weight)
	return w.Log.Append(ctx, session, head, evs...)
}

// A file may have 32 MiB in each line. Without a bound of the bytes, an import
// held hundreds of such lines at a time.
func TestImportHoldsFewBytes(t *testing.T) {
	d := newDisk(t)
	largest, all := 0, 0
	g := d.open(t, func(c *Config) {
		c.Log = weighed{c.Log, func(n int) { largest, all = max(largest, n), all+n }}
	})
	defer closeIt(t, g)
	const size, number = 700 << 10, 6
	var file bytes.Buffer
	seq := int64(0)
	write := func(b event.Body) {
		seq++
		data, err := event.Event{Session: "s", Turn: "t", Seq: seq, At: time.Unix(0, 0), Body: b}.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		file.Write(append(data, '\n'))
	}
	write(event.ResponseStart{ModelID: "m", ProviderID: "p"})
	for i := range number {
		id := fmt.Sprintf("t:%d:0", i)
		write(event.ItemStart{ItemID: id, ItemType: event.TypeMessage})
		write(event.ItemDone{ItemID: id, FinalItem: event.Message{Content: strings.Repeat("x", size), Origin: event.OriginAgent}})
	}
	write(event.ResponseDone{Status: event.StatusCompleted})
	if _, err := ImportsOf(g).Import(t.Context(), "script", d.dir, &file); err != nil {
		t.Fatal(err)
	}
	if largest > 3*size || all < number*size {
		t.Errorf("the largest batch has %d of %d bytes", largest, all)
	}
}

// A log may have a gigabyte, and every request about a session reads its
// status.
func TestStatusOfAnImportedSessionReadsNoLog(t *testing.T) {
	d := newDisk(t)
	log := &counting{Log: &d.log}
	g := d.open(t, func(c *Config) { c.Log = log })
	defer closeIt(t, g)
	var file bytes.Buffer
	for i, b := range []event.Body{
		event.ResponseStart{ModelID: "m", ProviderID: "p"},
		event.SessionUpdated{Title: "An imported one", Config: []event.ConfigOption{{ID: "depth", Name: "Depth", Type: "select", Value: "deep"}}},
		event.ResponseDone{Status: event.StatusCompleted},
	} {
		data, err := event.Event{Session: "s", Turn: "t", Seq: int64(i + 1), At: time.Unix(0, 0), Body: b}.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		file.Write(append(data, '\n'))
	}
	done, err := ImportsOf(g).Import(t.Context(), "script", d.dir, &file)
	if err != nil {
		t.Fatal(err)
	}
	log.reads.Store(0)
	st, err := g.Status(t.Context(), done.SessionID)
	if err != nil || st.Title != "An imported one" || st.Config != nil {
		t.Errorf("%+v, %v", st, err)
	}
	if n := log.reads.Load(); n > 0 {
		t.Errorf("the log was read %d times", n)
	}
}
