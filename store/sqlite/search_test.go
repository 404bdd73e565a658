package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/testload"
	"github.com/runnel-dev/runnel/store"
)

func openSearch(t *testing.T, dir, log string) *SearchIndex {
	t.Helper()
	x, err := OpenSearch(t.Context(), dir, log, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = x.Close() })
	return x
}

var searchStart = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// addTexts adds one item for each text, as the next events of a session.
func addTexts(t *testing.T, x *SearchIndex, s store.SearchSession, kind store.SearchKind, texts ...string) {
	t.Helper()
	at, err := x.Indexed(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	seq := at[s.ID].Seq
	var items []store.SearchItem
	for _, text := range texts {
		seq++
		items = append(items, store.SearchItem{
			Item: fmt.Sprintf("%s:%d", s.ID, seq), Turn: "turn", Seq: seq, Kind: kind, Text: text,
			At: searchStart.Add(time.Duration(seq) * time.Minute),
		})
	}
	if err := x.AddItems(t.Context(), s, at[s.ID].Seq, seq, items...); err != nil {
		t.Fatal(err)
	}
}

// found returns the snippets of a query, with the matches in brackets.
func found(t *testing.T, x *SearchIndex, q store.SearchQuery) []string {
	t.Helper()
	if q.Limit == 0 {
		q.Limit = 100
	}
	page, err := x.Search(t.Context(), q)
	if err != nil {
		t.Fatalf("search %q: %v", q.Text, err)
	}
	list := []string{}
	for _, f := range page.Found {
		var b strings.Builder
		for _, p := range f.Snippet {
			if p.Match {
				b.WriteString("[" + p.Text + "]")
			} else {
				b.WriteString(p.Text)
			}
		}
		list = append(list, b.String())
	}
	return list
}

func wantFound(t *testing.T, x *SearchIndex, q store.SearchQuery, want ...string) {
	t.Helper()
	if got := found(t, x, q); fmt.Sprint(got) != fmt.Sprint(append([]string{}, want...)) {
		t.Errorf("search %+v:\n got %q\nwant %q", q, got, want)
	}
}

func TestSearchFindsWordsPhrasesAndPrefixes(t *testing.T) {
	x := openSearch(t, ownDir(t), "log")
	addTexts(t, x, store.SearchSession{ID: "s"}, store.SearchAnswer,
		"The quick brown fox", "A brown and quick dog in café", "see src/login_form.go:12 and LoginForm", "数据库连接失败了", "データベースに接続", "nothing *here*")
	for text, want := range map[string][]string{
		"quick brown":       {"A [brown] and [quick] dog in café", "The [quick] [brown] fox"},
		`"quick brown"`:     {"The [quick brown] fox"},
		`"quick brown`:      {"The [quick brown] fox"},
		"bro*":              {"A [brown] and quick dog in café", "The quick [brown] fox"},
		`"quick bro"*`:      {"The [quick brown] fox"},
		"bro":               {},
		"QUICK fox":         {"The [quick] brown [fox]"},
		"cafe":              {"A brown and quick dog in [café]"},
		"src/login_form.go": {"see [src/login_form.go]:12 and LoginForm"},
		"src/log*":          {"see [src/login]_form.go:12 and LoginForm"},
		"连接失败":              {"数据库[连接失败]了"},
		"失连":                {},
		"库 了":               {"数据[库]连接失败[了]"},
		"ベース":               {"データ[ベース]に接続"},
		"接":                 {"データベースに[接]続", "数据库连[接]失败了"},
		"here OR fox":       {},
		"text:fox":          {},
		"kanswer":           {},
		"-- quick ()":       {"A brown and [quick] dog in café", "The [quick] brown fox"},
	} {
		wantFound(t, x, store.SearchQuery{Text: text}, want...)
	}
	for _, text := range []string{"", "  ", "***", `"--"`, "\x00", strings.Repeat("a ", 5000), strings.Repeat("word ", 100)} {
		_, err := x.Search(t.Context(), store.SearchQuery{Text: text, Limit: 10})
		if runnel.CodeOf(err) != runnel.InvalidRequest {
			t.Errorf("search %.20q: error %v", text, err)
		}
	}
}

// A beginning that is longer than those in the full-text index is searched by
// the words that begin so, unless there are too many.
func TestSearchFindsLongBeginningsByTheirWords(t *testing.T) {
	x := openSearch(t, ownDir(t), "log")
	var many strings.Builder
	for i := range maxWords + 1 {
		fmt.Fprintf(&many, "crowd%d ", i)
	}
	addTexts(t, x, store.SearchSession{ID: "s", CLIType: "claude"}, store.SearchAnswer,
		"functional", "the functions of", "Function", "fünctionär", "functor", "the function returns", many.String())
	for text, want := range map[string][]string{
		"functi*":           {"the [function] returns", "[fünctionär]", "[Function]", "the [functions] of", "[functional]"},
		"FUNCTIO*":          {"the [function] returns", "[fünctionär]", "[Function]", "the [functions] of", "[functional]"},
		`"the function"*`:   {"[the function] returns", "[the functions] of"},
		"functi* return*":   {"the [function] [returns]"},
		"functionary*":      {},
		"a_function*":       {},
		"fünctio*":          {"the [function] returns", "[fünctionär]", "[Function]", "the [functions] of", "[functional]"},
		"functi* crowd100*": {},
	} {
		wantFound(t, x, store.SearchQuery{Text: text}, want...)
	}
	if got := found(t, x, store.SearchQuery{Text: "crowd*"}); len(got) != 1 || !strings.HasPrefix(got[0], "[crowd0] [crowd1]") {
		t.Errorf("%q", got)
	}
	for text, want := range map[string]string{
		"functi*": `{text} : (("function" OR "functional" OR "functionar" OR "functions"))`,
		"func*":   `{text} : ("func" *)`,
		"crowd*":  `{text} : ("crowd" *)`,
	} {
		terms, err := parseQuery(text)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := matching(t.Context(), x.reader, terms, store.SearchQuery{}); got != want || err != nil {
			t.Errorf("%s: %s, %v, want %s", text, got, err, want)
		}
	}
}

// An import can give all items of a session the same time.
func TestSearchHoldsManyItemsOfOneSecond(t *testing.T) {
	x := openSearch(t, ownDir(t), "log")
	var items []store.SearchItem
	for i := range 3*perTime + 10 {
		items = append(items, store.SearchItem{Item: fmt.Sprint(i), Seq: int64(i + 1), Kind: store.SearchAnswer, Text: fmt.Sprint("same n", i), At: searchStart})
	}
	if err := x.AddItems(t.Context(), store.SearchSession{ID: "s"}, 0, int64(len(items)), items...); err != nil {
		t.Fatal(err)
	}
	addTexts(t, x, store.SearchSession{ID: "later"}, store.SearchAnswer, "same later")
	for _, q := range []store.SearchQuery{{}, {Since: searchStart, Until: searchStart}} {
		q.Text, q.Limit = "same", 1000
		seen := map[string]bool{}
		for {
			page, err := x.Search(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range page.Found {
				if f.Session == "s" {
					seen[f.Item] = true
				} else if !q.Until.IsZero() {
					t.Errorf("%+v", f)
				}
			}
			if q.Before = page.Next; q.Before == 0 {
				break
			}
		}
		if len(seen) != len(items) {
			t.Errorf("%+v: %d of %d items", q, len(seen), len(items))
		}
	}
}

// The index has 1,024 ids for each second. If a file has more items in each of
// many seconds, every further item gets an id of a second after all of these.
func TestSearchAddsItemsBehindManyFullSeconds(t *testing.T) {
	x := openSearch(t, ownDir(t), "log")
	const seconds = 3000
	err := x.write(t.Context(), func(tx *sql.Tx) error {
		for i := range int64(seconds) { // the last id of each second
			_, err := tx.ExecContext(t.Context(), "INSERT INTO items (id, at, session, seq, turn, item, kind) VALUES (?, 0, 99, 1, '', '', 'answer')", firstID(searchStart)+(i+1)*perTime-1)
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var items []store.SearchItem
	for i := range 2 * seconds {
		at := searchStart.Add(time.Duration(i%seconds) * time.Second)
		items = append(items, store.SearchItem{Item: fmt.Sprint(i), Seq: int64(i + 1), Kind: store.SearchAnswer, Text: "same", At: at})
	}
	ctx, cancel := context.WithTimeout(t.Context(), testload.Room(10*time.Second))
	defer cancel()
	if err := x.AddItems(ctx, store.SearchSession{ID: "s"}, 0, int64(len(items)), items...); err != nil {
		t.Fatal(err)
	}
}

// A stored conversation that is no session is read again as a whole after its
// file has changed.
func TestSearchSkipsKnownItemsOfAStoredConversation(t *testing.T) {
	x := openSearch(t, ownDir(t), "log")
	add := func(after int64, state string, texts ...string) error {
		var items []store.SearchItem
		for i, text := range texts {
			items = append(items, store.SearchItem{Item: fmt.Sprint(i), Seq: int64(i + 1), Kind: store.SearchAnswer, Text: text, At: searchStart.Add(time.Duration(i) * time.Second)})
		}
		return x.AddItems(t.Context(), store.SearchSession{ID: "codex:c", CLIType: "codex", State: state}, after, int64(len(texts)), items...)
	}
	if err := add(0, "1", "word a", "word b"); err != nil {
		t.Fatal(err)
	}
	if err := add(2, "2", "word a", "word b", "word c"); err != nil {
		t.Fatal(err)
	}
	twice := []store.SearchItem{
		{Item: "call", Seq: 0, Kind: store.SearchCommand, Text: "the call", At: searchStart},
		{Item: "call", Seq: 1, Kind: store.SearchCommand, Text: "the output", At: searchStart},
	}
	for range 2 {
		if err := x.AddItems(t.Context(), store.SearchSession{ID: "codex:d", CLIType: "codex", State: "1"}, 0, 0, twice...); err != nil {
			t.Fatal(err)
		}
	}
	wantFound(t, x, store.SearchQuery{Text: "the"}, "[the] output", "[the] call")
	if err := add(2, "3"); !errors.Is(err, store.ErrConflict) {
		t.Errorf("from another position: %v", err)
	}
	wantFound(t, x, store.SearchQuery{Text: "word"}, "[word] c", "[word] b", "[word] a")
	at, err := x.Indexed(t.Context())
	if want := (store.SearchPosition{Seq: 3, State: "2"}); err != nil || at["codex:c"] != want {
		t.Errorf("%+v, %v, want %+v", at, err, want)
	}
}

func TestSearchSelectsByKindAgentProjectAndTime(t *testing.T) {
	x := openSearch(t, ownDir(t), "log")
	a, b := store.SearchSession{ID: "a", CLIType: "claude-code", ProjectID: "11"}, store.SearchSession{ID: "b", CLIType: "codex", ProjectID: "22"}
	addTexts(t, x, a, store.SearchPrompt, "word one")
	addTexts(t, x, a, store.SearchCommand, "word two")
	addTexts(t, x, b, store.SearchPrompt, "word three")
	addTexts(t, x, b, store.SearchDiff, "word four", "word five")
	for _, c := range []struct {
		q    store.SearchQuery
		want string
	}{
		{store.SearchQuery{Kinds: []store.SearchKind{store.SearchPrompt}}, "one three"},
		{store.SearchQuery{Kinds: []store.SearchKind{store.SearchCommand, store.SearchDiff}}, "five four two"},
		{store.SearchQuery{CLIType: "claude-code"}, "one two"},
		{store.SearchQuery{CLIType: "claude"}, ""},
		{store.SearchQuery{ProjectID: "22"}, "five four three"},
		{store.SearchQuery{ProjectID: "22", Kinds: []store.SearchKind{store.SearchPrompt}}, "three"},
		{store.SearchQuery{ProjectID: "2"}, ""},
		{store.SearchQuery{Since: searchStart.Add(2 * time.Minute)}, "five four two"},
		{store.SearchQuery{Until: searchStart.Add(1 * time.Minute)}, "one three"},
		{store.SearchQuery{Since: searchStart.Add(2 * time.Minute), Until: searchStart.Add(2 * time.Minute)}, "four two"},
	} {
		c.q.Text = "word"
		words := map[string]bool{}
		for _, s := range found(t, x, c.q) {
			words[strings.TrimPrefix(s, "[word] ")] = true
		}
		for _, w := range strings.Fields(c.want) {
			if !words[w] {
				t.Errorf("%+v does not find %s", c.q, w)
			}
			delete(words, w)
		}
		if len(words) > 0 {
			t.Errorf("%+v also finds %v", c.q, words)
		}
	}
}

func TestSearchPagesShowEachItemOnceNewestFirst(t *testing.T) {
	x := openSearch(t, ownDir(t), "log")
	var texts []string
	for i := range 25 {
		texts = append(texts, fmt.Sprint("word number", i))
	}
	addTexts(t, x, store.SearchSession{ID: "s"}, store.SearchAnswer, texts...)
	var seen []int64
	for before, pages := int64(0), 0; ; pages++ {
		page, err := x.Search(t.Context(), store.SearchQuery{Text: "word", Limit: 10, Before: before})
		if err != nil || pages > 3 {
			t.Fatal(pages, err)
		}
		for _, f := range page.Found {
			seen = append(seen, f.Seq)
			if f.Session != "s" || f.Item != fmt.Sprint("s:", f.Seq) || !f.At.Equal(searchStart.Add(time.Duration(f.Seq)*time.Minute)) {
				t.Errorf("item %+v", f)
			}
		}
		if before = page.Next; before == 0 {
			break
		}
	}
	for i, seq := range seen {
		if seq != int64(25-i) {
			t.Fatalf("order %v", seen)
		}
	}
	if len(seen) != 25 {
		t.Errorf("%d items", len(seen))
	}
}

func TestSearchCutsSnippetsAroundTheMatch(t *testing.T) {
	x := openSearch(t, ownDir(t), "log")
	filler := strings.Repeat("filling text with ümläuts\n\n\tand 数据 ", 300)
	addTexts(t, x, store.SearchSession{ID: "s"}, store.SearchAnswer, filler+"the needle lies here \x02\x03\x1b[31m "+filler)
	got := found(t, x, store.SearchQuery{Text: "needle"})
	if len(got) != 1 || !strings.Contains(got[0], "the [needle] lies here") || len(got[0]) > maxSnippet+100 ||
		!strings.HasPrefix(got[0], "…") || !strings.HasSuffix(got[0], "…") || strings.ContainsAny(got[0], "\n\t\x02\x03\u200b") {
		t.Errorf("snippet %q", got)
	}
}

// damagePages overwrites every page of the index but the first two.
func damagePages(t *testing.T, dir string) {
	t.Helper()
	path := filepath.Join(dir, searchFile)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := 2 * 4096; i < len(data); i++ {
		data[i] = 0xff
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestSearchIndexIsMadeAgainIfItIsDamagedOrOfAnotherLog(t *testing.T) {
	dir := ownDir(t)
	s := store.SearchSession{ID: "s"}
	fill := func(log string) {
		t.Helper()
		x := openSearch(t, dir, log)
		if at, err := x.Indexed(t.Context()); err != nil || len(at) != 0 {
			t.Fatalf("the index has %v, %v", at, err)
		}
		addTexts(t, x, s, store.SearchAnswer, "word")
		if err := x.Close(); err != nil {
			t.Fatal(err)
		}
	}
	fill("one")
	x := openSearch(t, dir, "one")
	wantFound(t, x, store.SearchQuery{Text: "word"}, "[word]")
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	fill("two")
	for _, damage := range []string{"", "no database", strings.Repeat("x", 1<<16)} {
		if err := os.WriteFile(filepath.Join(dir, searchFile), []byte(damage), 0o600); err != nil {
			t.Fatal(err)
		}
		fill("two")
	}
	damagePages(t, dir)
	fill("two")
	for _, name := range []string{searchFile, searchFile + "-wal"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil && info.Mode().Perm() != 0o600 {
			t.Errorf("%s has the mode %v", name, info.Mode())
		}
	}
	if err := RemoveSearch(dir); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "search*")); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
}

func TestSearchAddsItemsOnce(t *testing.T) {
	x := openSearch(t, ownDir(t), "log")
	s := store.SearchSession{ID: "s"}
	items := []store.SearchItem{{Item: "i", Seq: 3, Kind: store.SearchAnswer, Text: "word"}}
	if err := x.AddItems(t.Context(), s, 0, 5, items...); err != nil {
		t.Fatal(err)
	}
	for _, after := range []int64{0, 3, 6} {
		if err := x.AddItems(t.Context(), s, after, 7, items...); !errors.Is(err, store.ErrConflict) {
			t.Errorf("items after %d: error %v", after, err)
		}
	}
	wantFound(t, x, store.SearchQuery{Text: "word"}, "[word]")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := x.AddItems(ended, s, 5, 9, store.SearchItem{Item: "j", Seq: 9, Text: "word"}); err == nil {
		t.Error("no error of the context")
	}
	wantFound(t, x, store.SearchQuery{Text: "word"}, "[word]")
	if at, err := x.Indexed(t.Context()); err != nil || at["s"].Seq != 5 {
		t.Error(at, err)
	}
}

// randomWords returns words that begin with one of five letters, the first of
// which is given, and occur nowhere else.
func randomWords(r *rand.Rand, first rune, n int) []string {
	words := make([]string, n)
	for i := range words {
		words[i] = fmt.Sprintf("%c%013x", first+rune(r.IntN(5)), r.Uint64()>>12)
	}
	return words
}

// TestForgottenSessionLeavesNoBytesInTheSearchIndex also searches the files for
// the beginnings of words, since the index stores beginnings on their own.
func TestForgottenSessionLeavesNoBytesInTheSearchIndex(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	dir := ownDir(t)
	x := openSearch(t, dir, "log")
	words := make(map[string][]string)
	size := 3000
	switch {
	case long:
		size = 8000
	case testing.Short():
		size = 1000
	}
	for id, first := range map[string]rune{"kept": 'g', "gone": 'm', "also": 's'} {
		words[id] = randomWords(r, first, size)
	}
	for at := 0; at < size; at += 100 {
		for id, list := range words {
			addTexts(t, x, store.SearchSession{ID: id + "-session"}, store.SearchCommand, strings.Join(list[at:at+50], " "), strings.Join(list[at+50:at+100], " "))
		}
	}
	if err := x.Forget(t.Context(), "gone-session", "also-session", "unknown"); err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	files, err := filepath.Glob(filepath.Join(dir, "search*"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(data)
	}
	const beginning = 5
	for id, list := range words {
		left := 0
		for _, w := range list {
			if strings.Contains(all.String(), w[:beginning]) {
				left++
			}
		}
		if id != "kept" && left > 0 {
			t.Errorf("the files hold %d of %d words of the deleted session", left, len(list))
		}
		if n := strings.Count(all.String(), id+"-session"); (id == "kept") != (n > 0) {
			t.Errorf("%s occurs %d times", id, n)
		}
	}
	var beginnings int // shorter ones, which chance may also put into a file
	err = x.read(t.Context(), func(db *sql.DB) error {
		return db.QueryRow("SELECT count(*) FROM texts_idx WHERE substr(CAST(term AS TEXT), 2, 1) BETWEEN 'm' AND 'z'").Scan(&beginnings)
	})
	if err != nil || beginnings > 0 {
		t.Errorf("the index has %d beginnings of deleted words, %v", beginnings, err)
	}
	for i := 0; i < size; i += size / 10 {
		if got := found(t, x, store.SearchQuery{Text: words["kept"][i]}); len(got) != 1 {
			t.Errorf("%q finds %q", words["kept"][i], got)
		}
	}
}

// TestSearchIndexDamagedWhileOpenIsMadeAgain damages pages that no connection
// has read yet.
func TestSearchIndexDamagedWhileOpenIsMadeAgain(t *testing.T) {
	dir := ownDir(t)
	s := store.SearchSession{ID: "s"}
	x := openSearch(t, dir, "log")
	addTexts(t, x, s, store.SearchAnswer, strings.Fields(strings.Repeat("zebra ", 2000))...)
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	x = openSearch(t, dir, "log")
	damagePages(t, dir)
	page, err := x.Search(t.Context(), store.SearchQuery{Text: "zebra", Limit: 100})
	if err == nil {
		t.Fatalf("the damaged index finds %d items", len(page.Found))
	}
	if at, err := x.Indexed(t.Context()); err != nil || len(at) > 0 {
		t.Fatalf("after the damage the index has %v, %v", at, err)
	}
	addTexts(t, x, s, store.SearchAnswer, "zebra")
	wantFound(t, x, store.SearchQuery{Text: "zebra"}, "[zebra]")
}
