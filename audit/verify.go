package audit

import (
	"crypto/hmac"
	"fmt"
	"path/filepath"
)

// A Report is the result of checking a log.
type Report struct {
	First    uint64   `json:"first" doc:"Number of the first entry. Older ones were removed because the log had its maximum size."`
	Entries  uint64   `json:"entries" doc:"Number of entries."`
	Last     uint64   `json:"last" doc:"Number of the last entry."`
	Problems []Damage `json:"problems,omitempty" doc:"The places at which the log is not as it was written, at most 100."`
}

// A Damage is a place at which the log is not as Runnel wrote it.
type Damage struct {
	N    uint64 `json:"n" doc:"Number of the entry."`
	File string `json:"file,omitempty" doc:"Name of the file in the folder of the log. Absent: the problem is the end of the log."`
	Line int    `json:"line,omitempty" doc:"Line of the file, from 1."`
	What string `json:"what" doc:"What is wrong."`
}

func (p Damage) String() string {
	if p.File == "" {
		return fmt.Sprintf("entry %d: %s", p.N, p.What)
	}
	return fmt.Sprintf("entry %d (%s, line %d): %s", p.N, p.File, p.Line, p.What)
}

// maxProblems bounds a report. A log of which nothing is left of the chain has a
// problem in every line.
const maxProblems = 100

// Verify checks every entry of the log in a place. It can run while a server
// appends entries.
func Verify(p Place) (Report, error) {
	v := verification{chain: newChain(p.Secret)}
	h, known, err := readHead(p.Head, v.chain)
	if err != nil {
		return Report{}, err
	}
	firsts, err := filesOf(p.Dir)
	if err != nil {
		return Report{}, err
	}
	v.next = 1
	if known {
		v.next = h.first
	}
	v.report.First = v.next
	for i, first := range firsts {
		if i+1 < len(firsts) && firsts[i+1] <= v.next {
			continue // its removal was interrupted
		}
		if err := v.file(p.Dir, first, i == len(firsts)-1); err != nil {
			return Report{}, err
		}
	}
	v.end(h, known)
	return v.report, nil
}

type verification struct {
	chain  chain
	report Report
	next   uint64 // number of the entry to come
	prev   mac
	linked bool // prev is the code of the entry before next
}

func (v *verification) problem(n uint64, file string, line int, what string) {
	if len(v.report.Problems) < maxProblems {
		v.report.Problems = append(v.report.Problems, Damage{n, file, line, what})
	}
}

// file checks a file of the log.
func (v *verification) file(dir string, first uint64, last bool) error {
	name, n := nameOf(first), 0
	return lines(filepath.Join(dir, name), func(line []byte, whole bool) bool {
		n++
		if !whole && last && v.linked {
			return true // its writing was interrupted, or goes on
		}
		v.line(line, name, n)
		return true
	})
}

func (v *verification) line(line []byte, file string, at int) {
	e, m, err := entry(line)
	text, _, _ := split(line)
	if err != nil {
		v.problem(v.next, file, at, "changed: "+err.Error())
		v.next, v.linked = v.next+1, false
		return
	}
	switch {
	case e.N > v.next:
		v.problem(v.next, file, at, fmt.Sprintf("missing: the log continues with entry %d", e.N))
		v.linked = false
	case e.N < v.next:
		v.problem(e.N, file, at, "out of order, or there twice")
		return
	}
	v.report.Entries++
	want := v.chain.next(v.prev, text)
	switch {
	case hmac.Equal(m[:], want[:]):
	case v.linked || e.N == 1:
		v.problem(e.N, file, at, "changed: its code does not fit")
	case e.N == v.report.First: // the code before it is not known any more
	case !v.afterProblem():
		v.problem(e.N, file, at, "changed: its code does not fit")
	}
	v.prev, v.linked, v.next = m, true, e.N+1
	v.report.Last = e.N
}

// afterProblem reports whether a problem stands before the entry that is
// checked, so that its code cannot be checked.
func (v *verification) afterProblem() bool { return len(v.report.Problems) > 0 }

// end compares the end of the log with its head.
func (v *verification) end(h head, known bool) {
	switch {
	case !known && v.report.Entries > 0:
		v.problem(v.next, "", 0, "the record of the last entry is missing, so entries can be missing at the end")
	case known && h.n >= v.next:
		v.problem(v.next, "", 0, fmt.Sprintf("missing: the last entry was %d", h.n))
	case known && h.n == v.report.Last && v.linked && h.last != v.prev && !v.afterProblem():
		v.problem(h.n, "", 0, "changed: it is not the last entry that was written")
	}
}
