package httpapi

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/gateway"
)

// A harness turn whose stream is rejected sends no prompt.
func TestARefusedStreamBeginsNoTurn(t *testing.T) {
	timed(t, minute)
	rg := newRig(t, func(c *Config, _ *gateway.Config) { c.Limits.Streams = -1 })
	id := rg.create()
	w := rg.do("POST", "/api/harness/turn", `{"sessionId":"`+id+`","message":"text"}`)
	if w.Code != http.StatusServiceUnavailable {
		t.Fatalf("got %d %s", w.Code, w.Body)
	}
	if st, _ := rg.log.State(t.Context(), id); st.Head != 0 {
		t.Errorf("the log has %d events of a prompt that was refused", st.Head)
	}
}

// A broken is a client that accepts the headers of an answer and nothing more.
type broken struct{ header http.Header }

func (b *broken) Header() http.Header       { return b.header }
func (b *broken) WriteHeader(int)           {}
func (b *broken) Write([]byte) (int, error) { return 0, errors.New("no") }

func TestAReaderThatTakesNothingCancels(t *testing.T) {
	timed(t, minute)
	rg := newRig(t)
	id := rg.create()
	rg.ServeHTTP(&broken{http.Header{}}, rg.request("POST", "/api/harness/turn?onDisconnect=cancel", `{"sessionId":"`+id+`","message":"hang"}`))
	deadline := time.After(time.Minute)
	for {
		st, err := rg.log.State(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if len(st.Open) == 0 {
			break
		}
		select {
		case <-rg.log.Grown(id, st.Head):
		case <-deadline:
			t.Fatal("the turn goes on without its reader")
		}
	}
	for ev := range rg.log.Read(t.Context(), id, 0) {
		if done, ok := ev.Body.(event.ResponseDone); ok && done.Status != event.StatusCancelled {
			t.Errorf("ended %s", done.Status)
		}
	}
}
