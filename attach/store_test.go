package attach_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/attach"
)

func store(t *testing.T) (*attach.Store, string) {
	t.Helper()
	dir := t.TempDir()
	s, err := attach.OpenStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, dir
}

func TestUploadIsAttached(t *testing.T) {
	s, dir := store(t)
	c := attach.Checker{Uploads: s}
	for ext, content := range samples(t) {
		up, err := s.Save(strings.NewReader(content), "my file"+ext)
		if err != nil {
			t.Fatalf("%s: %v", ext, err)
		}
		if up.Size != int64(len(content)) || up.Path != filepath.Join(dir, up.ID, up.Name) {
			t.Errorf("%+v", up)
		}
		got := c.Check([]attach.Ref{{Upload: up.ID}, {Path: up.Path}})
		if len(got.Attachments) != 2 {
			t.Fatalf("%s: %v", ext, got.Rejected)
		}
		if byID, byPath := got.Attachments[0].Path, got.Attachments[1].Path; byID != up.ID+"/"+up.Name || byPath != up.Path {
			t.Errorf("the paths are %q and %q", byID, byPath)
		}
		got.Attachments[0].Path = up.Path
		if diff := cmp.Diff(got.Attachments[0], got.Attachments[1]); diff != "" {
			t.Errorf("by id and by path: %s", diff)
		}
		if a := got.Attachments[0]; a.Name != "my file"+ext || a.MediaType != up.MediaType || len(a.Data)+len(a.Text) != len(content) {
			t.Errorf("%+v", a)
		}
	}
}

func TestUploadNames(t *testing.T) {
	s, _ := store(t)
	for label, want := range map[string]string{
		"a.txt":                             "a.txt",
		"../../etc/passwd.txt":              "passwd.txt",
		`C:\Users\me\b.md`:                  "b.md",
		"..txt":                             "file.txt",
		".txt":                              "file.txt",
		" . .txt":                           "file.txt",
		"a\n\x00\x1b[31m.txt":               "a____31m.txt",
		"naïve 名.csv":                       "naïve 名.csv",
		"x:y|z?.txt":                        "x_y_z_.txt",
		"\xff\xfe.txt":                      "_.txt",
		"UP.TXT":                            "UP.TXT",
		strings.Repeat("n/", 3e5) + "z.txt": "z.txt",
		strings.Repeat("é", 3e5) + ".txt":   strings.Repeat("é", 50) + ".txt",
	} {
		up, err := s.Save(strings.NewReader("x"), label)
		if err != nil {
			t.Errorf("%.40q: %v", label, err)
			continue
		}
		if up.Name != want {
			t.Errorf("%.40q is kept as %q, want %q", label, up.Name, want)
		}
	}
}

func TestUploadIsRefused(t *testing.T) {
	s, dir := store(t)
	for _, c := range []struct {
		name, body string
		code       runnel.Code
		says       string
	}{
		{"a.exe", "MZ\x00\x01", runnel.AttachmentFailure, "a.exe: its content is not UTF-8 text, and the extension is not one of .png"},
		{"noext", "\xff\xfe", runnel.AttachmentFailure, "noext: its content is not UTF-8 text"},
		{"", "%PDF-1.7", runnel.AttachmentFailure, "file: its content is not UTF-8 text"},
		{"main.go", "", runnel.AttachmentFailure, "main.go: it is empty"},
		{"a.png", "<html>", runnel.AttachmentFailure, "a.png: its content is not PNG"},
		{"a.txt", "", runnel.AttachmentFailure, "a.txt: it is empty"},
		{"a.txt", strings.Repeat("x", attach.MaxFile+1), runnel.PayloadTooLarge, "10 MiB"},
	} {
		_, err := s.Save(strings.NewReader(c.body), c.name)
		if runnel.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q: %v, want %s, %q", c.name, err, c.code, c.says)
		}
		if e, ok := errors.AsType[*runnel.Error](err); ok && c.code == runnel.AttachmentFailure {
			if f, ok := e.Details.(runnel.AttachmentErrors); !ok || f.Count != 1 {
				t.Errorf("%q: details %+v", c.name, e.Details)
			}
		}
	}
	if _, err := s.Save(strings.NewReader(strings.Repeat("x", attach.MaxFile)), "a.txt"); err != nil {
		t.Errorf("10 MiB: %v", err)
	}
	endless := &counted{}
	if _, err := s.Save(endless, "a.txt"); runnel.CodeOf(err) != runnel.PayloadTooLarge || endless.n > attach.MaxFile+1<<20 {
		t.Errorf("endless upload: %v after %d bytes", err, endless.n)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 {
		t.Errorf("%d uploads are kept, want 1 (%v)", len(left), err)
	}
}

// Code, logs and notes have many extensions, or none. A model reads all of them
// as text.
func TestUploadOfAnyTextIsATextDocument(t *testing.T) {
	s, _ := store(t)
	c := attach.Checker{Uploads: s}
	for label, want := range map[string]string{
		"main.go": "main.go", "Makefile": "Makefile", ".gitignore": "file.gitignore", "server.log": "server.log", "drawing.svg": "drawing.svg", "": "file", "a.txt.": "a.txt", "..": "file",
		"x." + strings.Repeat("y", 300): "x." + strings.Repeat("y", 98), "../../etc/crontab": "crontab", "a:b.ts": "a_b.ts", "a.tar.gz": "a.tar.gz",
	} {
		up, err := s.Save(strings.NewReader("text <script>\x1b[1m"), label)
		if err != nil {
			t.Errorf("%.40q: %v", label, err)
			continue
		}
		if up.Name != want || up.MediaType != "text/plain" {
			t.Errorf("%.40q is kept as %q with type %s, want %q", label, up.Name, up.MediaType, want)
		}
		for _, ref := range []attach.Ref{{Upload: up.ID}, {Path: up.Path}} {
			got := c.Check([]attach.Ref{ref})
			if len(got.Attachments) != 1 || got.Attachments[0].Name != want || got.Attachments[0].MediaType != "text/plain" || got.Attachments[0].Text != "text <script>\x1b[1m" {
				t.Errorf("%.40q: %+v", label, got)
			}
		}
	}
}

type counted struct{ n int }

func (c *counted) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	c.n += len(p)
	return len(p), nil
}

var _ io.Reader = (*counted)(nil)

func TestUploadIDs(t *testing.T) {
	s, dir := store(t)
	up, err := s.Save(strings.NewReader("x"), "a.txt")
	if err != nil {
		t.Fatal(err)
	}
	c := attach.Checker{Uploads: s}
	for _, id := range []string{
		".", "..", "../" + filepath.Base(dir), up.ID + "/a.txt", strings.ToUpper(up.ID), "{" + up.ID + "}", "urn:uuid:" + up.ID, strings.ReplaceAll(up.ID, "-", ""),
		"00000000-0000-4000-8000-000000000000", strings.Repeat("0", 1<<20),
	} {
		got := c.Check([]attach.Ref{{Upload: id}})
		if len(got.Rejected) != 1 || got.Rejected[0].Reason != "there is no such upload; it may have expired" {
			t.Errorf("%.40q: %+v", id, got)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, up.ID, "b.txt"), []byte("y"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := c.Check([]attach.Ref{{Upload: up.ID}}); len(got.Attachments) != 0 {
		t.Error("an upload of two files is attached")
	}
}

func TestPrune(t *testing.T) {
	s, dir := store(t)
	var ups []attach.Upload
	for range 2 {
		up, err := s.Save(strings.NewReader("x"), "a.txt")
		if err != nil {
			t.Fatal(err)
		}
		ups = append(ups, up)
	}
	if err := os.Mkdir(filepath.Join(dir, "not ours"), 0o700); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-48 * time.Hour)
	for _, d := range []string{ups[0].ID, "not ours"} {
		if err := os.Chtimes(filepath.Join(dir, d), old, old); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Prune(time.Now().Add(-24 * time.Hour)); err != nil {
		t.Fatal(err)
	}
	c := attach.Checker{Uploads: s}
	got := c.Check([]attach.Ref{{Upload: ups[0].ID}, {Upload: ups[1].ID}})
	if len(got.Attachments) != 1 || len(got.Rejected) != 1 || got.Rejected[0].Path != ups[0].ID {
		t.Errorf("%+v", got)
	}
	if _, err := os.Stat(filepath.Join(dir, "not ours")); err != nil {
		t.Error("a folder that is no upload was removed")
	}
}

// A server process can be killed while uploads arrive. The store of the next
// process removes the incomplete uploads and keeps the complete ones.
func TestOpenRemovesIncompleteUploads(t *testing.T) {
	s, dir := store(t)
	whole, err := s.Save(strings.NewReader("whole"), "a.txt")
	if err != nil {
		t.Fatal(err)
	}
	body, rest := io.Pipe()
	saved := make(chan error, 1)
	go func() {
		_, err := s.Save(body, "b.txt")
		saved <- err
	}()
	if _, err := io.WriteString(rest, "half"); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 2 {
		t.Fatalf("%v, %v", left, err)
	}
	next, err := attach.OpenStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 || left[0].Name() != whole.ID {
		t.Errorf("left are %v, %v", left, err)
	}
	if got := (attach.Checker{Uploads: next}).Check([]attach.Ref{{Upload: whole.ID}}); len(got.Attachments) != 1 {
		t.Errorf("the complete upload is rejected: %v", got.Rejected)
	}
	if err := errors.Join(rest.Close(), next.Close()); err != nil {
		t.Error(err)
	}
	if err := <-saved; err == nil {
		t.Error("an upload without a file is kept")
	}
}

func TestRemoveDeletesOneUpload(t *testing.T) {
	s, dir := store(t)
	var ups []attach.Upload
	for _, text := range []string{"one", "three"} {
		up, err := s.Save(strings.NewReader(text), "a.txt")
		if err != nil {
			t.Fatal(err)
		}
		ups = append(ups, up)
	}
	for ref, want := range map[attach.Ref]string{
		{Upload: ups[0].ID}:                      ups[0].ID,
		{Path: ups[1].Path}:                      ups[1].ID,
		{Path: filepath.Join(dir, "other", "a")}: "",
		{Path: "/elsewhere/" + ups[0].ID}:        "",
		{Upload: "../" + ups[0].ID}:              "",
		{Upload: "."}:                            "",
	} {
		if got := s.IDOf(ref); got != want {
			t.Errorf("%+v is %q, want %q", ref, got, want)
		}
	}
	if size, ok := s.Size(ups[1].ID); !ok || size != 5 {
		t.Errorf("size %d, %v", size, ok)
	}
	for range 2 { // the second time there is nothing to remove
		for _, id := range []string{ups[1].ID, ".", "..", ""} {
			if err := s.Remove(id); err != nil {
				t.Errorf("%q: %v", id, err)
			}
		}
	}
	if _, ok := s.Size(ups[1].ID); ok {
		t.Error("the upload is still there")
	}
	if size, ok := s.Size(ups[0].ID); !ok || size != 3 {
		t.Errorf("the other upload: %d, %v", size, ok)
	}
}
