package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// ARCHITECTURE.md describes two ways through the program. They name functions
// as folder.Function or folder.Type.Method. The folder of the root is called
// runnel.
func TestWaysNameRealFunctions(t *testing.T) {
	doc := read(t, "ARCHITECTURE.md")
	known := map[string]map[string]bool{} // by folder
	for _, title := range []string{"## The way up", "## The way down"} {
		names := functionsNamed(section(doc, title))
		if len(names) < 5 {
			t.Errorf("%q names %d functions, want the steps of the way", title, len(names))
		}
		for _, name := range names {
			if problem := checkFunction(name, func(folder string) map[string]bool {
				if known[folder] == nil {
					known[folder] = declared(t, folder)
				}
				return known[folder]
			}); problem != "" {
				t.Errorf("%q: %s", title, problem)
			}
		}
	}
}

// section returns the text from the heading that begins with title to the next
// heading.
func section(doc, title string) string {
	_, text, _ := strings.Cut(doc, title)
	text, _, _ = strings.Cut(text, "\n## ")
	return text
}

var function = regexp.MustCompile("`([a-z][a-z/]*)((?:\\.[A-Za-z]\\w*){1,2})`")

// fileName matches names that look like functions but are files.
var fileName = regexp.MustCompile(`\.(go|ts|tsx|md)$`)

func functionsNamed(text string) (names []string) {
	for _, m := range function.FindAllStringSubmatch(text, -1) {
		if name := m[1] + m[2]; !fileName.MatchString(name) {
			names = append(names, name)
		}
	}
	return names
}

// checkFunction returns a problem if the folder does not declare the function.
func checkFunction(name string, declared func(folder string) map[string]bool) string {
	folder, name, _ := strings.Cut(name, ".")
	if !declared(folder)[name] {
		return fmt.Sprintf("%s declares no %s", folder, name)
	}
	return ""
}

// declared returns the functions of a folder, and the methods of its types and
// interfaces as Type.Method.
func declared(t *testing.T, folder string) map[string]bool {
	t.Helper()
	dir := filepath.Join(root, folder)
	if folder == "runnel" {
		dir = root
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Errorf("ARCHITECTURE.md names the folder %s: %v", folder, err)
	}
	names := map[string]bool{}
	for _, file := range files {
		if !strings.HasSuffix(file.Name(), ".go") || strings.HasSuffix(file.Name(), "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, file.Name()), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		collect(parsed, names)
	}
	return names
}

func collect(file *ast.File, names map[string]bool) {
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			name := n.Name.Name
			if n.Recv != nil {
				name = receiver(n.Recv.List[0].Type) + "." + name
			}
			names[name] = true
			return false
		case *ast.TypeSpec:
			if i, ok := n.Type.(*ast.InterfaceType); ok {
				for _, m := range i.Methods.List {
					for _, name := range m.Names {
						names[n.Name.Name+"."+name.Name] = true
					}
				}
			}
		}
		return true
	})
}

func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.ParenExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

func TestSeededWayMistakes(t *testing.T) {
	there := func(string) map[string]bool { return map[string]bool{"Session.flush": true, "Start": true} }
	text := "`runnel.Session.flush` then `runnel.Start`, in `translate.go`, of `Log`"
	for _, name := range functionsNamed(text) {
		want(t, name, strings.Fields(checkFunction(name, there)), "")
	}
	if n := len(functionsNamed(text)); n != 2 {
		t.Errorf("found %d functions, want 2", n)
	}
	want(t, "gone", []string{checkFunction("runnel.Session.push", there)}, "runnel declares no Session.push")
}
