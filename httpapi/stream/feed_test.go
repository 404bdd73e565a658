package stream

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/provider/script"
	"github.com/runnel-dev/runnel/store"
	"github.com/runnel-dev/runnel/store/memory"
)

const sessionID = "00000000-0000-7000-8000-000000000001"

var errDisk = runnel.Fail(runnel.Internal, "the disk failed")

// A brokenLog is a log that cannot be read.
type brokenLog struct{ *memory.Log }

func (brokenLog) Read(context.Context, string, int64) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) { yield(event.Event{}, errDisk) }
}

// A brokenCatalogue is a catalogue whose records of sessions cannot be read.
type brokenCatalogue struct{ *memory.Catalogue }

func (brokenCatalogue) Session(context.Context, string) (store.Session, error) {
	return store.Session{}, errDisk
}

// feeds returns Streams over a log and a catalogue.
func feeds(t *testing.T, log runnel.Log, catalogue store.Catalogue) *Streams {
	t.Helper()
	gw, err := gateway.Open(t.Context(), gateway.Config{Log: log, Catalogue: catalogue, Providers: []runnel.Provider{script.New()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := gw.Close(context.Background()); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return New(Config{Gateway: gw, Heartbeat: time.Second, WriteStall: time.Second})
}

// appendTurns appends events to the log of sessionID. It fills in their missing
// fields.
func appendTurns(t *testing.T, log runnel.Log, evs ...event.Event) {
	t.Helper()
	st, err := log.State(t.Context(), sessionID)
	if err != nil {
		t.Fatal(err)
	}
	for i := range evs {
		evs[i].Seq, evs[i].Session, evs[i].At = st.Head+int64(i)+1, sessionID, time.Now()
	}
	if err := log.Append(t.Context(), sessionID, st.Head, evs...); err != nil {
		t.Fatal(err)
	}
}

var (
	begins = event.ResponseStart{ProviderID: "script"}
	ends   = event.ResponseDone{Status: event.StatusCompleted}
)

// A client gets an error if the log cannot be read, and the stall check's own
// error if that check fails. Both transports report the same.
func TestFeedErrors(t *testing.T) {
	for name, tt := range map[string]struct {
		log       func(*memory.Log) runnel.Log
		catalogue func(*memory.Log) store.Catalogue
		want      runnel.Code
	}{
		"log": {
			func(l *memory.Log) runnel.Log { return brokenLog{l} },
			func(l *memory.Log) store.Catalogue { return memory.New(l) },
			runnel.StoreUnavailable,
		},
		"catalogue": {
			func(l *memory.Log) runnel.Log { return l },
			func(l *memory.Log) store.Catalogue { return brokenCatalogue{memory.New(l)} },
			runnel.Internal,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := new(memory.Log)
				s := feeds(t, tt.log(log), tt.catalogue(log))
				appendTurns(t, log, event.Event{Turn: "a", Body: begins})
				w := httptest.NewRecorder()
				out := &sse{ctx: t.Context(), w: w, rc: http.NewResponseController(w), stall: time.Second, count: func() {}, lag: lagMeter{observe: func(time.Duration) {}}}
				after := int64(0)
				err := s.follow(t.Context(), sessionID, &after, out, func(event.Event) (bool, error) { return false, nil })
				if runnel.CodeOf(err) != tt.want || !errors.Is(err, errDisk) {
					t.Errorf("SSE: got %v, want %s", err, tt.want)
				}
				f, err := s.feed(t.Context(), sessionID, 0)
				for err == nil {
					if _, err = f.wait(t.Context(), time.Time{}, nil); err == nil {
						_, err = f.read(t.Context())
					}
				}
				if runnel.CodeOf(err) != tt.want || !errors.Is(err, errDisk) {
					t.Errorf("WebSocket: got %v, want %s", err, tt.want)
				}
			})
		})
	}
}

func TestStallDetectorWatchesEveryOpenTurn(t *testing.T) {
	log := new(memory.Log)
	s := feeds(t, log, memory.New(log))
	appendTurns(t, log, event.Event{Turn: "a", Body: begins}, event.Event{Turn: "b", Body: begins}, event.Event{Turn: "a", Body: ends})
	f, err := s.feed(t.Context(), sessionID, 0)
	if err != nil {
		t.Fatal(err)
	}
	if evs, err := f.read(t.Context()); len(evs) != 3 || err != nil {
		t.Fatalf("read %v, %v", evs, err)
	}
	if f.stall.due().IsZero() {
		t.Error("a turn without an end is not checked, as another turn ended after it began")
	}
	appendTurns(t, log, event.Event{Turn: "b", Body: ends})
	if evs, err := f.read(t.Context()); len(evs) != 1 || err != nil {
		t.Fatalf("read %v, %v", evs, err)
	}
	if due := f.stall.due(); !due.IsZero() {
		t.Errorf("checked at %v, when no turn is open", due)
	}
}
