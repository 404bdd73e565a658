package agentconn

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
)

func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func stored(t *testing.T, dir, pattern string) (files []runnel.StoredFile) {
	t.Helper()
	for f, err := range StoredFiles(t.Context(), dir, pattern) {
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	slices.SortFunc(files, func(a, b runnel.StoredFile) int { return strings.Compare(a.Path, b.Path) })
	return files
}

func TestStoredFilesMatchThePatternOfEachLevel(t *testing.T) {
	dir := t.TempDir()
	a, b := write(t, filepath.Join(dir, "p", "a.jsonl"), "1"), write(t, filepath.Join(dir, "q", "b.jsonl"), "22")
	for _, other := range []string{"a.jsonl", "p/a.json", "p/deep/a.jsonl", "p/folder.jsonl/x"} {
		write(t, filepath.Join(dir, filepath.FromSlash(other)), "x")
	}
	got := stored(t, dir, "*/*.jsonl")
	if len(got) != 2 || got[0].Path != a || got[1].Path != b || got[0].Size != 1 || got[1].Size != 2 || got[0].ModTime.IsZero() {
		t.Fatalf("%+v", got)
	}
	before := got[0]
	other := write(t, filepath.Join(dir, "other"), "2")
	if err := os.Chtimes(other, before.ModTime, before.ModTime); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(other, a); err != nil {
		t.Fatal(err)
	}
	if after := stored(t, dir, "p/*.jsonl"); len(after) != 1 || before.Inode != 0 && after[0] == before {
		t.Errorf("a replaced file looks unchanged: %+v", after)
	}
	if none := stored(t, filepath.Join(dir, "missing"), "*"); len(none) != 0 {
		t.Errorf("%+v", none)
	}
}

func TestStoredFileIsWhatStoredFilesYield(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	a := write(t, filepath.Join(dir, "p", "a.jsonl"), "1")
	want := stored(t, dir, "*/*.jsonl")
	if got, ok := StoredFile(dir, "*/*.jsonl", a); !ok || len(want) != 1 || got != want[0] {
		t.Errorf("%+v, %v, want %+v", got, ok, want)
	}
	secret := write(t, filepath.Join(outside, "secret.jsonl"), "2")
	others := []string{dir, filepath.Join(dir, "p"), filepath.Join(dir, "p", "none.jsonl"), secret, filepath.Join(dir, "..", filepath.Base(outside), "secret.jsonl")}
	for _, name := range []string{"a.jsonl", "p/a.json", "p/deep/a.jsonl", "p/folder.jsonl/x"} {
		others = append(others, write(t, filepath.Join(dir, filepath.FromSlash(name)), "x"))
	}
	others = append(others, filepath.Join(dir, "p", "folder.jsonl"))
	for link, target := range map[string]string{"p/link.jsonl": secret, "q": outside, "r": filepath.Join(dir, "p")} {
		if os.Symlink(target, filepath.Join(dir, filepath.FromSlash(link))) == nil {
			others = append(others, filepath.Join(dir, filepath.FromSlash(link)))
		}
	}
	others = append(others, filepath.Join(dir, "q", "secret.jsonl"), filepath.Join(dir, "r", "a.jsonl"))
	for _, path := range others {
		if got, ok := StoredFile(dir, "*/*.jsonl", path); ok {
			t.Errorf("%s is a file of a conversation: %+v", path, got)
		}
	}
}

func TestStoredFilesFollowNoLinks(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	write(t, filepath.Join(dir, "p", "real.jsonl"), "1")
	secret := write(t, filepath.Join(outside, "secret.jsonl"), "2")
	for link, target := range map[string]string{"p/link.jsonl": secret, "q": outside} {
		if err := os.Symlink(target, filepath.Join(dir, filepath.FromSlash(link))); err != nil {
			t.Skip(err)
		}
	}
	if got := stored(t, dir, "*/*.jsonl"); len(got) != 1 || filepath.Base(got[0].Path) != "real.jsonl" {
		t.Errorf("%+v", got)
	}
	for _, path := range []string{filepath.Join(dir, "p", "link.jsonl"), filepath.Join(dir, "q", "secret.jsonl"), secret, dir} {
		if ends, err := ReadEnds(dir, path, 10, 10); err == nil {
			t.Errorf("%s was read: %q", path, ends.Head)
		}
	}
}

func TestStoredFilesEndWithTheContext(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a"), "")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	n := 0
	for _, err := range StoredFiles(ctx, dir, "*") {
		if n++; err == nil {
			t.Error("a file was yielded")
		}
	}
	if n != 1 {
		t.Errorf("%d results", n)
	}
}

func TestReadEndsReturnsOnlyCompleteLines(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct{ text, head, tail string }{
		"empty":             {"", "", ""},
		"within the head":   {"one\ntwo\n", "one\ntwo\n", ""},
		"unfinished line":   {"one\ntw", "one\n", ""},
		"both ends meet":    {"one\ntwo\nthree\nfour\n", "one\ntwo\n", "three\nfour\n"},
		"a gap":             {"one\n" + strings.Repeat("x", 100) + "\nlast\n", "one\n", "last\n"},
		"one line too long": {strings.Repeat("x", 100), "", ""},
		"unfinished end":    {"one\n" + strings.Repeat("x", 100) + "\na\nb", "one\n", "a\n"},
	} {
		path := write(t, filepath.Join(dir, name), c.text)
		ends, err := ReadEnds(dir, path, 10, 12)
		if err != nil || string(ends.Head) != c.head || string(ends.Tail) != c.tail {
			t.Errorf("%s: %q and %q, %v", name, ends.Head, ends.Tail, err)
		}
	}
}

func TestReadEndsReadsABoundedPartOfALargeFile(t *testing.T) {
	dir := t.TempDir()
	path := write(t, filepath.Join(dir, "large"), "first\n")
	if err := os.Truncate(path, 1<<40); err != nil {
		t.Skip(err)
	}
	ends, err := ReadEnds(dir, path, 64, 64)
	if err != nil || !bytes.Equal(ends.Head, []byte("first\n")) || len(ends.Tail) != 0 {
		t.Errorf("%q, %q, %v", ends.Head, ends.Tail, err)
	}
}
