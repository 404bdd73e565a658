package realagents

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel/internal/testexec"
)

// dirVar is the variable with the directory whose node_modules contain the
// agents. Default: test/agents of the repository, with the pinned versions.
const dirVar = "RUNNEL_AGENTS_DIR"

// install is the command that installs the pinned agents. It runs in the root
// of the repository.
const install = "npm ci --prefix test/agents"

// systemNode is the oldest supported major version of the system's Node.js. An
// agent that requires a newer version is started with the Node.js in
// node_modules.
const systemNode = 20

// manifest contains the used fields of a module's package.json.
type manifest struct {
	Version string
	Bin     map[string]string // programs by command
	Engines struct{ Node string }
}

func find(t testing.TB, name string, a agent) Binary {
	t.Helper()
	Skip(t)
	modules := filepath.Join(directory(t), "node_modules")
	dir := filepath.Join(modules, filepath.FromSlash(a.module))
	data, err := os.ReadFile(filepath.Join(dir, "package.json"))
	if err != nil {
		absent(t, a.module, err)
	}
	var pkg manifest
	if err := json.Unmarshal(data, &pkg); err != nil {
		t.Fatalf("%s: package.json: %v", a.module, err)
	}
	path := filepath.Join(dir, filepath.FromSlash(pkg.Bin[a.command]))
	script, err := isScript(path)
	if err != nil {
		absent(t, a.module, err)
	}
	if script && (a.newerNode || pkg.wantsNewerNode()) {
		path = launcher(t, modules, name, path)
	}
	return Binary{Name: name, Version: pkg.Version, Path: path, Args: a.args}
}

func absent(t testing.TB, module string, err error) {
	t.Helper()
	t.Fatalf("%s is not installed (%v).\nRun: %s\nor set %s=1 to skip the tests that need it.", module, err, install, skipVar)
}

var atLeast = regexp.MustCompile(`^>=\s*(\d+)`)

// wantsNewerNode reports whether the module requires a newer Node.js than
// systemNode.
func (m manifest) wantsNewerNode() bool {
	if v := atLeast.FindStringSubmatch(m.Engines.Node); v != nil {
		major, err := strconv.Atoi(v[1])
		return err == nil && major > systemNode
	}
	return false
}

// isScript reports whether a program is a script for Node.js.
func isScript(path string) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	head := make([]byte, 100)
	n, err := io.ReadFull(f, head)
	if err != nil && n == 0 {
		return false, fmt.Errorf("%s: %w", path, err)
	}
	line, _, _ := bytes.Cut(head[:n], []byte("\n"))
	return bytes.HasPrefix(line, []byte("#!")) && bytes.Contains(line, []byte("node")), nil
}

// launcher returns the path of a shell script that starts script with the
// Node.js of the module "node". It is a single file, so that a test can link to
// it or name it in a configuration.
func launcher(t testing.TB, modules, name, script string) string {
	t.Helper()
	node := filepath.Join(modules, "node", "bin", "node")
	if _, err := os.Stat(node); err != nil {
		absent(t, "node", err)
	}
	text := fmt.Sprintf("#!/bin/sh\nexec %s %s \"$@\"\n", quoted(node), quoted(script))
	path := filepath.Join(modules, ".launchers", name)
	if have, err := os.ReadFile(path); err == nil && string(have) == text {
		return path
	}
	if err := testexec.Write(path, text); err != nil {
		t.Fatal(err)
	}
	return path
}

// quoted returns s as one quoted word for a shell.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// directory returns the directory whose node_modules contain the agents.
func directory(t testing.TB) string {
	t.Helper()
	if dir := os.Getenv(dirVar); dir != "" {
		return dir
	}
	return filepath.Join(repository(t), "test", "agents")
}

// repository returns the closest parent of the current directory that contains
// go.mod.
func repository(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		up := filepath.Dir(dir)
		if up == dir {
			t.Fatal("no go.mod above the test")
		}
		dir = up
	}
}
