package files

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/runnel-dev/runnel/internal/nofollow"
	"github.com/runnel-dev/runnel/internal/testload"
)

// gitIgnores returns those of paths that git ignores in the repository dir.
func gitIgnores(t testing.TB, dir string, paths []string) []string {
	cmd := exec.Command("git", "-C", dir, "-c", "core.excludesFile=", "check-ignore", "--stdin", "-z")
	cmd.Stdin = strings.NewReader(strings.Join(paths, "\x00"))
	out, err := cmd.Output()
	if exit, ok := err.(*exec.ExitError); err != nil && !(ok && exit.ExitCode() == 1) { // 1: none is ignored
		t.Fatal(err)
	}
	list := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	return slices.DeleteFunc(list, func(p string) bool { return p == "" })
}

// ignored returns those of paths that our rules ignore.
func ignored(t testing.TB, dir string, paths []string) (out []string) {
	root, err := nofollow.Root(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for _, p := range paths {
		r := projectRules(root)
		is := false
		for i, c := range p + "/" {
			if c == '/' && !is {
				is = r.ignores(p[:i], i < len(p))
				r = r.in(root, p[:i])
			}
		}
		if is {
			out = append(out, p)
		}
	}
	return out
}

func gitRepository(t testing.TB) string {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	dir := t.TempDir()
	if out, err := exec.Command("git", "init", "-q", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return dir
}

func TestIgnoreRulesAgreeWithGit(t *testing.T) {
	dir := gitRepository(t)
	names := []string{"a", "ab", "b", "x{y}"}
	var paths []string
	for _, x := range names {
		for _, y := range names {
			if err := os.MkdirAll(filepath.Join(dir, x, y), 0o700); err != nil {
				t.Fatal(err)
			}
			for _, z := range names {
				paths = append(paths, x+"/"+y+"/"+z)
				if err := os.WriteFile(filepath.Join(dir, x, y, z), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	element := rapid.SampledFrom([]string{"a", "b", "ab", "*", "a*", "**", "?", "[ab]", "[!a]", "[^a]", "x{y}", "{a,b}", `\a`, "*b*"})
	line := rapid.Custom(func(t *rapid.T) string {
		p := strings.Join(rapid.SliceOfN(element, 1, 3).Draw(t, "elements"), "/")
		before := rapid.SampledFrom([]string{"", "", "", "/", "!", "!/", "#", `\!`}).Draw(t, "before")
		after := rapid.SampledFrom([]string{"", "", "", "/", "/**", " ", `\ `, "\r"}).Draw(t, "after")
		return before + p + after
	})
	rules := rapid.SliceOfN(line, 0, 4)
	rapid.Check(t, func(rt *rapid.T) {
		for name, lines := range map[string][]string{
			".gitignore": rules.Draw(rt, "top"), "a/.gitignore": rules.Draw(rt, "in a"), "a/b/.gitignore": rules.Draw(rt, "in a/b"), ".git/info/exclude": rules.Draw(rt, "exclude"),
		} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, got := gitIgnores(t, dir, paths), ignored(t, dir, paths)
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			rt.Fatalf("ignored are %q, by git %q", got, want)
		}
	})
}

// A file with a great many rules is read only in part and does not take long.
func TestHugeIgnoreFileIsBounded(t *testing.T) {
	dir := t.TempDir()
	huge := append(bytes.Repeat([]byte("**/*a*b*c*d*e*f/**/x*y*z\n"), 100_000), "last\n"...)
	for name, data := range map[string][]byte{".gitignore": append([]byte("first\n"), huge...), "first": nil, "last": nil, "other": nil} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	root, err := nofollow.Root(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if n := len(projectRules(root).list); n != maxRules {
		t.Errorf("%d rules were read, want %d", n, maxRules)
	}
	if got := ignored(t, dir, []string{"first", "last", "other"}); !slices.Equal(got, []string{"first"}) {
		t.Errorf("ignored are %q", got)
	}
}

// The rules of a hostile project are slow. A request still ends soon.
func TestSlowRulesDoNotDelayListing(t *testing.T) {
	p := newProject(t)
	p.service.bounds.first = 50 * time.Millisecond
	dir := ""
	for range 15 {
		p.write(t, dir+".gitignore", strings.Repeat(strings.Repeat("**/*a*/", 30)+"b\n", maxRules))
		dir += strings.Repeat("a", 200) + "/"
	}
	for i := range 40 {
		p.write(t, dir+strings.Repeat("a", 200+i), "")
	}
	began := time.Now()
	if list, err := p.List(strings.TrimSuffix(dir, "/")); err != nil || len(list.Entries) != 40 {
		t.Errorf("got %d entries, %v", len(list.Entries), err)
	}
	testload.Within(t, "a listing", began, 2*time.Second)
}

// A rule with "**" is compared from each element of a path on, and each folder of
// a path can have rules, so long rules and a deep folder would take minutes for a
// single entry.
func TestLongRulesDoNotDelayListingOfDeepFolder(t *testing.T) {
	p := newProject(t)
	p.service.bounds.first = 50 * time.Millisecond
	long := "**/" + strings.Repeat("a/", 497) + "b"
	for i := range maxAllRules / 250 {
		p.write(t, strings.Repeat("a/", i)+".gitignore", strings.Repeat(long+"\n", 250))
	}
	dir := strings.Repeat("a/", 1900)
	p.write(t, dir+"file", "")
	began := time.Now()
	if list, err := p.List(strings.TrimSuffix(dir, "/")); err != nil || len(list.Entries) != 1 {
		t.Fatalf("%d entries, %v", len(list.Entries), err)
	}
	testload.Within(t, "a listing", began, time.Second)
}
