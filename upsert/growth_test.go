package upsert_test

import (
	"strings"
	"testing"

	"github.com/runnel-dev/runnel/upsert"
)

// The upserts of one item have at most eight times its final size together,
// however long the item is.
func TestGradientSendsALongItemFewTimes(t *testing.T) {
	for name, p := range map[string]upsert.Pacer{
		"default":       {},
		"short":         {Gradient: []int{1}},
		"no first text": {NoFirstPaint: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := reader{p: p}
			r.push(message("i"))
			sent, size := 0, 0
			for n := range 20_000 {
				word := "w "
				if n < 2000 { // a word up to longRun bytes is one token
					word = strings.Repeat("w", 16) + " "
				}
				size += len(word)
				r.push(delta("i", word))
			}
			for _, o := range r.got {
				sent += len(o.(upsert.Upsert).Message.Content)
			}
			if sent > 8*size {
				t.Errorf("%d bytes were sent in %d upserts of an item of %d bytes", sent, len(r.got), size)
			}
		})
	}
}
