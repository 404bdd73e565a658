package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"path"
	"strings"
	"testing"
)

// maxClone is the maximum number of tokens that functions of two providers may
// have in common, in the same order. Longer code belongs in internal/translate
// or internal/agentconn.
const maxClone = 49

func TestProvidersShareNoCopiedCode(t *testing.T) {
	var bodies []body
	folders := map[string]bool{}
	sources(t, func(file string, src []byte) {
		if strings.HasPrefix(file, "provider/") && strings.HasSuffix(file, ".go") {
			bodies = append(bodies, bodiesOf(file, src)...)
			folders[path.Dir(file)] = true
		}
	})
	if len(folders) < 4 || len(bodies) < 500 {
		t.Errorf("only %d functions found in %d folders", len(bodies), len(folders))
	}
	report(t, checkClones(bodies))
}

// A body is the tokens of a function's body. kinds has their kinds, one byte for
// each token.
type body struct {
	folder, file string
	tokens       []tok
	kinds        string
}

// A tok is one token. kind is the same for all identifiers, and for all
// literals.
type tok struct {
	kind token.Token
	name string
	line int
}

// bodiesOf returns the bodies of the functions that a file declares.
// Signatures are not part of them, because interfaces prescribe many of them.
func bodiesOf(file string, src []byte) (bodies []body) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, file, src, parser.SkipObjectResolution)
	if err != nil {
		return nil // the compiler reports it
	}
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil {
			start, end := fset.Position(fn.Body.Pos()), fset.Position(fn.Body.End())
			tokens := tokensOf(src[start.Offset:end.Offset], start.Line)
			bodies = append(bodies, body{path.Dir(file), file, tokens, kindsOf(tokens)})
		}
	}
	return bodies
}

// tokensOf returns the tokens of a part of a file that begins in a line.
func tokensOf(src []byte, line int) (tokens []tok) {
	fset := token.NewFileSet()
	file := fset.AddFile("", -1, len(src))
	var s scanner.Scanner
	s.Init(file, src, nil, 0)
	for {
		pos, kind, text := s.Scan()
		switch {
		case kind == token.EOF:
			return tokens
		case kind != token.IDENT && kind.IsLiteral():
			kind = token.STRING
		}
		tokens = append(tokens, tok{kind, text, line + file.Line(pos) - 1})
	}
}

// checkClones reports code that two folders have in common: the longest for
// each pair of functions.
func checkClones(bodies []body) (problems []string) {
	type place struct{ body, at int }
	begins := map[string][]place{} // by the kinds of the tokens that begin there
	for i, b := range bodies {
		longest := map[int]int{} // by the other function
		where := map[int][2]int{}
		for at := range max(len(b.tokens)-maxClone, 0) {
			kinds := b.kinds[at : at+maxClone+1]
			for _, other := range begins[kinds] {
				o := bodies[other.body]
				if o.folder == b.folder {
					continue
				}
				if n := common(o.tokens[other.at:], b.tokens[at:]); n > max(maxClone, longest[other.body]) {
					longest[other.body], where[other.body] = n, [2]int{other.at, at}
				}
			}
			begins[kinds] = append(begins[kinds], place{i, at})
		}
		for j, n := range longest {
			o, from, at := bodies[j], where[j][0], where[j][1]
			problems = append(problems, fmt.Sprintf("%s:%d-%d and %s:%d-%d are the same code (%d tokens; %d are allowed): move it to internal/translate or internal/agentconn",
				o.file, o.tokens[from].line, o.tokens[from+n-1].line, b.file, b.tokens[at].line, b.tokens[at+n-1].line, n, maxClone))
		}
	}
	return problems
}

func kindsOf(tokens []tok) string {
	kinds := make([]byte, len(tokens))
	for i, t := range tokens {
		kinds[i] = byte(t.kind)
	}
	return string(kinds)
}

// common returns how many tokens two pieces of code have in common from their
// beginnings, if the identifiers of one are renamed to those of the other.
// Literals may differ.
func common(a, b []tok) (n int) {
	renamed, back := map[string]string{}, map[string]string{}
	for n < min(len(a), len(b)) && a[n].kind == b[n].kind {
		if a[n].kind == token.IDENT {
			to, known := renamed[a[n].name]
			from, taken := back[b[n].name]
			if known != taken || known && (to != b[n].name || from != a[n].name) {
				break
			}
			renamed[a[n].name], back[b[n].name] = b[n].name, a[n].name
		}
		n++
	}
	return n
}

func TestSeededClones(t *testing.T) {
	const code = "\n\nfunc sum(list []int) (total int) {\n\tfor i, n := range list {\n\t\tif i > 3 && n != 7 {\n\t\t\ttotal += n * 2\n\t\t\tlog(total, \"more\", i)\n" +
		"\t\t\tcount(n, total-i, limit)\n\t\t}\n\t}\n\tif total > limit {\n\t\treturn limit\n\t}\n\treturn total\n}\n"
	rename := strings.NewReplacer("list", "rows", "total", "sum", "limit", "most", "7", "12", "more", "less", "sum(", "add(")
	for name, c := range map[string]struct{ file, src, want string }{
		"renamed":        {"provider/b/b.go", rename.Replace(code), "provider/a/a.go:3-15 and provider/b/b.go:3-15 are the same code (63 tokens"},
		"same folder":    {"provider/a/b.go", rename.Replace(code), ""},
		"other names":    {"provider/b/b.go", strings.Replace(code, "log(total", "log(n", 1), ""},
		"other operator": {"provider/b/b.go", strings.Replace(code, "* 2", "/ 2", 1), ""},
		"short":          {"provider/b/b.go", "\n\nfunc f() { return }\n", ""},
		"only the end":   {"provider/b/b.go", strings.Replace(code, "{\n\tfor", "{\n\tbegin()\n\tfor", 1), "provider/a/a.go:4-15 and provider/b/b.go:5-16"},
	} {
		bodies := append(bodiesOf("provider/a/a.go", []byte("package a"+code)), bodiesOf(c.file, []byte("package b"+c.src))...)
		want(t, name, checkClones(bodies), c.want)
	}
}
