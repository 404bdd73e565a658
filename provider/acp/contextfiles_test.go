package acp

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel/internal/testexec"
)

// layout makes files in a new folder. A text that begins with "->" makes a
// symbolic link. "OUT" in a text stands for a file outside of the folder.
func layout(t *testing.T, files map[string]string) (dir string) {
	t.Helper()
	t.Setenv("HOME", filepath.Join(t.TempDir(), "no-home"))
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	out, dir := filepath.Join(top, "secret"), filepath.Join(top, "project")
	files["../secret"], files[".git/HEAD"] = "secret", "ref: refs/heads/main\n"
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		text = strings.ReplaceAll(text, "OUT", out)
		if to, ok := strings.CutPrefix(text, "->"); ok {
			err = os.Symlink(to, path)
		} else {
			err = os.WriteFile(path, []byte(text), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestImportedFilesOutsideTheFolderAreFound(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  string // relative to the folder; "" if nothing is outside
	}{
		"a link":                         {map[string]string{"QWEN.md": "->OUT"}, "QWEN.md"},
		"an import of a link":            {map[string]string{"QWEN.md": "see @./n.md", "n.md": "->OUT"}, "n.md"},
		"with an at sign in the name":    {map[string]string{"QWEN.md": "@./x@y.md", "x@y.md": "->OUT"}, "x@y.md"},
		"with a form feed in the name":   {map[string]string{"QWEN.md": "@./a\fb.md", "a\fb.md": "->OUT"}, "a\fb.md"},
		"before a full stop":             {map[string]string{"QWEN.md": "Read @n.md.", "n.md": "->OUT"}, "n.md"},
		"of an import":                   {map[string]string{"QWEN.md": "@a.md", "a.md": "@sub/b.md", "sub/b.md": "@c.md", "sub/c.md": "->OUT"}, "sub/c.md"},
		"outside, which agents reject":   {map[string]string{"QWEN.md": "@OUT"}, ""},
		"above, which agents reject":     {map[string]string{"QWEN.md": "@../secret"}, ""},
		"behind much text":               {map[string]string{"QWEN.md": strings.Repeat("text ", 300_000) + "@n.md", "n.md": "->OUT"}, "n.md"},
		"behind more text than is read":  {map[string]string{"QWEN.md": strings.Repeat("text ", 1_000_000)}, "QWEN.md"},
		"behind a very long path":        {map[string]string{"QWEN.md": "@" + strings.Repeat("./", 2100) + "n.md", "n.md": "->OUT"}, "QWEN.md"},
		"a name that is not UTF-8":       {map[string]string{"QWEN.md": "@a\xffb.md", "a\uFFFDb.md": "->OUT"}, "QWEN.md"},
		"a link through the process":     {map[string]string{"QWEN.md": "->/proc/self/cwd/../missing"}, "QWEN.md"},
		"an import through the process":  {map[string]string{"QWEN.md": "@d/n.md", "d": "->/proc/self/cwd/missing"}, "d/n.md"},
		"more at signs than are counted": {map[string]string{"QWEN.md": strings.Repeat("@", maxImports+1)}, "QWEN.md"},
		"files inside":                   {map[string]string{"QWEN.md": "@a.md @QWEN.md", "a.md": "@QWEN.md me@example.com @scope/package @media", "b.md": "->OUT"}, ""},
		"a link to a file inside":        {map[string]string{"QWEN.md": "->a.md", "a.md": "text"}, ""},
		"a link to nothing":              {map[string]string{"QWEN.md": "@n.md", "n.md": "->missing"}, ""},
		"folders outside":                {map[string]string{"QWEN.md": "@.. @/ @/tmp"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := layout(t, c.files)
			want := ""
			if c.want != "" {
				want = filepath.Join(dir, c.want)
			}
			if got := findLinkOutside(dir, []string{"QWEN.md"}, true); got != want {
				t.Errorf("found %q, want %q", got, want)
			}
		})
	}
}

func TestFoldersForTheModelAreFollowedInside(t *testing.T) {
	dir := layout(t, map[string]string{".claude/rules": "->../rules", "rules/x.md": "->OUT", "rules/again": "->../rules", "rules/a.md": "text"})
	if got, want := findLinkOutside(dir, []string{".claude/rules"}, false), filepath.Join(dir, "rules", "x.md"); got != want {
		t.Errorf("found %q, want %q", got, want)
	}
}

// Files of a hostile repository can import each other many times and have the
// maximum size.
func TestImportsOfHostileFilesTakeLittleMemory(t *testing.T) {
	files := make(map[string]string)
	for i := range 8 {
		files[fmt.Sprintf("f%d.md", i)] = fmt.Sprintf("@./f%d.md ", i+1) + strings.Repeat("@a ", 1000) + strings.Repeat("text ", 180_000)
	}
	dir := layout(t, files)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if findLinkOutside(dir, []string{"f0.md"}, true) == "" {
		t.Error("files with so many imports were taken for harmless")
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 200<<20 {
		t.Errorf("allocated %d MiB", got>>20)
	}
}

// A .git without HEAD does not make a folder a repository. Codex's sandbox leaves an
// empty .git in the folder for temporary files, and Claude Code writes info/exclude
// there.
func TestGitFolderWithoutHeadIsNoRepository(t *testing.T) {
	for _, content := range []string{"", "info"} {
		t.Run(content, func(t *testing.T) { reachesNothingBeside(t, filepath.Join(".git", content)) })
	}
}

func reachesNothingBeside(t *testing.T, git string) {
	t.Helper()
	dir := layout(t, map[string]string{"QWEN.md": "->OUT"})
	if err := os.MkdirAll(filepath.Join(filepath.Dir(dir), git), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(dir, ".git")); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{"->../secret": "QWEN.md", "@../secret": "../secret"} {
		if err := os.Remove(filepath.Join(dir, "QWEN.md")); err != nil {
			t.Fatal(err)
		}
		var err error
		if to, ok := strings.CutPrefix(text, "->"); ok {
			err = os.Symlink(to, filepath.Join(dir, "QWEN.md"))
		} else {
			err = os.WriteFile(filepath.Join(dir, "QWEN.md"), []byte(text), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		if got, want := findLinkOutside(dir, []string{"QWEN.md"}, true), filepath.Join(dir, want); got != want {
			t.Errorf("%s: found %q, want %q", text, got, want)
		}
	}
}

// git works with a repository whose .git cannot be listed, and an agent takes it
// for the innermost one.
func TestRepositoryWhoseGitDirectoryCannotBeListed(t *testing.T) {
	if testexec.Unprivileged(t) {
		return
	}
	outer := t.TempDir()
	dir := filepath.Join(outer, "inner")
	for _, path := range []string{outer, dir} {
		if err := os.MkdirAll(filepath.Join(path, ".git", "refs"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(outer, "secret"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../secret", filepath.Join(dir, "AGENTS.md")); err != nil {
		t.Fatal(err)
	}
	closed := filepath.Join(dir, ".git")
	if err := os.Chmod(closed, 0o300); err != nil {
		t.Fatal(err)
	}
	if findNestedLinkOutside(dir, []string{"AGENTS.md"}) == "" {
		t.Error("a link out of the repository was not found")
	}
	if err := os.Chmod(closed, 0o700); err != nil {
		t.Fatal(err)
	}
}

func TestNestedFilesAreFoundInEveryFolder(t *testing.T) {
	dir := layout(t, map[string]string{"a/b/agents.md": "->OUT", "a/AGENTS.md": "text", ".git/AGENTS.md": "->OUT"})
	if got, want := findNestedLinkOutside(filepath.Join(dir, "a"), []string{"AGENTS.md"}), filepath.Join(dir, "a", "b", "agents.md"); got != want {
		t.Errorf("found %q, want %q", got, want)
	}
	dir = layout(t, map[string]string{"a/AGENTS.md": "text", "b/AGENTS.md": "->../a/AGENTS.md"})
	if got := findNestedLinkOutside(dir, []string{"AGENTS.md"}); got != "" {
		t.Errorf("found %q", got)
	}
}
