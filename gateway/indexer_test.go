package gateway

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/store"
)

// A watched index calls a function before each batch, and reports each session
// that it forgets.
type watched struct {
	store.SearchIndex
	adds    func(ctx context.Context, session string)
	forgets chan string
}

func (x *watched) AddItems(ctx context.Context, s store.SearchSession, after, seq int64, items ...store.SearchItem) error {
	x.adds(ctx, s.ID)
	return x.SearchIndex.AddItems(ctx, s, after, seq, items...)
}

func (x *watched) Forget(ctx context.Context, ids ...string) error {
	err := x.SearchIndex.Forget(ctx, ids...)
	for _, id := range ids {
		x.forgets <- id
	}
	return err
}

// longExport returns an export with as many answers in one turn.
func longExport(t *testing.T, answers int) *bytes.Buffer {
	t.Helper()
	var file bytes.Buffer
	seq := int64(0)
	add := func(b event.Body) {
		seq++
		data, err := event.Event{Session: "s", Turn: "t", Seq: seq, At: time.Unix(0, 0), Body: b}.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		file.Write(append(data, '\n'))
	}
	add(event.ResponseStart{ModelID: "m", ProviderID: "p"})
	for i := range answers {
		id := fmt.Sprintf("t:%d:0", i)
		add(event.ItemStart{ItemID: id, ItemType: event.TypeMessage})
		add(event.ItemDone{ItemID: id, FinalItem: event.Message{Content: "long", Origin: event.OriginAgent}})
	}
	add(event.ResponseDone{Status: event.StatusCompleted})
	return &file
}

// The items of a long session take hours if turns run meanwhile. A session that
// is deleted then does not stay in the index for as long.
func TestDeletedSessionLeavesTheIndexBeforeALongOneIsIndexed(t *testing.T) {
	const batches = 20
	for _, which := range []string{"another session", "the long session"} {
		t.Run(which, func(t *testing.T) {
			d, index := newDisk(t), searchIn(t, t.TempDir())
			x := &watched{SearchIndex: index, forgets: make(chan string, 10)}
			batch := make(chan string)
			x.adds = func(ctx context.Context, session string) {
				select {
				case batch <- session:
				case <-ctx.Done(): // the gateway closes
				}
			}
			g := d.open(t, func(c *Config) { c.Search = x })
			defer closeIt(t, g)
			short := d.create(t, g)
			d.ends(t, send(t, g, short, "text zebra"))
			if id := <-batch; id != short {
				t.Fatal(id)
			}
			long, err := ImportsOf(g).Import(t.Context(), "script", d.dir, longExport(t, batches*indexItems))
			if err != nil {
				t.Fatal(err)
			}
			for id := ""; id != long.SessionID; {
				id = <-batch // of the short one, perhaps, whose log may have grown
			}
			gone := short
			if which == "the long session" {
				gone = long.SessionID
			}
			if _, err := HousekeepingOf(g).Delete(t.Context(), gone); err != nil {
				t.Fatal(err)
			}
			for n := 1; ; n++ {
				select {
				case <-batch:
				case id := <-x.forgets:
					if id != gone || n > batches/2 {
						t.Errorf("after %d batches of %d, %s was removed from the index; want %s", n, batches, id, gone)
					}
					return
				}
			}
		})
	}
}
