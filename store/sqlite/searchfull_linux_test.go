package sqlite

import (
	"strings"
	"testing"

	"github.com/runnel-dev/runnel/store"
)

// TestSearchWorksOnAFullDisk fills the disk. Items can then be found, and new
// ones are rejected until the disk has space again.
func TestSearchWorksOnAFullDisk(t *testing.T) {
	dir := smallDisk(t, 4<<20)
	x := openSearch(t, dir, "log")
	s := store.SearchSession{ID: "s"}
	addTexts(t, x, s, store.SearchAnswer, "zebra one")
	free := fillDisk(t, dir)
	var err error
	seq := int64(1)
	for err == nil { // until the space that the files already occupy is used up
		item := store.SearchItem{Item: "i", Seq: seq + 1, Kind: store.SearchAnswer, Text: strings.Repeat("filler ", 5000)}
		if err = x.AddItems(t.Context(), s, seq, seq+1, item); err == nil {
			seq++
		}
	}
	wantFull(t, "AddItems", err)
	wantFound(t, x, store.SearchQuery{Text: "zebra"}, "[zebra] one")
	free()
	addTexts(t, x, s, store.SearchAnswer, "zebra two")
	wantFound(t, x, store.SearchQuery{Text: "zebra"}, "[zebra] two", "[zebra] one")
}
