package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/runnel-dev/runnel/event"
)

// A lexicon draws words. A few words are in most texts, and most words are in
// few texts, as in a language.
type lexicon struct {
	words []string
	r     *rand.Rand
	zipf  *rand.Zipf
}

func newLexicon() *lexicon {
	const size = 100_000
	r := rand.New(rand.NewPCG(1, 2))
	l := &lexicon{r: r, zipf: rand.NewZipf(r, 1.1, 4, size-1)}
	const letters = "etaoinshrdlucmfwypvbgkjqxz"
	for range size {
		var b strings.Builder
		for range 3 + r.IntN(9) {
			b.WriteByte(letters[min(r.IntN(len(letters)), r.IntN(len(letters)))]) // frequent letters first
		}
		l.words = append(l.words, b.String())
	}
	return l
}

// word returns a word as often as texts have it.
func (l *lexicon) word() string { return l.words[l.zipf.Uint64()] }

// rare returns a word that few texts have.
func (l *lexicon) rare() string { return l.words[1000+l.r.IntN(len(l.words)-1000)] }

// beginning returns the first n letters of a word, as a query.
func (l *lexicon) beginning(n int) string {
	for {
		if w := l.word(); len(w) >= n {
			return w[:n] + "*"
		}
	}
}

// text returns at least n bytes of text.
func (l *lexicon) text(n int) string {
	var b strings.Builder
	for b.Len() < n {
		b.WriteString(l.word())
		b.WriteByte(' ')
	}
	return b.String()
}

// written adds sessions with n MB of answers, a MB in each.
func (f *filler) written(ctx context.Context, l *lexicon, n int) error {
	for i := range n {
		id := fmt.Sprintf("01990000-0000-7000-8000-%012d", i)
		if err := f.record(ctx, id, i); err != nil {
			return err
		}
		c := conversing{f: f, id: id}
		turn := fmt.Sprintf("01990000-0000-7000-9000-%012d", i)
		say := func(body event.Body) int {
			c.seq++
			c.evs = append(c.evs, event.Event{Session: c.id, Turn: turn, Seq: c.seq, At: f.start.Add(time.Duration(c.seq) * time.Second), Body: body})
			return event.Weight(body)
		}
		say(event.ResponseStart{ModelID: "claude-sonnet-4-5", ProviderID: "claude-code"})
		for bytes := 0; bytes < 1<<20; {
			item := fmt.Sprintf("%s:%d:0", turn, c.seq)
			say(event.ItemStart{ItemID: item, ItemType: event.TypeMessage})
			bytes += say(event.ItemDone{ItemID: item, FinalItem: event.Message{Content: l.text(200 + l.r.IntN(1500)), Origin: event.OriginAgent}})
		}
		say(event.ResponseDone{Status: event.StatusCompleted})
		if err := c.flush(ctx); err != nil {
			return err
		}
	}
	return nil
}

// searchRows measures a server with long transcripts: how long it takes to
// index them, and searches.
func (b *bench) searchRows(ctx context.Context) error {
	b.w.logf("filling a data directory with %d MB of transcripts", b.size.searched)
	l := newLexicon()
	s, err := b.filled(ctx, func(f *filler) error { return f.written(ctx, l, b.size.searched) })
	if err != nil {
		return err
	}
	if err := s.start(ctx); err != nil {
		return err
	}
	defer s.stop()
	took, err := s.searchable(ctx)
	if err != nil {
		return err
	}
	what := fmt.Sprintf("%d MB of transcripts", b.size.searched)
	rate := float64(b.size.searched) / took.Seconds()
	b.report.add(row{
		ID: "search index", What: what + ": making the search index", Ours: fmt.Sprintf("%.1f MB/s", rate), Numbers: []number{atLeast("", rate, "MB/s", 0.5)},
		Note: fmt.Sprintf("%s in all; the server pauses for a quarter of the time that it works", millis(took)),
	})
	return b.searches(ctx, s, l, searched{"search ", what, filepath.Join(s.home, "project", "0")})
}

// searchable searches until the server's index is complete. It returns how long
// that took.
func (s *runnel) searchable(ctx context.Context) (time.Duration, error) {
	for began := time.Now(); ; {
		page, _, err := s.search(ctx, "q=word")
		if err != nil {
			return 0, err
		}
		if !page.Indexing {
			return time.Since(began), nil
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// A searched is what is searched: the beginning of the ids of its rows, its
// description, and the folder that one of the queries selects.
type searched struct{ id, what, folder string }

// searches measures queries of each kind.
func (b *bench) searches(ctx context.Context, s *runnel, l *lexicon, of searched) error {
	for _, kind := range []struct {
		name  string
		query func() string
	}{
		{"word", l.word},
		{"rare word", l.rare},
		{"two words", func() string { return l.word() + " " + l.word() }},
		{"phrase", func() string { return `"` + l.word() + " " + l.word() + `"` }},
		{"two letters", func() string { return l.beginning(2) }},
		{"four letters", func() string { return l.beginning(4) }},
		{"six letters", func() string { return l.beginning(6) }},
		{"word of one kind and folder", func() string {
			return l.word() + "\x00&kind=answer&projectDir=" + url.QueryEscape(of.folder)
		}},
	} {
		var all []time.Duration
		hits := 0
		for range 20 * b.size.rounds {
			text, rest, _ := strings.Cut(kind.query(), "\x00")
			page, took, err := s.search(ctx, "q="+url.QueryEscape(text)+rest)
			if err != nil {
				return err
			}
			all, hits = append(all, took), hits+len(page.Hits)
		}
		at := spreadOf(all)
		b.report.add(row{
			ID: of.id + kind.name, What: of.what + ": search, " + kind.name + ", p95", Ours: millis(at.p95), Numbers: []number{atMost("", ms(at.p95), "ms", 100)},
			Note: fmt.Sprintf("of %d; median %s; %d hits a page", len(all), millis(at.p50), hits/len(all)),
		})
	}
	return nil
}

// unopenedRows measures searches over the conversations that agents have stored
// in a year, of which nobody has opened one.
func (b *bench) unopenedRows(ctx context.Context) error {
	s, y, err := b.stored()
	if err != nil {
		return err
	}
	if err := s.start(ctx); err != nil {
		return err
	}
	defer s.stop()
	took, err := s.searchable(ctx)
	if err != nil {
		return err
	}
	what := fmt.Sprintf("%s conversations that nobody has opened, %s", thousands(y.count), megabytes(int(y.bytes)))
	rate := float64(y.bytes) / (1 << 20) / took.Seconds()
	b.report.add(row{
		ID: "unopened index", What: what + ": making the search index", Ours: fmt.Sprintf("%.1f MB/s", rate), Numbers: []number{atLeast("", rate, "MB/s", 0.5)},
		Note: fmt.Sprintf("%s in all, while somebody searches; the server pauses for a quarter of the time that it works", millis(took)),
	})
	return b.searches(ctx, s, y.lex, searched{"unopened ", what, filepath.Join(s.home, "work", "project-0")})
}

// A searchPage is what this program reads of an answer to a search.
type searchPage struct {
	Hits     []json.RawMessage `json:"hits"`
	Indexing bool              `json:"indexing"`
}

func (s *runnel) search(ctx context.Context, query string) (page searchPage, took time.Duration, err error) {
	began := time.Now()
	body, _, err := s.get(ctx, "/api/search?"+query)
	took = time.Since(began)
	if err == nil {
		err = json.Unmarshal(body, &page)
	}
	return page, took, err
}
