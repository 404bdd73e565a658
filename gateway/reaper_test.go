package gateway

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/runnel-dev/runnel"
)

// plainly is a provider of scripted agents whose conversations cannot be
// resumed.
type plainly struct{ p *started }

func (f plainly) Name() string { return f.p.Name() }
func (f plainly) Open(ctx context.Context, o runnel.Options) (runnel.Conn, error) {
	return f.p.Open(ctx, o)
}

// resuming is a provider whose agents report whether they can resume.
type resuming struct {
	plainly
	can bool
}

type resumer struct {
	runnel.Conn
	can bool
}

func (r resumer) Resumes() bool { return r.can }

func (f resuming) Open(ctx context.Context, o runnel.Options) (runnel.Conn, error) {
	c, err := f.plainly.Open(ctx, o)
	return resumer{c, f.can}, err
}

func TestIdleAgentThatResumesIsStopped(t *testing.T) {
	for _, can := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			d, p := newDisk(t), &started{}
			g := d.open(t, func(c *Config) {
				c.Providers, c.IdleTimeout, c.StallTimeout = []runnel.Provider{resuming{plainly{p}, can}}, time.Minute, -1
			})
			defer closeIt(t, g)
			id := d.create(t, g)
			d.ends(t, send(t, g, id, "text"))
			<-time.After(time.Hour)
			synctest.Wait()
			if st, err := g.Status(t.Context(), id); err != nil || st.IsAlive == can {
				t.Errorf("it can resume: %v; it is alive: %v, %v", can, st.IsAlive, err)
			}
		})
	}
}

// An idle agent is stopped only if its conversation can be resumed.
func TestIdleAgentThatCannotResumeIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, p := newDisk(t), &started{}
		g := d.open(t, func(c *Config) {
			c.Providers, c.IdleTimeout, c.StallTimeout = []runnel.Provider{plainly{p}}, time.Minute, -1
		})
		defer closeIt(t, g)
		used, unused, crashed := d.create(t, g), d.create(t, g), d.create(t, g)
		d.ends(t, send(t, g, used, "text"))
		d.ends(t, send(t, g, crashed, "text"))
		d.ends(t, send(t, g, crashed, "crash"))
		<-time.After(time.Hour)
		synctest.Wait()
		alive := func(id string) bool {
			st, err := g.Status(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			return st.IsAlive
		}
		if !alive(used) || alive(unused) || alive(crashed) {
			t.Errorf("alive: used %v, unused %v, crashed %v", alive(used), alive(unused), alive(crashed))
		}
		if g.sessions.peek(used) == nil || g.sessions.peek(unused) != nil || g.sessions.peek(crashed) != nil {
			t.Error("put away what is needed, or kept what is not")
		}
		n := len(p.list())
		d.ends(t, send(t, g, used, "text"))
		if len(p.list()) != n || p.list()[0].prompts.Load() != 2 {
			t.Error("its conversation was interrupted")
		}
	})
}
