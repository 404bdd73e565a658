package files

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/junegunn/fzf/src/algo"
	"github.com/junegunn/fzf/src/util"
)

// An EntryKind is what an entry of a directory is.
type EntryKind string

// The kinds. Links are not followed, so what they lead to is unknown.
const (
	KindFile   EntryKind = "file"
	KindFolder EntryKind = "folder"
	KindLink   EntryKind = "link"
	KindOther  EntryKind = "other"
)

// A CompletedPath is a file or folder that matches a query.
type CompletedPath struct {
	Path      string    `json:"path" doc:"Path from the project's directory, with / between its elements."`
	Kind      EntryKind `json:"kind" enum:"file,folder" doc:"What the path leads to."`
	Positions []int     `json:"positions,omitempty" doc:"Positions of the query's characters in the path, in Unicode characters from 0. Absent if there is no query."`
}

// A Completion has the files that match a query, the best first.
type Completion struct {
	Files   []CompletedPath `json:"files" doc:"The files and folders that match best, the best first."`
	Partial bool            `json:"partial,omitempty" doc:"Whether the project has files that were not searched: the search continues with the next request, or the project has more than 50,000 files or 8 MiB of paths."`
}

// Complete returns the files of the project that match a query, at most limit.
// The query's characters must occur in a path in this order; each word of the
// query must match. fzf's algorithm ranks the matches. Case matters if the
// query has a capital letter. An empty query matches the files nearest to the
// top.
//
// Complete leaves out what git ignores, what [Secret] reports, and links. It
// leaves out hidden files unless an element of the query begins with a dot. It
// searches for at most 200 ms, and ranks what has been found until then.
func (p Project) Complete(ctx context.Context, query string, limit int) (Completion, error) {
	if utf8.RuneCountInString(query) > maxQuery {
		return Completion{}, ErrBadQuery
	}
	found, partial, err := p.files(ctx)
	if err != nil {
		return Completion{}, err
	}
	out := Completion{Files: []CompletedPath{}, Partial: partial}
	q := newQuery(query)
	ranked, err := q.rank(ctx, found)
	if err != nil {
		return Completion{}, err
	}
	for _, r := range ranked[:min(limit, len(ranked))] {
		m := CompletedPath{Path: strings.TrimSuffix(r.entry.path.ToString(), "/"), Kind: KindFile, Positions: q.positions(r.entry)}
		if r.entry.folder {
			m.Kind = KindFolder
		}
		out.Files = append(out.Files, m)
	}
	return out, nil
}

// A query is what a person typed to find a file.
type query struct {
	words  []word
	hidden bool // hidden files match, too
	slab   *util.Slab
}

type word struct {
	pattern       []rune
	caseSensitive bool
}

// Sizes of the memory that fzf's algorithm uses again for each path. They are
// fzf's own.
const (
	slab16 = 100 * 1024
	slab32 = 2048
)

func newQuery(text string) query {
	q := query{hidden: hidden(text), slab: util.MakeSlab(slab16, slab32)}
	for f := range strings.FieldsSeq(text) {
		w := word{caseSensitive: strings.ContainsFunc(f, unicode.IsUpper)}
		if !w.caseSensitive {
			f = strings.ToLower(f)
		}
		w.pattern = algo.NormalizeRunes([]rune(f))
		q.words = append(q.words, w)
	}
	return q
}

// A ranked entry matches a query.
type ranked struct {
	entry  *entry
	score  int
	inName int // distance from the last "/" to the match; large if the match begins before
	order  int // position in the list of entries
}

// rank returns the entries that match q, the best first.
func (q query) rank(ctx context.Context, found []entry) (out []ranked, err error) {
	for i := range found {
		if i%1024 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		e := &found[i]
		if e.hidden && !q.hidden {
			continue
		}
		if r, ok := q.match(e); ok {
			r.order = i
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b ranked) int {
		if len(q.words) == 0 {
			return cmp.Compare(a.order, b.order)
		}
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.inName, b.inName), cmp.Compare(a.entry.path.Length(), b.entry.path.Length()), cmp.Compare(a.order, b.order))
	})
	return out, nil
}

func (q query) match(e *entry) (ranked, bool) {
	r := ranked{entry: e}
	first := math.MaxInt
	for _, w := range q.words {
		result, _ := algo.FuzzyMatchV2(w.caseSensitive, true, true, &e.path, w.pattern, false, q.slab)
		if result.Start < 0 {
			return r, false
		}
		r.score += result.Score
		first = min(first, result.Start)
	}
	r.inName = math.MaxInt
	if name := nameStart(e); first >= name {
		r.inName = first - name
	}
	return r, true
}

// nameStart returns the position of the last element of a path.
func nameStart(e *entry) int {
	end := e.path.Length()
	if e.folder {
		end--
	}
	for i := end - 1; i >= 0; i-- {
		if e.path.Get(i) == '/' {
			return i + 1
		}
	}
	return 0
}

// positions returns where the query's characters are in a path.
func (q query) positions(e *entry) (all []int) {
	for _, w := range q.words {
		if _, at := algo.FuzzyMatchV2(w.caseSensitive, true, true, &e.path, w.pattern, true, q.slab); at != nil {
			all = append(all, *at...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
