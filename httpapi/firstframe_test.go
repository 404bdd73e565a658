package httpapi

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
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

// A countingLog counts the events that are appended to it.
type countingLog struct {
	runnel.Log
	appends atomic.Int32
}

func (l *countingLog) Append(ctx context.Context, session string, head int64, evs ...event.Event) error {
	l.appends.Add(1)
	return l.Log.Append(ctx, session, head, evs...)
}

// The first frame of a turn waits until the prompt is in the log. It also waits
// for the agent to report its model, but only for a short time.
func TestFirstFrameWaitsForThePromptOnly(t *testing.T) {
	for _, tt := range []struct {
		agent, opts, model string
		within             time.Duration // in virtual time, in which computing takes no time
		appends            int32
	}{
		{"silent", `{}`, "unknown", 100 * time.Millisecond, 1},
		{"silent", `{"model":"m"}`, "m", 100 * time.Millisecond, 1},
		{"script", `{}`, "scripted", 0, 2}, // the prompt, and the agent's first event
	} {
		t.Run(tt.agent+" "+tt.model, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := new(countingLog)
				s := serve(t, func(_ *Config, g *gateway.Config) {
					log.Log = g.Log
					g.Log, g.Providers = log, append(g.Providers, silentAgent{})
				})
				id := call[harnessSession](s.rig, "POST", "/api/harness/session/create", `{"cliType":"`+tt.agent+`","projectRoot":"`+s.dir+`","opts":`+tt.opts+`}`, 200).Session.SessionID
				synctest.Wait()
				began, before := time.Now(), log.appends.Load()
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
				if took, n := time.Since(began), log.appends.Load()-before; took != tt.within || n > tt.appends {
					t.Errorf("the first frame came after %v and %d commits, want %v and at most %d", took, n, tt.within, tt.appends)
				}
				call[okAnswer](s.rig, "POST", "/api/harness/interrupt", `{"sessionId":"`+id+`"}`, 200)
				if rest := framesOf(all(t, res.Body)); len(rest) == 0 || rest[len(rest)-1].name != "process:exit" {
					t.Errorf("then %+v", rest)
				}
			})
		})
	}
}
