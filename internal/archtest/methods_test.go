package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
)

// maxMethods is the maximum number of methods of a type in the crowded folders,
// where types attract code that belongs elsewhere. A type with more methods has
// more than one purpose.
const maxMethods = 45

// crowded are the folders, with all below them, whose types are counted.
var crowded = []string{"provider", "httpapi", "gateway"}

func TestTypesHaveFewMethods(t *testing.T) {
	methods := map[string]int{}
	sources(t, func(file string, src []byte) {
		top, _, _ := strings.Cut(file, "/")
		if strings.HasSuffix(file, ".go") && slices.Contains(crowded, top) {
			countMethods(file, src, methods)
		}
	})
	if len(methods) < 20 {
		t.Errorf("only %d types with methods found", len(methods))
	}
	report(t, checkMethods(methods))
}

// countMethods adds the methods that a file declares to the counts of their
// types.
func countMethods(file string, src []byte, methods map[string]int) {
	f, err := parser.ParseFile(token.NewFileSet(), file, src, parser.SkipObjectResolution)
	if err != nil {
		return // the compiler reports it
	}
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv != nil {
			methods[path.Dir(file)+"."+receiver(fn.Recv.List[0].Type)]++
		}
	}
}

// checkMethods reports types with too many methods.
func checkMethods(methods map[string]int) (problems []string) {
	for _, typ := range slices.Sorted(maps.Keys(methods)) {
		if n := methods[typ]; n > maxMethods {
			problems = append(problems, fmt.Sprintf("%s has %d methods; %d are allowed: which of them are another idea?", typ, n, maxMethods))
		}
	}
	return problems
}

func TestSeededCrowdedType(t *testing.T) {
	methods := map[string]int{}
	countMethods("gateway/x.go", []byte("package gateway\n\ntype T[K any] struct{}\n\nfunc (t *T[K]) A() {}\n\nfunc (T[K]) B() {}\n\nfunc C() {}\n\n"+
		"type U[K, V any] struct{}\n\nfunc (u *U[K, V]) A() {}\n\nfunc (U[_, V]) B() {}\n\nfunc ((*U[K, V])) D() {}\n"), methods)
	if methods["gateway.T"] != 2 || methods["gateway.U"] != 3 || len(methods) != 2 {
		t.Errorf("counted %v, want two methods of gateway.T and three of gateway.U", methods)
	}
	want(t, "few", checkMethods(map[string]int{"gateway.T": maxMethods}), "")
	want(t, "many", checkMethods(map[string]int{"gateway.T": maxMethods + 1}), "gateway.T has 46 methods")
}
