package httpapi

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/gateway"
)

// A silentAgent accepts prompts and answers nothing.
type silentAgent struct{}

func (silentAgent) Name() string { return "silent" }

func (silentAgent) Open(context.Context, runnel.Options) (runnel.Conn, error) {
	return &silentConn{closed: make(chan struct{})}, nil
}

type silentConn struct {
	once   sync.Once
	closed chan struct{}
}

func (c *silentConn) Next(ctx context.Context) (event.Event, error) {
	select {
	case <-c.closed:
		return event.Event{}, io.EOF
	case <-ctx.Done():
		return event.Event{}, ctx.Err()
	}
}

func (c *silentConn) Prompt(context.Context, string, runnel.Input) error { return nil }
func (c *silentConn) Interrupt(context.Context) error                    { return nil }
func (c *silentConn) Decide(context.Context, string, runnel.Decision) error {
	return errors.New("nothing was asked")
}
func (c *silentConn) Close() error { c.once.Do(func() { close(c.closed) }); return nil }

// A limitedLog accepts a number of appends, and lets the others wait for a second of
// virtual time, or until it is released.
type limitedLog struct {
	runnel.Log
	left     atomic.Int32
	released chan struct{}
}

func (l *limitedLog) Append(ctx context.Context, session string, head int64, evs ...event.Event) error {
	if l.left.Add(-1) < 0 {
		select {
		case <-l.released:
		case <-time.After(time.Second):
		}
	}
	return l.Log.Append(ctx, session, head, evs...)
}

// The first frame of a turn waits until the prompt is in the log. It also waits
// for the agent to report its model, but only for a short time.
func TestFirstFrameWaitsForThePromptOnly(t *testing.T) {
	for _, tt := range []struct {
		agent, opts, model string
		within             time.Duration // in virtual time, in which computing takes no time
		appends            int32         // commits before the frame; further ones wait for it
	}{
		{"silent", `{}`, "unknown", 100 * time.Millisecond, 1},
		{"silent", `{"model":"m"}`, "m", 100 * time.Millisecond, 1},
		{"script", `{}`, "scripted", 0, 2}, // the prompt, and the agent's first event
	} {
		t.Run(tt.agent+" "+tt.model, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := &limitedLog{released: make(chan struct{})}
				log.left.Store(math.MaxInt32)
				s := serve(t, func(_ *Config, g *gateway.Config) {
					log.Log = g.Log
					g.Log, g.Providers = log, append(g.Providers, silentAgent{})
				})
				id := call[harnessSession](s.rig, "POST", "/api/harness/session/create", `{"cliType":"`+tt.agent+`","projectRoot":"`+s.dir+`","opts":`+tt.opts+`}`, 200).Session.SessionID
				synctest.Wait()
				began := time.Now()
				log.left.Store(tt.appends)
				res := s.roundTrip("POST", "/api/harness/turn", `{"sessionId":"`+id+`","message":"hang"}`)
				f, err := readFrame(bufio.NewReader(res.Body))
				var first struct {
					Seq                        int64
					SessionID, TurnID, ModelID string
				}
				if err := errors.Join(err, json.Unmarshal(f.data, &first)); err != nil || f.name != "session:init" || first.SessionID != id ||
					first.TurnID == "" || first.ModelID != tt.model || first.Seq != f.id || f.id == 0 {
					t.Errorf("%+v, %v", f, err)
				}
				if took := time.Since(began); took != tt.within {
					t.Errorf("the first frame came after %v, want %v", took, tt.within)
				}
				close(log.released)
				call[okAnswer](s.rig, "POST", "/api/harness/interrupt", `{"sessionId":"`+id+`"}`, 200)
				if rest := framesOf(all(t, res.Body)); len(rest) == 0 || rest[len(rest)-1].name != "process:exit" {
					t.Errorf("then %+v", rest)
				}
			})
		})
	}
}
