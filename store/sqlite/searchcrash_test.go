package sqlite

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel/store"
)

// crashIndexer adds the items of one session, and adds and forgets another one,
// until it is killed. It prints each position after AddItems has returned.
func crashIndexer(dir string) error {
	ctx := context.Background()
	x, err := OpenSearch(ctx, dir, "log", nil)
	if err != nil {
		return err
	}
	at, err := x.Indexed(ctx)
	if err != nil {
		return err
	}
	for seq := at["kept"].Seq; ; {
		n := int64(1 + rand.IntN(5))
		if err := x.AddItems(ctx, store.SearchSession{ID: "kept"}, seq, seq+n, crashItems("kept", seq, n)...); err != nil {
			return err
		}
		seq += n
		fmt.Println(seq)
		if seq%3 > 0 {
			continue
		}
		var gone []string
		if at, err = x.Indexed(ctx); err != nil {
			return err
		}
		for id := range at { // also the rest of a session that an earlier process forgot
			if id != "kept" {
				gone = append(gone, id)
			}
		}
		if err := x.Forget(ctx, gone...); err != nil {
			return err
		}
		if err := x.AddItems(ctx, store.SearchSession{ID: "gone"}, 0, 3, crashItems("gone", 0, 3)...); err != nil {
			return err
		}
	}
}

func crashItems(session string, after, n int64) (items []store.SearchItem) {
	for seq := after + 1; seq <= after+n; seq++ {
		items = append(items, store.SearchItem{Item: fmt.Sprint(seq), Seq: seq, Kind: store.SearchAnswer, Text: fmt.Sprint(session, " item ", strings.Repeat("text ", 100), seq)})
	}
	return items
}

// TestKillWhileIndexingLosesAndRepeatsNothing kills a process at random moments
// while it adds and forgets items. Afterwards the index has each item up to the
// position once, and forgetting continues.
func TestKillWhileIndexingLosesAndRepeatsNothing(t *testing.T) {
	rounds := 10
	switch {
	case long:
		rounds = 20
	case testing.Short():
		rounds = 4
	}
	dir := ownDir(t)
	for round := range rounds {
		cmd := child(t, "indexer", dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		acked := int64(0)
		lines := bufio.NewScanner(out)
		for range 1 + rand.IntN(30) {
			if lines.Scan() {
				if _, err := fmt.Sscan(lines.Text(), &acked); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for lines.Scan() { // what was printed before the end
			_, _ = fmt.Sscan(lines.Text(), &acked)
		}
		_ = cmd.Wait()

		x := openSearch(t, dir, "log")
		at, err := x.Indexed(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if at["kept"].Seq < acked || acked == 0 {
			t.Fatalf("round %d: position %d, acknowledged %d", round, at["kept"].Seq, acked)
		}
		var seqs []int64
		for before := int64(0); ; {
			page, err := x.Search(t.Context(), store.SearchQuery{Text: "kept", Limit: 100, Before: before})
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range page.Found {
				seqs = append(seqs, f.Seq)
			}
			if before = page.Next; before == 0 {
				break
			}
		}
		slices.Sort(seqs)
		for i, seq := range seqs {
			if seq != int64(i+1) {
				t.Fatalf("round %d: item %d follows item %d", round, seq, i)
			}
		}
		if int64(len(seqs)) != at["kept"].Seq {
			t.Fatalf("round %d: %d items up to position %d", round, len(seqs), at["kept"].Seq)
		}
		if err := x.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
