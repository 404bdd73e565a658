package httpapi

import (
	"context"
	"io"
	"iter"
	"net/http"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/provider/script"
)

// tapped is the scripted agent as an agent whose start passes one line.
type tapped struct{ script.Provider }

func (*tapped) Translate(iter.Seq2[runnel.Line, error]) iter.Seq2[event.Event, error] {
	return func(func(event.Event, error) bool) {}
}

func (p *tapped) Open(ctx context.Context, o runnel.Options) (runnel.Conn, error) {
	c, err := p.Provider.Open(ctx, o)
	return &tappedConn{c, o.Tap}, err
}

type tappedConn struct {
	runnel.Conn
	tap func(runnel.Dir, []byte)
}

func (c *tappedConn) Prompt(ctx context.Context, turn string, in runnel.Input) error {
	c.tap(runnel.DirIn, []byte(`{"prompt":true}`))
	return c.Conn.Prompt(ctx, turn, in)
}

func TestDebugCaptureOverHTTP(t *testing.T) {
	rg := newRig(t, func(_ *Config, c *gateway.Config) { c.Providers = []runnel.Provider{&tapped{}} })
	id := rg.create()
	path := "/api/session/" + id + "/capture"
	rg.wantError("GET", path, "", http.StatusNotFound, runnel.InvalidRequest)
	rg.wantError("POST", path, "{}", http.StatusBadRequest, runnel.InvalidRequest)
	if st := call[gateway.Capture](rg, "POST", path, `{"on":true}`, http.StatusOK); !st.On {
		t.Errorf("on: %+v", st)
	}
	rg.events(id, rg.prompt(id, "text"))
	w := rg.do("GET", path, "")
	body, err := io.ReadAll(w.Result().Body)
	if err != nil || w.Code != http.StatusOK || strings.Count(string(body), `"dir":"in"`) != 1 {
		t.Errorf("got %d %s, %v", w.Code, body, err)
	}
	if disposition := w.Header().Get("Content-Disposition"); !strings.Contains(disposition, "capture.jsonl") {
		t.Errorf("Content-Disposition: %s", disposition)
	}
	if st := call[gateway.Status](rg, "GET", "/api/session/"+id+"/status", "", http.StatusOK); st.Capture == nil || !st.Capture.On || st.Capture.Bytes != int64(len(body)) {
		t.Errorf("status: %+v, want %d bytes", st.Capture, len(body))
	}
	if st := call[gateway.Capture](rg, "POST", path, `{"on":false}`, http.StatusOK); st.On {
		t.Errorf("off: %+v", st)
	}
	rg.token = rg.mint(auth.Read, auth.Send, auth.Approve)
	rg.wantError("GET", path, "", http.StatusForbidden, runnel.Forbidden)
	rg.wantError("POST", path, `{"on":true}`, http.StatusForbidden, runnel.Forbidden)
}
