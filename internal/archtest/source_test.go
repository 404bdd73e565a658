package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// maxFile is the maximum number of lines of a source file that is neither a
// test nor generated.
const maxFile = 600

// agents matches names of agents. Only code in provider/ may contain them.
// Other code works with any agent through the provider interface.
var agents = regexp.MustCompile(`(?i)claude|codex|gemini|opencode|qwen|copilot`)

// named lists other folders whose code may name agents, with the reason. These
// packages are for tests; TestTestPackagesStayOutOfTheBinary makes sure of
// that.
var named = map[string]string{
	"internal/realagents":   "finds the pinned agents that tests drive",
	"internal/agentrig":     "drives the pinned agents through their providers in tests",
	"store/storetest":       "its sample records look like real ones",
	"internal/fakemodel":    "recognises the agents that call it",
	"internal/agentsnewest": "runs the suite with the newest agents",
	"bench":                 "measures the pinned agents and other programs that run agents",
	"bench/agent":           "takes the place of the agents in PATH",
}

func TestOnlyProvidersNameAgents(t *testing.T) {
	sources(t, func(file string, src []byte) {
		if !strings.HasSuffix(file, ".go") || strings.HasPrefix(file, "provider/") || named[path.Dir(file)] != "" {
			return
		}
		report(t, checkNames(file, src))
	})
}

// The page receives all texts about agents from the server.
func TestThePageNamesNoAgent(t *testing.T) {
	n := 0
	sources(t, func(file string, src []byte) {
		if strings.HasPrefix(file, "ui/src/") {
			n++
			report(t, checkText(file, src))
		}
	})
	report(t, checkText("ui/index.html", []byte(read(t, "ui/index.html"))))
	if n < 10 {
		t.Errorf("only %d files of the page found", n)
	}
}

func TestTestPackagesStayOutOfTheBinary(t *testing.T) {
	importers := map[string][]string{}
	for _, p := range list(t) {
		for _, imp := range p.Imports {
			importers[imp] = append(importers[imp], p.Dir)
		}
	}
	for dir := range named {
		for _, by := range importers[dir] {
			if named[by] == "" {
				t.Errorf("%s is for tests, but %s imports it", dir, by)
			}
		}
	}
}

func TestFilesAreShort(t *testing.T) {
	sources(t, func(file string, src []byte) {
		if n := strings.Count(string(src), "\n"); n > maxFile {
			t.Errorf("%s has %d lines; %d are allowed", file, n, maxFile)
		}
	})
}

func TestHostsAreParsedNotMatched(t *testing.T) {
	sources(t, func(file string, src []byte) {
		if strings.HasPrefix(file, "httpapi/") && strings.HasSuffix(file, ".go") {
			report(t, checkHosts(file, src))
		}
	})
}

// documentation matches the parts of a struct tag that only the document of the
// API shows.
var documentation = regexp.MustCompile(`\b(doc|example):"[^"]*"`)

// checkNames reports names of agents in the identifiers and literals of a file.
// Comments and the documentation in struct tags may contain them, because an
// example is not a dependency.
func checkNames(file string, src []byte) (problems []string) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, file, src, parser.SkipObjectResolution)
	if err != nil {
		return []string{err.Error()}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		text := ""
		switch n := n.(type) {
		case *ast.Ident:
			text = n.Name
		case *ast.BasicLit:
			text = documentation.ReplaceAllString(n.Value, "")
		}
		if m := agents.FindString(text); m != "" {
			problems = append(problems, fmt.Sprintf("%s names an agent (%s): that belongs in provider/", fset.Position(n.Pos()), m))
		}
		return true
	})
	return problems
}

// checkText is checkNames for files that are not Go. No line may name an agent.
func checkText(file string, src []byte) (problems []string) {
	n := 0
	for line := range strings.Lines(string(src)) {
		n++
		if m := agents.FindString(line); m != "" {
			problems = append(problems, fmt.Sprintf("%s:%d names an agent (%s): the server tells the page its words", file, n, m))
		}
	}
	return problems
}

var (
	partial   = regexp.MustCompile(`^(strings|bytes)\.(HasPrefix|HasSuffix|Contains|Index)$|\.Match(String)?$`)
	hostWord  = regexp.MustCompile(`(?i)host|origin|addr|authority|referer`)
	delimiter = regexp.MustCompile(`^"[[:punct:]]"$`)
)

// checkHosts reports code that compares only a part of a host or an origin. For
// example, "127.evil.example" begins like a loopback address.
func checkHosts(file string, src []byte) (problems []string) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, file, src, parser.SkipObjectResolution)
	if err != nil {
		return []string{err.Error()}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		fn, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || !partial.MatchString(string(src[fset.Position(fn.Pos()).Offset:fset.Position(fn.End()).Offset])) {
			return true
		}
		if lit, ok := call.Args[len(call.Args)-1].(*ast.BasicLit); ok && delimiter.MatchString(lit.Value) {
			return true // the code parses the text and does not compare it
		}
		start, end := fset.Position(call.Lparen).Offset, fset.Position(call.Rparen).Offset
		if args := string(src[start:end]); hostWord.MatchString(args) {
			problems = append(problems, fmt.Sprintf("%s: %s%s) judges a host by its text; parse it", fset.Position(call.Pos()), fn.Sel.Name, args))
		}
		return true
	})
	return problems
}

// sources calls f with every source file that is neither a test nor generated.
func sources(t *testing.T, f func(file string, src []byte)) {
	t.Helper()
	walk(t, func(file string) bool { return handWritten(file) && !strings.Contains("/"+file, "/testdata/") }, f)
}

// goFiles calls f with every Go file of the tree, including tests, generated
// files and programs in testdata.
func goFiles(t *testing.T, f func(file string, src []byte)) {
	t.Helper()
	walk(t, func(file string) bool { return path.Ext(file) == ".go" }, f)
}

// walk calls f with every file of the tree that want accepts. Paths are relative
// to the root of the tree.
func walk(t *testing.T, want func(string) bool, f func(file string, src []byte)) {
	t.Helper()
	files, err := tree()
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, file := range files {
		if want(file.path) {
			n++
			f(file.path, file.src)
		}
	}
	if n < 10 {
		t.Fatalf("only %d source files found", n)
	}
}

type sourceFile struct {
	path string
	src  []byte
}

// tree reads the source files of the tree, except in the folders that skipDir
// accepts, once for all tests.
var tree = sync.OnceValues(func() (files []sourceFile, err error) {
	err = filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		file, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		file = filepath.ToSlash(file)
		if d.IsDir() {
			if file != "." && skipDir(file) {
				return filepath.SkipDir
			}
			return nil
		}
		if !slices.Contains([]string{".go", ".ts", ".tsx", ".css"}, path.Ext(file)) {
			return nil
		}
		src, err := os.ReadFile(p)
		files = append(files, sourceFile{file, src})
		return err
	})
	return files, err
})

func skipDir(dir string) bool {
	base := path.Base(dir)
	return base[0] == '.' || base == "node_modules" || dir == "ui/dist" || dir == "bin"
}

func handWritten(file string) bool {
	switch path.Ext(file) {
	case ".go":
		return !strings.HasSuffix(file, "_test.go") && !strings.HasSuffix(file, "_gen.go")
	case ".ts", ".tsx", ".css":
		return !strings.Contains(file, ".test.") && !strings.Contains(file, ".spec.") && !strings.Contains(file, ".gen.")
	}
	return false
}

// TestReadmeExampleIsCompiled compares the Go code in the README with the
// example that the compiler and the tests check.
func TestReadmeExampleIsCompiled(t *testing.T) {
	_, rest, _ := strings.Cut(read(t, "README.md"), "```go\n")
	block, _, found := strings.Cut(rest, "```")
	if !found {
		t.Fatal("the README has no Go code")
	}
	var indented strings.Builder
	for line := range strings.Lines(block) {
		if line != "\n" {
			indented.WriteByte('\t')
		}
		indented.WriteString(line)
	}
	if !strings.Contains(read(t, "example_test.go"), indented.String()) {
		t.Error("the Go code in the README is not the one in example_test.go")
	}
}
