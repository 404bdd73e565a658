// Command agentsnewest installs the newest version of every agent into a
// separate directory and runs the conformance suite with it. It also records
// the conversations of testdata again. It prints how the results differ from
// those of the pinned versions.
//
//	go run ./internal/agentsnewest -dir .tmp/agents-newest    # in the root of the repository; or: make agents-newest
//
// It changes neither the pins nor testdata. The exit code is 1 if a test
// passes, or a conversation can be recorded, only with the pinned version.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/runnel-dev/runnel/internal/realagents"
)

func main() {
	agents := flag.String("agents", "", "run these `agents` even if they are pinned to their newest version; names with commas between them")
	dir := flag.String("dir", "", "`directory` to install the agents and to write the results in")
	flag.Parse()
	worse, err := run(*agents, *dir, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "agentsnewest:", err)
	}
	if err != nil || worse {
		os.Exit(1)
	}
}

// run reports whether the newest version of any agent does less than the pinned
// one.
func run(agents, dir string, out io.Writer) (worse bool, err error) {
	if dir == "" {
		return false, fmt.Errorf("-dir is missing: the directory to install the agents in")
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return false, err
	}
	pins, err := readManifest(filepath.Join("test", "agents", "package.json"))
	if err != nil {
		return false, err
	}
	newest, err := pins.newest(viewed)
	if err != nil {
		return false, err
	}
	modules := realagents.Modules()
	rows, err := compareVersions(modules, pins, newest, agents)
	if err != nil {
		return false, err
	}
	printVersions(out, rows)
	names := running(rows)
	if len(names) == 0 {
		fmt.Fprintln(out, "\nEvery pin is the newest version. AGENT=NAME runs an agent all the same.")
		return false, nil
	}
	if err := newest.only(names, modules).install(dir, out); err != nil {
		return false, err
	}
	results := filepath.Join(dir, "results")
	if err := os.RemoveAll(results); err != nil {
		return false, err
	}
	env := []string{"RUNNEL_AGENTS_DIR=" + dir, "RUNNEL_RESULTS_DIR=" + results, "RUNNEL_AGENTS=" + strings.Join(names, ",")}
	for _, s := range steps {
		if err := s.run(env, dir, out); err != nil {
			return false, err
		}
	}
	for _, r := range rows {
		if !slices.Contains(names, r.agent) {
			continue
		}
		d, err := compare(r, "provider", results)
		if err != nil {
			return false, err
		}
		d.print(out)
		worse = worse || d.worse()
	}
	return worse, nil
}

// A step runs tests of every provider.
type step struct {
	name, what string
	tests      []string
	flag       string
}

var steps = []step{
	{name: "conformance", what: "the conformance suite", tests: []string{"TestConformance"}, flag: "-results"},
	{name: "recordings", what: "the recordings", tests: []string{"TestRecord", "TestRecordTerminal", "TestRecordStored"}, flag: "-record"},
}

// run runs the step and writes its output to a log file. A failing test is no
// error, because the result files show it.
func (s step) run(env []string, dir string, out io.Writer) error {
	packages, err := packagesWith(s.tests, "provider")
	if err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(dir, s.name+".log"))
	if err != nil {
		return err
	}
	defer log.Close()
	fmt.Fprintf(out, "\nrunning %s; the output goes to %s\n", s.what, log.Name())
	cmd := exec.CommandContext(context.Background(), "go", slices.Concat([]string{"test", "-v", "-count", "1", "-p", "1", "-timeout", "90m", "-run", "^(" + strings.Join(s.tests, "|") + ")$"}, packages, []string{s.flag})...)
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), env...), log, log
	began, result := time.Now(), "passed"
	if err := cmd.Run(); err != nil {
		result = fmt.Sprintf("some of it failed (%v)", err)
	}
	fmt.Fprintf(out, "%s after %v\n", result, time.Since(began).Round(time.Second))
	return nil
}

// packagesWith returns the packages below root whose tests can run real agents
// and include one of the given tests. These may be in different files of a
// package.
func packagesWith(tests []string, root string) (packages []string, err error) {
	files, err := filepath.Glob(filepath.Join(root, "*", "*_test.go"))
	if err != nil {
		return nil, err
	}
	tested, real := make(map[string]bool), make(map[string]bool) // by the name of a package
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		name := "./" + filepath.ToSlash(filepath.Dir(file))
		for _, test := range tests {
			tested[name] = tested[name] || bytes.Contains(text, []byte("func "+test+"("))
		}
		real[name] = real[name] || bytes.Contains(text, []byte("internal/realagents"))
	}
	for _, name := range slices.Sorted(maps.Keys(tested)) {
		if tested[name] && real[name] {
			packages = append(packages, name)
		}
	}
	return packages, nil
}
