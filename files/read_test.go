package files

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
)

const pngData = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

func pixel(t testing.TB) string {
	data, err := base64.StdEncoding.DecodeString(pngData)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestReadSelectsLines(t *testing.T) {
	p := newProject(t)
	p.write(t, "a.txt", "one\ntwo\r\nthree\nfour")
	p.write(t, "empty.txt", "")
	for _, tt := range []struct {
		path     string
		from, to int
		text     string
		first    int
		last     int
		lines    int
	}{
		{"a.txt", 0, 0, "one\ntwo\r\nthree\nfour", 1, 4, 4},
		{"a.txt", 2, 3, "two\r\nthree\n", 2, 3, 4},
		{"a.txt", 4, 9, "four", 4, 4, 4},
		{"a.txt", 3, 0, "three\nfour", 3, 4, 4},
		{"a.txt", 5, 0, "", 0, 0, 4},
		{"a.txt", 3, 2, "", 0, 0, 4},
		{"empty.txt", 0, 0, "", 0, 0, 0},
	} {
		f, err := p.Read(t.Context(), tt.path, tt.from, tt.to)
		if err != nil || f.Content != ContentText || f.Text != tt.text || f.From != tt.first || f.To != tt.last || f.Lines != tt.lines || f.Cut {
			t.Errorf("%s %d-%d: got %+v, %v", tt.path, tt.from, tt.to, f, err)
		}
	}
}

func TestReadIsBounded(t *testing.T) {
	p := newProject(t)
	p.write(t, "lines.txt", strings.Repeat("x\n", maxLines+10))
	if f, err := p.Read(t.Context(), "lines.txt", 3, 0); err != nil || f.From != 3 || f.To != maxLines+2 || !f.Cut || f.Lines != maxLines+10 {
		t.Errorf("many lines: got %d-%d of %d, cut %v, %v", f.From, f.To, f.Lines, f.Cut, err)
	}
	p.write(t, "wide.txt", strings.Repeat(strings.Repeat("y", 1<<18)+"\n", 5))
	if f, err := p.Read(t.Context(), "wide.txt", 0, 0); err != nil || f.To != 3 || !f.Cut || len(f.Text) > maxText {
		t.Errorf("wide lines: got %d-%d, cut %v, %v", f.From, f.To, f.Cut, err)
	}
	p.write(t, "long.txt", strings.Repeat("é", maxText))
	if f, err := p.Read(t.Context(), "long.txt", 0, 0); err != nil || f.From != 1 || f.To != 1 || !f.Cut || len(f.Text) != maxText {
		t.Errorf("a long line: got %d-%d with %d bytes, cut %v, %v", f.From, f.To, len(f.Text), f.Cut, err)
	}
	p.write(t, "huge.txt", strings.Repeat("z", maxFile+1))
	if _, err := p.Read(t.Context(), "huge.txt", 0, 0); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a huge file: got %v", err)
	}
	p.write(t, "fits.txt", strings.Repeat("z", maxFile))
	if f, err := p.Read(t.Context(), "fits.txt", 0, 0); err != nil || f.Size != maxFile {
		t.Errorf("the largest file: got %d, %v", f.Size, err)
	}
}

// Only a few files are in memory at the same time.
func TestReadWaitsWhileOtherFilesAreRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, on := newProject(t, "a.txt"), make(chan struct{})
		at := make(chan struct{}, 2*maxReads)
		p.service.cfg.Redact = func(s string) string { at <- struct{}{}; <-on; return s }
		for range 2 * maxReads {
			go func() {
				if _, err := p.Read(t.Context(), "a.txt", 0, 0); err != nil {
					t.Error(err)
				}
			}()
		}
		synctest.Wait()
		if n := len(at); n != maxReads {
			t.Errorf("%d files were read at once, want %d", n, maxReads)
		}
		gone, leave := context.WithCancel(t.Context())
		leave()
		if _, err := p.Read(gone, "a.txt", 0, 0); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		close(on)
		synctest.Wait()
	})
}

func TestReadJudgesByContent(t *testing.T) {
	p := newProject(t)
	p.write(t, "picture.txt", pixel(t))
	p.write(t, "text.png", "no image")
	p.write(t, "drawing.svg", "<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>")
	p.write(t, "program", "\x7fELF\x00\x01")
	p.write(t, "latin1.txt", "caf\xe9\n")
	for path, want := range map[string]File{
		"picture.txt": {Content: ContentImage, MediaType: "image/png"},
		"text.png":    {Content: ContentText, Text: "no image"},
		"drawing.svg": {Content: ContentText, Text: "<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>"},
		"program":     {Content: ContentBinary},
		"latin1.txt":  {Content: ContentText, Text: "caf\uFFFD\n"},
	} {
		f, err := p.Read(t.Context(), path, 0, 0)
		if err != nil || f.Content != want.Content || f.MediaType != want.MediaType || f.Text != want.Text || f.Path != path {
			t.Errorf("%s: got %+v, %v", path, f, err)
		}
		img, err := p.Image(t.Context(), path)
		if want.Content == ContentImage && (err != nil || img.MediaType != "image/png" || string(img.Data) != pixel(t)) {
			t.Errorf("%s as an image: got %s, %v", path, img.MediaType, err)
		}
		if want.Content != ContentImage && !errors.Is(err, ErrNoImage) {
			t.Errorf("%s as an image: got %v", path, err)
		}
	}
}

func TestReadRedacts(t *testing.T) {
	p := newProject(t)
	p.service.cfg.Redact = func(s string) string { return strings.ReplaceAll(s, "hunter2", "***") }
	p.write(t, "a.txt", "password hunter2")
	if f, err := p.Read(t.Context(), "a.txt", 0, 0); err != nil || f.Text != "password ***" {
		t.Errorf("got %q, %v", f.Text, err)
	}
}

// A secret of several lines is removed even if only some of them are selected,
// and the other lines keep their numbers.
func TestReadRemovesLinesOfLongerSecret(t *testing.T) {
	p := newProject(t)
	p.service.cfg.Redact = func(s string) string { return strings.ReplaceAll(s, "BEGIN\nkey1\n\nkey2\nEND", "***") }
	p.write(t, "a.txt", "first\nBEGIN\nkey1\n\nkey2\nEND\nlast\n")
	for lines, want := range map[[2]int]string{
		{0, 0}: "first\n[redacted]\n[redacted]\n\n[redacted]\n[redacted]\nlast\n",
		{3, 5}: "[redacted]\n\n[redacted]\n",
		{6, 7}: "[redacted]\nlast\n",
		{7, 7}: "last\n",
	} {
		if f, err := p.Read(t.Context(), "a.txt", lines[0], lines[1]); err != nil || f.Text != want {
			t.Errorf("%v: got %q, %v; want %q", lines, f.Text, err, want)
		}
	}
}

func TestNothingOutsideOfTheProjectIsReached(t *testing.T) {
	p := newProject(t, "in/a.txt", "b.txt", ".env", ".git/config")
	outside := newProject(t, "secret.txt")
	for link, target := range map[string]string{
		"link.txt": filepath.Join(outside.dir, "secret.txt"), "linked": outside.dir, "up": "..", "inner.txt": "b.txt", "in/loop": ".",
	} {
		if err := os.Symlink(target, filepath.Join(p.dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Link(filepath.Join(outside.dir, "secret.txt"), filepath.Join(p.dir, "hard.txt")); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]error{
		"link.txt": ErrLink, "linked/secret.txt": ErrLink, "up/x": ErrLink, "inner.txt": ErrLink, "in/loop/a.txt": ErrLink, "hard.txt": ErrLinked,
		"none": ErrNotFound, "none/a": ErrNotFound, "b.txt/x": ErrNotFound, "in": ErrNoFile, "": ErrNoFile, ".": ErrNoFile,
		"../x": ErrBadPath, "in/../../x": ErrBadPath, "in/..": ErrBadPath, "/etc/passwd": ErrBadPath, filepath.ToSlash(outside.dir) + "/secret.txt": ErrBadPath,
		"a\x00b": ErrBadPath, "in//a.txt": ErrBadPath, "./b.txt": ErrBadPath, "\xff": ErrBadPath, strings.Repeat("x", maxPath+1): ErrBadPath,
		".env": ErrSecret, ".ENV": ErrSecret, ".git/config": ErrSecret, "none/id_rsa": ErrSecret,
	} {
		if f, err := p.Read(t.Context(), path, 0, 0); !errors.Is(err, want) {
			t.Errorf("read %.50q: got %+v, %v, want %v", path, f, err, want)
		}
		if _, err := p.Image(t.Context(), path); !errors.Is(err, want) {
			t.Errorf("image %.50q: got %v, want %v", path, err, want)
		}
	}
	for path, want := range map[string]error{"linked": ErrLink, "up": ErrLink, "..": ErrBadPath, "b.txt": ErrNoFolder, "none": ErrNotFound, ".git": ErrSecret, "/": ErrBadPath} {
		if l, err := p.List(path); !errors.Is(err, want) {
			t.Errorf("list %q: got %+v, %v, want %v", path, l, err, want)
		}
	}
	if got := p.completed(t, ""); !slices.Equal(got, []string{"b.txt", "hard.txt", "in/", "in/a.txt"}) {
		t.Errorf("completed: %q", got)
	}
}

func TestReplacedProjectIsNotShown(t *testing.T) {
	p, other := newProject(t, "a.txt"), newProject(t, "a.txt")
	if err := errors.Join(os.RemoveAll(p.dir), os.Symlink(other.dir, p.dir)); err != nil {
		t.Fatal(err)
	}
	_, readErr := p.Read(t.Context(), "a.txt", 0, 0)
	_, listErr := p.List("")
	_, completeErr := p.Complete(t.Context(), "", 1)
	for _, err := range []error{readErr, listErr, completeErr} {
		if !errors.Is(err, ErrLink) {
			t.Errorf("got %v", err)
		}
	}
}

func TestListSortsFoldersFirst(t *testing.T) {
	p := newProject(t, "b.txt", "a/x", "c.log", ".env", "z/", ".git/HEAD", ".hidden")
	p.write(t, ".gitignore", "*.log\n/z\n")
	if err := os.Symlink("b.txt", filepath.Join(p.dir, "link")); err != nil {
		t.Fatal(err)
	}
	l, err := p.List("")
	if err != nil || l.Path != "" || l.More {
		t.Fatalf("got %+v, %v", l, err)
	}
	var got []string
	for _, e := range l.Entries {
		s := e.Name + " " + string(e.Kind)
		if e.Ignored {
			s += " ignored"
		}
		if e.ModifiedAt.IsZero() || (e.Size != 0) != (e.Kind == KindFile) {
			t.Errorf("got %+v", e)
		}
		got = append(got, s)
	}
	want := []string{"a folder", "z folder ignored", ".gitignore file", ".hidden file", "b.txt file", "c.log file ignored", "link link"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if l, err := p.List("a/"); err != nil || l.Path != "a" || len(l.Entries) != 1 || l.Entries[0].Name != "x" {
		t.Errorf("got %+v, %v", l, err)
	}
}

func TestListIsBounded(t *testing.T) {
	p := newProject(t)
	for i := range maxListed + 1 {
		if err := os.WriteFile(filepath.Join(p.dir, strings.Repeat("x", 1+i%100)+string(rune('a'+i/100))), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	l, err := p.List("")
	if err != nil || !l.More || len(l.Entries) != maxListed {
		t.Errorf("got %d entries, more %v, %v", len(l.Entries), l.More, err)
	}
}

func TestLinesOfHugeTextAreCountedOnce(t *testing.T) {
	var f File
	f.selectLines(bytes.Repeat([]byte("\n"), 100), 50, 60)
	if f.Lines != 100 || f.From != 50 || f.To != 60 || len(f.Text) != 11 {
		t.Errorf("got %+v", f)
	}
}
