package ui

import (
	"bytes"
	"compress/gzip"
	"io"
	"io/fs"
	"path"
	"strings"
	"testing"
	"testing/fstest"
)

func TestDist(t *testing.T) {
	unbuilt := fstest.MapFS{
		"dist/.gitkeep":      {},
		"unbuilt/index.html": {Data: []byte("how to build it")},
	}
	built := fstest.MapFS{
		"dist/index.html":     {Data: []byte("the page")},
		"dist/assets/page.js": {Data: []byte("…")},
		"unbuilt/index.html":  {Data: []byte("how to build it")},
	}
	for _, tc := range []struct {
		name  string
		files fs.FS
		built bool
		want  string
	}{
		{"unbuilt", unbuilt, false, "how to build it"},
		{"built", built, true, "the page"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			page, ok := dist(tc.files)
			if ok != tc.built {
				t.Errorf("built = %v, want %v", ok, tc.built)
			}
			if got, err := fs.ReadFile(page, "index.html"); err != nil || string(got) != tc.want {
				t.Errorf("index.html = %q, %v, want %q", got, err, tc.want)
			}
		})
	}
}

// The server serves the page with a content security policy that allows no
// inline script and nothing from other origins. The page must work under this
// policy.
func TestPageNeedsNoInlineScript(t *testing.T) {
	page, _ := Dist()
	html, err := fs.ReadFile(page, "index.html")
	if err != nil {
		t.Fatal(err)
	}
	text := string(html)
	for _, bad := range []string{"<style", " style=", "onload=", "http://", "https://", "javascript:"} {
		if strings.Contains(text, bad) {
			t.Errorf("index.html holds %q", bad)
		}
	}
	for _, after := range strings.Split(text, "<script")[1:] {
		script, _, _ := strings.Cut(after, "</script>")
		if _, body, _ := strings.Cut(script, ">"); strings.TrimSpace(body) != "" {
			t.Errorf("index.html holds a script of its own: %q", body)
		}
	}
}

// The build stores each large script and style sheet in each coding that the
// server knows. Node's own test decodes Brotli, which Go's library cannot.
func TestScriptsAndStylesAreStoredCompressed(t *testing.T) {
	page, built := Dist()
	if !built {
		t.Skip("the page is not built")
	}
	found := 0
	err := fs.WalkDir(page, "assets", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path.Ext(name) != ".js" && path.Ext(name) != ".css" {
			return err
		}
		plain, err := fs.ReadFile(page, name)
		if err != nil || len(plain) <= 1024 {
			return err
		}
		found++
		zipped, err := fs.ReadFile(page, name+".gz")
		if err != nil {
			return err
		}
		r, err := gzip.NewReader(bytes.NewReader(zipped))
		if err != nil {
			return err
		}
		if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, plain) {
			t.Errorf("%s.gz holds other %d bytes, want %d: %v", name, len(got), len(plain), err)
		}
		brotli, err := fs.ReadFile(page, name+".br")
		if err != nil {
			return err
		}
		if len(brotli) >= len(zipped) || len(zipped) >= len(plain) {
			t.Errorf("%s has %d bytes, %d in gzip and %d in br", name, len(plain), len(zipped), len(brotli))
		}
		return nil
	})
	if err != nil || found < 2 {
		t.Errorf("%d scripts and styles: %v", found, err)
	}
}
