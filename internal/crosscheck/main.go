// Command crosscheck type-checks every package for other operating systems.
//
//	go run ./internal/crosscheck darwin windows    # in the root of the repository
//
// It finds errors that a build for such a system would report, such as a
// function that exists on one system only. It takes seconds, while a build
// would first compile every dependency for each system. It checks only the
// declarations of dependencies. `make test-long` builds and links.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
)

func main() {
	debug.SetGCPercent(400) // most of what is allocated stays in use until the end
	failed, src := false, newSource()
	for _, system := range os.Args[1:] {
		if err := check(context.Background(), src, system, "./..."); err != nil {
			fmt.Fprintf(os.Stderr, "crosscheck: %s: %v\n", system, err)
			failed = true
		}
	}
	if failed {
		os.Exit(1)
	}
}

// A listed holds what `go list` reports about a package.
type listed struct {
	ImportPath, Dir string
	GoFiles         []string
	ImportMap       map[string]string // from the path in the source to ImportPath
	Module          *struct {
		Main      bool
		GoVersion string
	}
	Error *struct{ Err string }
}

// A source parses each file once, and keeps it for the other systems.
type source struct {
	fset  *token.FileSet
	files map[string]*ast.File
}

func newSource() *source { return &source{token.NewFileSet(), make(map[string]*ast.File)} }

func (s *source) parse(path string) (*ast.File, error) {
	if f, ok := s.files[path]; ok {
		return f, nil
	}
	f, err := parser.ParseFile(s.fset, path, nil, parser.SkipObjectResolution)
	if err == nil {
		s.files[path] = f
	}
	return f, err
}

// check type-checks the packages that match the patterns, and their
// dependencies. It returns the errors of all packages, joined.
func check(ctx context.Context, src *source, system string, patterns ...string) error {
	pkgs, err := list(ctx, system, patterns)
	if err != nil {
		return err
	}
	checked := map[string]*types.Package{"unsafe": types.Unsafe}
	var errs []error
	for _, p := range pkgs {
		if p.Error != nil {
			errs = append(errs, errors.New(p.Error.Err))
		} else if p.ImportPath != "unsafe" {
			checked[p.ImportPath], err = p.check(src, checked)
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// list returns the packages for a build without cgo on the system. A package
// follows its dependencies.
func list(ctx context.Context, system string, patterns []string) (pkgs []listed, err error) {
	args := []string{"list", "-e", "-deps", "-json=ImportPath,Dir,GoFiles,ImportMap,Module,Error"}
	cmd := exec.CommandContext(ctx, "go", append(args, patterns...)...)
	cmd.Env = append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return pkgs, nil
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		pkgs = append(pkgs, p)
	}
}

// check type-checks one package, whose imports were checked before.
func (p listed) check(src *source, checked map[string]*types.Package) (*types.Package, error) {
	var errs []error
	var files []*ast.File
	for _, name := range p.GoFiles {
		f, err := src.parse(filepath.Join(p.Dir, name))
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	conf := types.Config{
		Importer: importer(func(path string) (*types.Package, error) {
			if mapped, ok := p.ImportMap[path]; ok {
				path = mapped
			}
			if pkg := checked[path]; pkg != nil {
				return pkg, nil
			}
			return nil, errors.New("not checked")
		}),
		Sizes:            types.SizesFor("gc", runtime.GOARCH),
		IgnoreFuncBodies: p.Module == nil || !p.Module.Main,
		Error:            func(err error) { errs = append(errs, err) },
	}
	if p.Module != nil && p.Module.GoVersion != "" {
		conf.GoVersion = "go" + p.Module.GoVersion
	}
	pkg, _ := conf.Check(p.ImportPath, src.fset, files, nil) // conf.Error collects the errors
	return pkg, errors.Join(errs...)
}

// importer implements types.Importer.
type importer func(path string) (*types.Package, error)

func (i importer) Import(path string) (*types.Package, error) { return i(path) }
