package gateway

import (
	"os"
	"testing"
	"testing/synctest"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
)

// The tools of an agent that already runs find its directory by the path.
func TestRunningAgentGetsNoPromptOnceALinkReplacesItsDirectory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisk(t)
		g := d.open(t)
		defer closeIt(t, g)
		id := d.create(t, g)
		running := send(t, g, id, "hang")
		queued, err := g.Send(t.Context(), id, Prompt{Text: "text", Queue: true})
		if err != nil || !queued.Queued {
			t.Fatalf("%+v, %v", queued, err)
		}
		if err := os.Rename(d.dir, d.dir+"-away"); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(t.TempDir(), d.dir); err != nil {
			t.Fatal(err)
		}
		if err := g.Cancel(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		d.ends(t, running)
		if _, err := QueuesOf(g).Hold(t.Context(), id, false); err != nil {
			t.Fatal(err)
		}
		if end, ok := d.ends(t, queued).Body.(event.ResponseError); !ok || end.Error.Code != string(runnel.WorkingRootInaccessible) {
			t.Errorf("the queued prompt ended with %+v", end)
		}
		_, err = g.Send(t.Context(), id, Prompt{Text: "text"})
		wantCode(t, err, runnel.WorkingRootInaccessible)
		if st, err := g.Status(t.Context(), id); err != nil || !st.IsAlive {
			t.Errorf("%+v, %v", st, err)
		}
	})
}
