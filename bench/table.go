package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A row is one line of the table. Its cells are text for people; its numbers
// are what verdicts and the gate compare.
type row struct {
	Part    string   `json:"part"` // name of the part; see [parts]
	ID      string   `json:"id"`   // unique in the table, and the same in every run
	What    string   `json:"what"`
	Target  string   `json:"target,omitempty"` // what a row that was not measured would have to meet
	Ours    string   `json:"runnel"`
	Peer    string   `json:"beside,omitempty"` // name and value of a peer; empty if no peer can do this
	Note    string   `json:"remarks,omitempty"`
	Numbers []number `json:"numbers,omitempty"`
}

// A table is what a run has measured. It is committed as JSON, and beside it as
// the page that is rendered from it.
type table struct {
	Title   string      `json:"title,omitempty"`
	Command string      `json:"command"`
	Intro   string      `json:"intro,omitempty"` // what else a reader must know
	Facts   [][2]string `json:"facts"`
	Rows    []row       `json:"rows"`
}

// jsonFile returns the name of the table of a page: RESULTS.json for
// RESULTS.md.
func jsonFile(page string) string { return strings.TrimSuffix(page, filepath.Ext(page)) + ".json" }

func readTable(file string) (*table, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	t := new(table)
	if err := json.Unmarshal(data, t); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return t, nil
}

// write writes the page and its table.
func (t *table) write(page string) error {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "\t")
	if err := enc.Encode(t); err != nil {
		return err
	}
	return errors.Join(os.WriteFile(jsonFile(page), []byte(b.String()), 0o644), os.WriteFile(page, []byte(t.markdown()), 0o644))
}

// number returns a number of a row by its label. t may be nil.
func (t *table) number(id, label string) (number, bool) {
	if t != nil {
		for _, w := range t.Rows {
			for _, n := range w.Numbers {
				if w.ID == id && n.label() == label {
					return n, true
				}
			}
		}
	}
	return number{}, false
}

// renew replaces the rows of some parts with those of another table, in the
// order of the parts.
func (t *table) renew(which []string, by *table) {
	rows := slices.DeleteFunc(slices.Clone(t.Rows), func(w row) bool { return slices.Contains(which, w.Part) })
	rows = append(rows, by.Rows...)
	order := names()
	slices.SortStableFunc(rows, func(a, b row) int { return slices.Index(order, a.Part) - slices.Index(order, b.Part) })
	t.Rows = rows
}

// markdown returns the page.
func (t *table) markdown() string {
	var b strings.Builder
	b.WriteString("# " + cmp.Or(t.Title, "Results") + "\n\nWritten by `" + t.Command + "`; [README.md](README.md) says what each row means. " + t.Intro +
		"Times are milliseconds unless a unit stands there.\n\n")
	b.WriteString("| | |\n|---|---|\n")
	for _, f := range t.Facts {
		fmt.Fprintf(&b, "| %s | %s |\n", f[0], f[1])
	}
	b.WriteString("\n| what | target | Runnel | verdict | beside it | remarks |\n|---|---|---|---|---|---|\n")
	for _, w := range t.Rows {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", w.What, w.target(), w.Ours, w.verdict(), w.Peer, w.Note)
	}
	return b.String()
}

// text returns the table for a terminal.
func (t *table) text() string {
	cells := [][]string{{"what", "target", "Runnel", "verdict", "beside it", "remarks"}}
	for _, w := range t.Rows {
		cells = append(cells, []string{w.What, w.target(), w.Ours, w.verdict(), w.Peer, w.Note})
	}
	width := make([]int, len(cells[0])-1) // the last column is not padded
	for _, line := range cells {
		for i := range width {
			width[i] = max(width[i], len([]rune(line[i])))
		}
	}
	var b strings.Builder
	for _, line := range cells {
		for i, cell := range line {
			if i < len(width) {
				cell += strings.Repeat(" ", width[i]-len([]rune(cell))+2)
			}
			b.WriteString(cell)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
