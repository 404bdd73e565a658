package ui

import (
	"io/fs"
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

// What is embedded is served under a policy that allows no inline script and
// nothing from elsewhere: the page must not need them.
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
