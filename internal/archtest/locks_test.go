package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The package comment of gateway states in which order its locks are taken, and
// from which parts a Gateway is made.
func TestGatewayDocumentsItsLocksAndParts(t *testing.T) {
	declared := map[string]bool{}
	parts := map[string]bool{}
	doc := ""
	sources(t, func(file string, src []byte) {
		if path.Dir(file) != "gateway" {
			return
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, src, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return // the compiler reports it
		}
		if file == "gateway/doc.go" {
			doc = f.Doc.Text()
		}
		addLocks(f, declared)
		addParts(f, "Gateway", parts)
	})
	if len(declared) < 15 || len(parts) < 10 {
		t.Errorf("only %d locks and %d parts found", len(declared), len(parts))
	}
	report(t, checkLocks(doc, declared))
	report(t, checkParts(doc, parts))
}

// addLocks adds the mutexes that a file declares: fields as "type.field", and
// variables by their names.
func addLocks(f *ast.File, locks map[string]bool) {
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.TypeSpec:
			s, ok := n.Type.(*ast.StructType)
			for i := 0; ok && i < len(s.Fields.List); i++ {
				if field := s.Fields.List[i]; isMutex(field.Type) {
					for _, name := range field.Names {
						locks[n.Name.Name+"."+name.Name] = true
					}
				}
			}
		case *ast.ValueSpec:
			if isMutex(n.Type) {
				for _, name := range n.Names {
					locks[name.Name] = true
				}
			}
		}
		return true
	})
}

func isMutex(typ ast.Expr) bool {
	s, ok := typ.(*ast.SelectorExpr)
	return ok && (s.Sel.Name == "Mutex" || s.Sel.Name == "RWMutex")
}

// addParts adds the types of the same package to which a struct type has
// pointers.
func addParts(f *ast.File, name string, parts map[string]bool) {
	ast.Inspect(f, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok || spec.Name.Name != name {
			return true
		}
		if s, ok := spec.Type.(*ast.StructType); ok {
			for _, field := range s.Fields.List {
				if p, ok := field.Type.(*ast.StarExpr); ok {
					if id, ok := p.X.(*ast.Ident); ok {
						parts[id.Name] = true
					}
				}
			}
		}
		return false
	})
}

// lockItem matches the names at the beginning of an item of the lock order.
var lockItem = regexp.MustCompile(`(?m)^ *\d+\. ((?:[\w.]+[,\s]*)+):`)

// checkLocks compares the locks in a package comment with the declared ones.
func checkLocks(doc string, declared map[string]bool) (problems []string) {
	_, order, _ := strings.Cut(doc, "# Lock order")
	named := map[string]bool{}
	for _, item := range lockItem.FindAllStringSubmatch(order, -1) {
		for _, name := range strings.FieldsFunc(item[1], func(r rune) bool { return r == ',' || r <= ' ' }) {
			if name != "and" {
				named[name] = true
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(declared)) {
		if !named[name] {
			problems = append(problems, "the lock order in gateway/doc.go lacks "+name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(named)) {
		if !declared[name] && strings.Contains(name, ".") {
			problems = append(problems, "the lock order in gateway/doc.go has "+name+", which is not declared")
		}
	}
	return problems
}

// checkParts reports parts that the list of parts in a package comment lacks.
func checkParts(doc string, parts map[string]bool) (problems []string) {
	_, list, _ := strings.Cut(doc, "# Parts")
	list, _, _ = strings.Cut(list, "# Lock order")
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		if !regexp.MustCompile(`(?m)^ *- .*\b` + name + `\b.*:`).MatchString(list) {
			problems = append(problems, "the list of parts in gateway/doc.go lacks "+name)
		}
	}
	return problems
}

func TestSeededLockMistakes(t *testing.T) {
	const src = "package p\n\nimport \"sync\"\n\ntype a struct{ mu, other sync.Mutex }\n\ntype b struct{ mu sync.RWMutex }\n\nfunc f() { var c sync.Mutex }\n\n" +
		"type G struct {\n\ta *a\n\tn int\n}\n"
	const doc = "# Parts\n\n - a: x\n\n# Lock order\n\n 1. a.mu, a.other: x of d.mu\n 2. b.mu and\n    c: y\n"
	f, err := parser.ParseFile(token.NewFileSet(), "p.go", src, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	declared, parts := map[string]bool{}, map[string]bool{}
	addLocks(f, declared)
	addParts(f, "G", parts)
	want(t, "none", append(checkLocks(doc, declared), checkParts(doc, parts)...), "")
	want(t, "missing field", checkLocks(strings.Replace(doc, ", a.other", "", 1), declared), "lacks a.other")
	want(t, "missing variable", checkLocks(strings.Replace(doc, " and\n    c", "", 1), declared), "lacks c")
	want(t, "gone", checkLocks(strings.Replace(doc, "b.mu", "b.mu, b.gone", 1), declared), "has b.gone, which is not declared")
	want(t, "missing part", checkParts(strings.Replace(doc, "- a:", "- b: a", 1), parts), "lacks a")
}
