package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestTableSurvivesItsFile(t *testing.T) {
	want := &table{Command: "bench -x", Facts: [][2]string{{"Go", "1.26"}}, Rows: []row{{
		Part: "counts", ID: "counts/SSE", What: "calls", Ours: "7.5", Peer: "peer 4", Note: "a note",
		Numbers: []number{atMost("calls", 7.5, "", 8).noiseFree(0.1), lower("bytes", 3, "B")},
	}}}
	file := filepath.Join(t.TempDir(), "RESULTS.md")
	if err := want.write(file); err != nil {
		t.Fatal(err)
	}
	got, err := readTable(jsonFile(file))
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got.markdown() != want.markdown() || string(page) != want.markdown() {
		t.Errorf("read %s\nwritten %s\npage %s", got.markdown(), want.markdown(), page)
	}
	if !strings.Contains(string(page), "| calls | calls ≤ 8 | 7.5 | met | peer 4 | a note |") {
		t.Errorf("%s", page)
	}
	if len(got.Rows[0].Numbers) != 2 || *got.Rows[0].Numbers[0].Target != 8 || !got.Rows[0].Numbers[0].NoiseFree {
		t.Errorf("%+v", got.Rows[0].Numbers)
	}
}

func TestRenewedPartsKeepTheirPlace(t *testing.T) {
	at := func(part, what string) row { return row{Part: part, ID: what, What: what} }
	old := &table{Rows: []row{at("latency", "a"), at("crash", "old"), at("micro", "z")}}
	old.renew([]string{"crash"}, &table{Rows: []row{at("crash", "b"), at("crash", "c")}})
	if got := each(old.Rows, func(w row) string { return w.What }); !slices.Equal(got, []string{"a", "b", "c", "z"}) {
		t.Error(got)
	}
	old.renew([]string{"burst"}, &table{Rows: []row{at("burst", "d")}})
	if got := each(old.Rows, func(w row) string { return w.What }); !slices.Equal(got, []string{"a", "d", "b", "c", "z"}) {
		t.Errorf("a new part is in the order of the parts: %v", got)
	}
}

// TestCommittedPagesAreRendered fails if somebody edits a page of results by
// hand. "go -C bench run . -render RESULTS.md" writes it again.
func TestCommittedPagesAreRendered(t *testing.T) {
	for _, page := range []string{"RESULTS.md", "AGENTS.md"} {
		tab, err := readTable(jsonFile(page))
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		if string(text) != tab.markdown() {
			t.Errorf("%s is not what %s renders to", page, jsonFile(page))
		}
		seen := map[string]bool{}
		for _, w := range tab.Rows {
			if w.ID == "" || seen[w.ID] {
				t.Errorf("%s: row %q has no id of its own: %q", page, w.What, w.ID)
			}
			seen[w.ID] = true
			if w.target() == "" || w.verdict() == "no target" {
				t.Errorf("%s: row %q has no target", page, w.What)
			}
		}
	}
}

// TestMissedTargetsAreExplained compares the rows that miss their targets with
// the headings of MISSED.md.
func TestMissedTargetsAreExplained(t *testing.T) {
	tab, err := readTable("RESULTS.json")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("MISSED.md")
	if err != nil {
		t.Fatal(err)
	}
	headings := "\n"
	for line := range strings.Lines(string(text)) {
		if ids, ok := strings.CutPrefix(line, "## "); ok {
			headings += " " + strings.TrimSpace(ids) + " \n"
		}
	}
	known := headings
	for _, w := range tab.Rows {
		explained := strings.Contains(headings, " "+w.ID+" ")
		if strings.HasPrefix(w.verdict(), "missed") && !explained {
			t.Errorf("MISSED.md does not explain %s: %s", w.ID, w.verdict())
		}
		known = strings.ReplaceAll(known, " "+w.ID+" ", "  ")
	}
	if rest := strings.TrimSpace(known); rest != "" {
		t.Errorf("MISSED.md explains what is no row: %q", rest)
	}
}
