package gateway

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/provider/script"
	"github.com/runnel-dev/runnel/store"
)

// heldExit is the connection to an agent that exits when exit is closed. Close
// closes exits.
type heldExit struct {
	runnel.Conn
	exits, exit chan struct{}
}

func (c heldExit) Close() error {
	close(c.exits)
	<-c.exit
	return c.Conn.Close()
}

// heldWrite is a catalogue. One of the writes of the record of an ended session
// closes at, and then waits until on is closed.
type heldWrite struct {
	store.Catalogue
	left   *atomic.Int64 // writes up to that one
	at, on chan struct{}
}

func (c heldWrite) PutSession(ctx context.Context, rec store.Session) error {
	if rec.State == event.StateDead && c.left.Add(-1) == 0 {
		close(c.at)
		<-c.on
	}
	return c.Catalogue.PutSession(ctx, rec)
}

// A client sees that a session was ended before its record is written, which
// happens twice: before and after the end of the agent.
func TestLoadBeforeTheEndIsWrittenReopensTheSession(t *testing.T) {
	for write := range int64(2) {
		t.Run(fmt.Sprint("write ", write+1), func(t *testing.T) {
			held := heldWrite{left: new(atomic.Int64), at: make(chan struct{}), on: make(chan struct{})}
			held.left.Store(write + 1)
			d := newDisk(t)
			g := d.open(t, func(c *Config) { held.Catalogue = c.Catalogue; c.Catalogue = held })
			defer closeIt(t, g)
			id := d.create(t, g)
			d.ends(t, send(t, g, id, "text"))
			killed, loaded := make(chan error, 1), make(chan error, 1)
			go func() { killed <- g.Kill(t.Context(), id) }()
			<-held.at
			list, err := g.List(t.Context(), Filter{ProjectDir: d.dir, Dead: true})
			if err != nil || len(list) != 1 || list[0].State != event.StateDead {
				t.Errorf("during the kill: %+v, %v", list, err)
			}
			go func() { _, err := g.Load(t.Context(), id, ""); loaded <- err }()
			for users := 0; users < 2 && len(loaded) == 0; { // both calls have the session, or the load does not wait
				g.sessions.mu.Lock()
				if e := g.sessions.open[id]; e != nil {
					users = e.users
				}
				g.sessions.mu.Unlock()
				runtime.Gosched()
			}
			close(held.on)
			if err := <-killed; err != nil {
				t.Error(err)
			}
			if err := <-loaded; err != nil {
				t.Errorf("load: %v", err)
			}
			closeIt(t, g)
			g = d.open(t)
			defer closeIt(t, g)
			d.ends(t, send(t, g, id, "text"))
		})
	}
}

// A client sees that a session was ended before its agent has exited.
func TestLoadDuringKillReopensTheSession(t *testing.T) {
	exits, exit := make(chan struct{}), make(chan struct{})
	first := true
	agent := &fake{name: "held", open: func(o runnel.Options) (runnel.Conn, error) {
		conn, err := script.New().Open(t.Context(), o)
		if !first || err != nil {
			return conn, err
		}
		first = false
		return heldExit{conn, exits, exit}, nil
	}}
	d := newDisk(t)
	g := d.open(t, func(c *Config) { c.Providers = []runnel.Provider{agent} })
	defer closeIt(t, g)
	st, err := g.Create(t.Context(), "held", d.dir, runnel.Options{}, "")
	if err != nil {
		t.Fatal(err)
	}
	id := st.SessionID
	d.ends(t, send(t, g, id, "text"))
	killed, loaded := make(chan error, 1), make(chan error, 1)
	go func() { killed <- g.Kill(t.Context(), id) }()
	<-exits
	list, err := g.List(t.Context(), Filter{ProjectDir: d.dir, Dead: true})
	if err != nil || len(list) != 1 || list[0].State != event.StateDead {
		t.Errorf("during the kill: %+v, %v", list, err)
	}
	go func() { _, err := g.Load(t.Context(), id, ""); loaded <- err }()
	for users := 0; users < 2; { // both calls have the session
		g.sessions.mu.Lock()
		users = g.sessions.open[id].users
		g.sessions.mu.Unlock()
		runtime.Gosched()
	}
	close(exit)
	if err := <-killed; err != nil {
		t.Error(err)
	}
	if err := <-loaded; err != nil {
		t.Errorf("load: %v", err)
	}
	d.ends(t, send(t, g, id, "text"))
}
