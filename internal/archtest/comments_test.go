package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"strings"
	"testing"
)

// A comment that names a function must change when the function is renamed.
func TestCommentsNameWhatIsDeclared(t *testing.T) {
	fset := token.NewFileSet()
	files := map[string]*ast.File{}
	used := map[string]map[string]bool{} // identifiers by folder; "" has those of all folders
	sources(t, func(file string, src []byte) {
		if !strings.HasSuffix(file, ".go") {
			return
		}
		f, err := parser.ParseFile(fset, file, src, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Error(err)
			return
		}
		files[file] = f
		noteIdents(used, path.Dir(file), f)
	})
	for file, f := range files {
		report(t, checkDocs(fset, f))
		report(t, checkReferences(fset, f, used[path.Dir(file)], used[""]))
	}
}

func noteIdents(used map[string]map[string]bool, dir string, f *ast.File) {
	for _, d := range []string{dir, ""} {
		if used[d] == nil {
			used[d] = map[string]bool{}
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			used[dir][id.Name], used[""][id.Name] = true, true
		}
		return true
	})
}

// checkDocs reports doc comments whose first word is in lower case but is not
// the declared name. A sentence begins with a capital letter or with the name.
func checkDocs(fset *token.FileSet, f *ast.File) (problems []string) {
	check := func(name *ast.Ident, doc *ast.CommentGroup) {
		first, _, _ := strings.Cut(strings.TrimSpace(doc.Text()), " ")
		first = strings.TrimSuffix(strings.TrimRight(first, ",.:;"), "'s")
		if first != "" && first[0] >= 'a' && first[0] <= 'z' && first != name.Name {
			problems = append(problems, fmt.Sprintf("%s: the comment on %s begins with %q", fset.Position(doc.Pos()), name.Name, first))
		}
	}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			check(d.Name, d.Doc)
		case *ast.GenDecl:
			if d.Lparen.IsValid() || d.Tok == token.IMPORT {
				continue // the doc comment is about a group
			}
			switch s := d.Specs[0].(type) {
			case *ast.TypeSpec:
				check(s.Name, d.Doc)
			case *ast.ValueSpec:
				check(s.Names[0], d.Doc)
			}
		}
	}
	return problems
}

var (
	docLink = regexp.MustCompile(`\[\*?([A-Z]\w*)(?:\.(\w+))?\]`)
	call    = regexp.MustCompile(`\b(?:\w+\.)*(\w+)\(\)`)
)

// checkReferences reports links to names that the folder does not use, and
// calls of functions that no code in the tree uses.
func checkReferences(fset *token.FileSet, f *ast.File, folder, tree map[string]bool) (problems []string) {
	missing := func(c *ast.Comment, what string) {
		problems = append(problems, fmt.Sprintf("%s: a comment speaks of %s, which is not declared", fset.Position(c.Pos()), what))
	}
	for _, group := range f.Comments {
		for _, c := range group.List {
			for _, m := range docLink.FindAllStringSubmatch(c.Text, -1) {
				if !folder[m[1]] || m[2] != "" && !tree[m[2]] {
					missing(c, m[0])
				}
			}
			for _, m := range call.FindAllStringSubmatch(c.Text, -1) {
				if !tree[m[1]] {
					missing(c, m[0])
				}
			}
		}
	}
	return problems
}

func TestSeededCommentMistakes(t *testing.T) {
	for name, c := range map[string]struct{ src, want string }{
		"name":            {"// run runs.\nfunc run() {}", ""},
		"sentence":        {"// Only for tests.\nfunc run() {}", ""},
		"genitive":        {"// run's bound.\nconst run = 1", ""},
		"group":           {"// bounds of runs.\nconst (\n\trun = 1\n)", ""},
		"another name":    {"// walk runs.\nfunc run() {}", `the comment on run begins with "walk"`},
		"another type":    {"// walker runs.\ntype runner struct{}", `the comment on runner begins with "walker"`},
		"call":            {"// See run().\nfunc run() {}", ""},
		"vanished call":   {"// See walk().\nfunc run() {}", "speaks of walk()"},
		"link":            {"// See [Run].\nfunc Run() {}", ""},
		"vanished link":   {"// See [Walk].\nfunc run() {}", "speaks of [Walk]"},
		"vanished method": {"// See [Run.Walk].\nfunc Run() {}", "speaks of [Run.Walk]"},
	} {
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, "x.go", "package x\n\n"+c.src+"\n", parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		used := map[string]map[string]bool{}
		noteIdents(used, "x", f)
		want(t, name, append(checkDocs(fset, f), checkReferences(fset, f, used["x"], used[""])...), c.want)
	}
}
