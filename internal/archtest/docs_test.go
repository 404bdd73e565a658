package archtest

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The index of the documents lists each document exactly once.
func TestIndexOfDocumentsIsComplete(t *testing.T) {
	index := read(t, "docs/README.md")
	files, err := os.ReadDir("../../docs")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		name := f.Name()
		if name == "README.md" || filepath.Ext(name) == ".svg" || f.IsDir() {
			continue
		}
		if n := strings.Count(index, "["+name+"]("+name+")"); n != 1 {
			t.Errorf("docs/README.md has %s %d times, want once", name, n)
		}
	}
}

// Every link to a file of the repository leads to an existing file. If it has
// an anchor, the file has that heading.
func TestLinksOfDocumentsLeadSomewhere(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Glob("../../*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range slices.Concat(pages, root) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, problem := range checkLinks(path, string(text)) {
			t.Errorf("%s: %s", filepath.Base(path), problem)
		}
	}
}

var (
	linkTo = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	fences = regexp.MustCompile("(?s)```.*?```")
)

func checkLinks(path, text string) (problems []string) {
	for _, m := range linkTo.FindAllStringSubmatch(fences.ReplaceAllString(text, ""), -1) {
		if strings.Contains(m[1], "://") {
			continue
		}
		file, heading, _ := strings.Cut(m[1], "#")
		if _, err := os.Stat(filepath.Join(filepath.Dir(path), file)); err != nil {
			problems = append(problems, "there is no "+m[1])
			continue
		}
		target := text
		if file != "" && heading != "" {
			data, err := os.ReadFile(filepath.Join(filepath.Dir(path), file))
			if err != nil {
				problems = append(problems, err.Error())
				continue
			}
			target = string(data)
		}
		if heading != "" && !slices.Contains(headings(target), heading) {
			problems = append(problems, m[1]+" is no heading")
		}
	}
	return problems
}

// headings returns the anchors that Markdown viewers give to a page's headings.
func headings(text string) (out []string) {
	dropped := regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	for line := range strings.Lines(fences.ReplaceAllString(text, "")) {
		if title := strings.TrimLeft(line, "#"); title != line && strings.HasPrefix(title, " ") {
			title = strings.ToLower(strings.TrimSpace(title))
			out = append(out, strings.ReplaceAll(dropped.ReplaceAllString(title, ""), " ", "-"))
		}
	}
	return out
}

func TestSeededLinkMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"[a](none.md)":         "there is no none.md",
		"# Title\n[a](#titel)": "#titel is no heading",
		"# A title, `b`\n(#a) [a](#a-title-b) [x](https://example.org/none.md)": "",
	} {
		if got := strings.Join(checkLinks("../../x.md", text), ""); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
