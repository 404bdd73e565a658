package archtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

const (
	root   = "../.."
	module = "github.com/runnel-dev/runnel"
)

// modules are the folders of our Go modules that contain packages.
var modules = []string{".", "bench"}

// maxLines is the maximum length of ARCHITECTURE.md without its figure and its
// tables, so that a newcomer can read it in one sitting. The tables have a row
// per package and per owner of goroutines.
const maxLines = 60

func TestPackagesAreAsDescribed(t *testing.T) {
	pkgs := list(t)
	report(t, checkPackages(table(read(t, "ARCHITECTURE.md")), pkgs))
}

func TestForeignModulesAreJustified(t *testing.T) {
	report(t, checkModules(table(read(t, "CONTRIBUTING.md")), list(t)))
}

func TestArchitectureIsShort(t *testing.T) {
	text := fences.ReplaceAllString(read(t, "ARCHITECTURE.md"), "")
	rows := strings.Count(text, "\n|")
	if n := strings.Count(text, "\n") - rows; n > maxLines {
		t.Errorf("ARCHITECTURE.md has %d lines outside its tables; %d are allowed", n, maxLines)
	}
}

// pkg is what `go list` reports about one of our packages. Paths of our
// packages are relative to the root module; other paths are import paths.
type pkg struct {
	Dir         string
	Documented  bool
	Imports     []string // our packages
	Foreign     []string // packages of other modules, without the standard library
	TestForeign []string // the same for the tests
}

// checkPackages compares the packages with the rows of ARCHITECTURE.md.
func checkPackages(rows map[string][]string, pkgs []pkg) (problems []string) {
	seen := map[string]bool{}
	for _, p := range pkgs {
		seen[p.Dir] = true
		may, ok := rows[p.Dir]
		if !ok {
			problems = append(problems, p.Dir+" is not in ARCHITECTURE.md: say what it is for")
			continue
		}
		for _, imp := range p.Imports {
			if !matches(may, imp) {
				problems = append(problems, fmt.Sprintf("ARCHITECTURE.md does not let %s import %s", p.Dir, imp))
			}
		}
		if !p.Documented {
			problems = append(problems, p.Dir+" has no package comment")
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(rows)) {
		if !seen[dir] {
			problems = append(problems, "ARCHITECTURE.md speaks of "+dir+", which is gone")
		}
	}
	return problems
}

// checkModules compares the modules that packages import with the rows of
// CONTRIBUTING.md. Tests may use any listed module.
func checkModules(rows map[string][]string, pkgs []pkg) (problems []string) {
	used := map[string]bool{}
	module := func(imp string) string {
		best := ""
		for m := range rows {
			if (imp == m || strings.HasPrefix(imp, m+"/")) && len(m) > len(best) {
				best = m
			}
		}
		return best
	}
	for _, p := range pkgs {
		for _, imp := range p.Foreign {
			m := module(imp)
			used[m] = true
			if m == "" {
				problems = append(problems, fmt.Sprintf("%s imports %s: give the module its sentence in CONTRIBUTING.md", p.Dir, imp))
			} else if !matches(rows[m], p.Dir) {
				problems = append(problems, fmt.Sprintf("CONTRIBUTING.md does not let %s use %s", p.Dir, m))
			}
		}
		for _, imp := range p.TestForeign {
			m := module(imp)
			used[m] = true
			if m == "" {
				problems = append(problems, fmt.Sprintf("the tests of %s import %s: give the module its sentence in CONTRIBUTING.md", p.Dir, imp))
			}
		}
	}
	for _, m := range slices.Sorted(maps.Keys(rows)) {
		if !used[m] {
			problems = append(problems, "CONTRIBUTING.md speaks of "+m+", which nothing imports")
		}
	}
	return problems
}

var (
	row  = regexp.MustCompile("(?m)^\\| `([^`]+)` \\|.*\\|([^|]*)\\|$")
	code = regexp.MustCompile("`([^`]+)`")
)

// table returns the rows of a Markdown table whose first cell is one code span.
// The key is that code, the value is the code spans of the last cell.
func table(doc string) map[string][]string {
	rows := map[string][]string{}
	for _, m := range row.FindAllStringSubmatch(doc, -1) {
		rows[m[1]] = []string{}
		for _, c := range code.FindAllStringSubmatch(m[2], -1) {
			rows[m[1]] = append(rows[m[1]], c[1])
		}
	}
	return rows
}

func matches(patterns []string, s string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, err := path.Match(p, s)
		return ok && err == nil
	})
}

// list returns all packages of our modules, as the go command reports them.
func list(t *testing.T) []pkg {
	t.Helper()
	pkgs, err := listed()
	if err != nil {
		t.Fatal(err)
	}
	if len(pkgs) < 5 {
		t.Fatalf("go list knows only %d packages", len(pkgs))
	}
	return pkgs
}

// listed runs the go command once for all tests.
var listed = sync.OnceValues(func() (pkgs []pkg, err error) {
	for _, dir := range modules {
		more, err := listModule(dir)
		if err != nil {
			return nil, err
		}
		pkgs = append(pkgs, more...)
	}
	return pkgs, nil
})

func listModule(dir string) (pkgs []pkg, err error) {
	cmd := exec.CommandContext(context.Background(), "go", "list",
		"-json=ImportPath,Imports,TestImports,XTestImports,Doc", "./...")
	cmd.Dir = filepath.Join(root, dir)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list in %s: %w\n%s", dir, err, stderr.Bytes())
	}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			ImportPath, Doc                    string
			Imports, TestImports, XTestImports []string
		}
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return pkgs, nil
		} else if err != nil {
			return nil, err
		}
		q := pkg{Dir: rel(p.ImportPath), Documented: p.Doc != ""}
		q.Imports, q.Foreign = split(p.Imports)
		_, q.TestForeign = split(slices.Concat(p.TestImports, p.XTestImports))
		pkgs = append(pkgs, q)
	}
}

func split(imports []string) (ours, foreign []string) {
	for _, imp := range imports {
		first, _, _ := strings.Cut(imp, "/")
		switch {
		case imp == module || strings.HasPrefix(imp, module+"/"):
			ours = append(ours, rel(imp))
		case strings.Contains(first, "."):
			foreign = append(foreign, imp)
		}
	}
	return ours, foreign
}

func rel(p string) string {
	if p == module {
		return "."
	}
	return strings.TrimPrefix(p, module+"/")
}

func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func report(t *testing.T, problems []string) {
	t.Helper()
	for _, p := range problems {
		t.Error(p)
	}
}
