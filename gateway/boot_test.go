package gateway

import (
	"context"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/provider/script"
)

// After a forced boot nothing goes back to the conversation that was given up,
// also if the server ends before the new one has said its id.
func TestForcedBootForgetsTheConversationAtOnce(t *testing.T) {
	d := newDisk(t)
	g := d.open(t)
	id := d.create(t, g)
	d.ends(t, send(t, g, id, "text"))
	before, err := g.Status(t.Context(), id)
	if err != nil || before.AgentSessionID == "" {
		t.Fatalf("got %+v, %v", before, err)
	}
	after, boot, err := g.Boot(t.Context(), id, true)
	if err != nil || boot.Resumed || after.AgentSessionID == before.AgentSessionID {
		t.Errorf("booted %+v: %+v, %v", boot, after, err)
	}
	told := 0
	for ev, err := range d.log.Read(t.Context(), id, before.LastSeq) {
		if n, ok := ev.Body.(event.Notice); ok && n.Code == runnel.ConversationForgotten && err == nil {
			told++
		}
	}
	if told != 1 {
		t.Errorf("readers were told %d times", told)
	}
	closeIt(t, g)

	f := &fake{name: "script", open: func(o runnel.Options) (runnel.Conn, error) { return script.New().Open(context.Background(), o) }}
	g = d.open(t, func(c *Config) { c.Providers = []runnel.Provider{f} })
	defer closeIt(t, g)
	d.ends(t, send(t, g, id, "text"))
	if got := f.resumed.Load(); got == before.AgentSessionID {
		t.Errorf("the next agent resumed %v", got)
	}
}
