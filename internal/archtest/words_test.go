package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strings"
	"testing"
)

// unclear matches phrases that do not say what they refer to. Name the program,
// value or person instead.
var unclear = regexp.MustCompile(`(?i)\b(what there is( not)?|who it is|what it says of itself|whoever|(is|are) told|be gone|is gone|` +
	`says? so|has to do with|takes? up|hears of|of its own accord|for good|what is asked|it is there|all the same|as ever|anew|` +
	`what comes|what it takes|lets go|looks at|nobody wanted|those who take)\b`)

// idioms matches private names for things that have a usual name.
var idioms = regexp.MustCompile(`^(vigil|farewell|obeys?|hears?|heard|overhear|fly|aside|beside|told|hasten|sever|strangers|` +
	`tell|tellStarted|serveUntilTold|patience|loginPatience|relive|kin|newcomers|turnPlaces?|agentSays|agentGone|curbed|remarks|hopeless|doing)$`)

func TestCommentsAvoidUnclearPhrases(t *testing.T) {
	tests := 0
	goFiles(t, func(file string, src []byte) {
		if strings.HasSuffix(file, "_test.go") {
			tests++
		}
		report(t, checkWords(t, file, src))
	})
	if tests < 10 {
		t.Errorf("only %d test files found", tests)
	}
}

func TestSeededUnclearPhrases(t *testing.T) {
	src := "package p\n\n// vigil waits for whoever\n// is told.\nfunc vigil() {}\n\n// The session logs the event.\nvar seq int\n\ntype log struct {\n\tKin int\n}\n"
	got := strings.Join(checkWords(t, "p.go", []byte(src)), "\n")
	want := "p.go:3: comment has \"whoever\"; name the subject\np.go:3: comment has \"is told\"; name the subject\np.go:5: the name vigil is an idiom; use the usual term\n" +
		"p.go:11: the name Kin is an idiom; use the usual term"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// checkWords returns the unclear phrases and names in the Go file src.
func checkWords(t *testing.T, path string, src []byte) (problems []string) {
	t.Helper()
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, path, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	at := func(pos token.Pos) string {
		p := fset.Position(pos)
		p.Column = 0
		return p.String()
	}
	for _, c := range file.Comments {
		for _, phrase := range unclear.FindAllString(strings.Join(strings.Fields(c.Text()), " "), -1) {
			problems = append(problems, at(c.Pos())+": comment has \""+phrase+"\"; name the subject")
		}
	}
	for _, name := range declaredNames(file) {
		if idioms.MatchString(strings.ToLower(name.Name[:1]) + name.Name[1:]) {
			problems = append(problems, at(name.Pos())+": the name "+name.Name+" is an idiom; use the usual term")
		}
	}
	return problems
}

// declaredNames returns the names of the functions, methods, types, fields,
// variables and constants that a file declares, except local variables.
func declaredNames(file *ast.File) (names []*ast.Ident) {
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			names = append(names, d.Name)
		case *ast.GenDecl:
			ast.Inspect(d, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.TypeSpec:
					names = append(names, n.Name)
				case *ast.ValueSpec:
					names = append(names, n.Names...)
				case *ast.Field:
					names = append(names, n.Names...)
				case *ast.FuncLit, *ast.FuncType:
					return false
				}
				return true
			})
		}
	}
	return names
}
