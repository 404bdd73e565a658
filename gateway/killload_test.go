package gateway

import (
	"runtime"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/provider/script"
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
