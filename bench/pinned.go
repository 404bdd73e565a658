package main

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// A pinned is a program that is installed in test/agents.
type pinned struct {
	program string
	version string
}

// pinned returns a program of a module in test/agents/node_modules. It returns
// fs.ErrNotExist if the program is not installed.
func (w *workspace) pinned(module, program string) (p pinned, err error) {
	dir := filepath.Join(w.root, "test", "agents", "node_modules", filepath.FromSlash(module))
	p.program = filepath.Join(dir, filepath.FromSlash(program))
	if _, err := os.Stat(p.program); err != nil {
		return p, err
	}
	data, err := os.ReadFile(filepath.Join(dir, "package.json"))
	if err != nil {
		return p, err
	}
	var pkg struct{ Version string }
	err = json.Unmarshal(data, &pkg)
	p.version = pkg.Version
	return p, err
}

// withNode returns PATH as "K=V" for a program that may need a newer Node.js
// than the machine's. The Node.js of test/agents comes first.
func (w *workspace) withNode() string {
	return "PATH=" + filepath.Join(w.root, "test", "agents", "node_modules", "node", "bin") + string(os.PathListSeparator) + os.Getenv("PATH")
}

// asCommand creates a directory for PATH that contains p under the given name.
func (w *workspace) asCommand(p pinned, name string) (dir string, err error) {
	dir = w.path("real-" + name)
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return dir, err
	}
	err = os.Symlink(p.program, filepath.Join(dir, name))
	if errors.Is(err, fs.ErrExist) {
		err = nil
	}
	return dir, err
}

// notInstalled adds a row "not measured" and returns nil if err reports a
// missing program. It returns any other error.
func (b *bench) notInstalled(err error, what, target string) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	b.report.add(row{What: what, Target: target, Ours: unmeasured, Note: "npm ci --prefix test/agents was not run"})
	return nil
}
