package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/runnel-dev/runnel/bench/load"
)

// maxRequest is how much of a request the model reads, in bytes.
const maxRequest = 16 << 20

// A model is a server of the Messages API on loopback. It writes the deltas of
// the last load.Plan in the conversation. A request that offers no tools, for
// example for a title, gets a one-word answer.
type model struct {
	url    string
	server *http.Server
	served chan struct{}
}

func startModel(ctx context.Context) (*model, error) {
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	m := &model{url: "http://" + ln.Addr().String(), served: make(chan struct{})}
	m.server = &http.Server{Handler: http.HandlerFunc(m.serve), ReadHeaderTimeout: 10 * time.Second}
	go func() {
		defer close(m.served)
		_ = m.server.Serve(ln) // runs until close
	}()
	return m, nil
}

func (m *model) close() {
	_ = m.server.Close()
	<-m.served
}

func (m *model) serve(w http.ResponseWriter, r *http.Request) {
	if !strings.HasSuffix(r.URL.Path, "/messages") {
		w.WriteHeader(http.StatusOK)
		return
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxRequest))
	var in struct {
		Tools []json.RawMessage
		Model string
	}
	if err == nil {
		err = json.Unmarshal(body, &in)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	plan, ok := load.Parse(string(body))
	w.Header().Set("Content-Type", "text/event-stream")
	flush := http.NewResponseController(w).Flush
	send := func(event map[string]any) error {
		data, err := json.Marshal(event)
		if err == nil {
			_, err = fmt.Fprintf(w, "event: %s\ndata: %s\n\n", event["type"], data)
		}
		if err != nil {
			return err
		}
		return flush()
	}
	text := func(s string) error {
		return send(map[string]any{"type": "content_block_delta", "index": 0, "delta": map[string]any{"type": "text_delta", "text": s}})
	}
	_ = send(map[string]any{"type": "message_start", "message": map[string]any{
		"id": fmt.Sprintf("msg_%d", time.Now().UnixNano()), "type": "message", "role": "assistant", "model": in.Model, "content": []any{},
		"stop_reason": nil, "stop_sequence": nil, "usage": map[string]any{"input_tokens": 1, "output_tokens": 1},
	}}) // if the client has disconnected a later write fails
	_ = send(map[string]any{"type": "content_block_start", "index": 0, "content_block": map[string]any{"type": "text", "text": ""}})
	if ok && len(in.Tools) > 0 {
		_, err = plan.Write(r.Context(), text)
	} else {
		err = text("ok")
	}
	if err != nil {
		return
	}
	_ = send(map[string]any{"type": "content_block_stop", "index": 0})
	_ = send(map[string]any{"type": "message_delta", "delta": map[string]any{"stop_reason": "end_turn", "stop_sequence": nil}, "usage": map[string]any{"output_tokens": 1}})
	_ = send(map[string]any{"type": "message_stop"})
}
