package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
)

// A manifest is the package.json with which npm installs agents.
type manifest struct {
	Private      bool              `json:"private"`
	Dependencies map[string]string `json:"dependencies"`
	AllowScripts map[string]bool   `json:"allowScripts"`
}

func readManifest(path string) (m manifest, err error) {
	data, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(data, &m)
	}
	if err != nil {
		return m, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}

// older matches the names of dependencies that are pinned to an older version
// on purpose, such as "NAME-1-2-3".
var older = regexp.MustCompile(`-\d+-\d+-\d+$`)

// newest returns a manifest with the newest version of each dependency. view
// returns the newest version of a package. Dependencies pinned to an older
// version on purpose are left out.
func (m manifest) newest(view func(name string) (version string, err error)) (manifest, error) {
	n := manifest{Private: true, Dependencies: map[string]string{}, AllowScripts: m.AllowScripts}
	for name, pin := range m.Dependencies {
		if older.MatchString(name) {
			continue
		}
		prefix, real := split(name, pin)
		version, err := view(real)
		if err != nil {
			return n, err
		}
		n.Dependencies[name] = prefix + version
	}
	return n, nil
}

// only returns the manifest without the agents that are not in names.
func (m manifest) only(names []string, modules map[string]string) manifest {
	m.Dependencies = maps.Clone(m.Dependencies)
	for agent, module := range modules {
		if !slices.Contains(names, agent) {
			delete(m.Dependencies, module)
		}
	}
	return m
}

// split returns the text before the version of a dependency, and the name of
// the installed package. That name differs from the dependency's if the pin has
// the form "npm:NAME@1.2.3".
func split(name, pin string) (prefix, real string) {
	rest, is := strings.CutPrefix(pin, "npm:")
	if !is {
		return "", name
	}
	at := strings.LastIndex(rest, "@")
	return "npm:" + rest[:at+1], rest[:at]
}

// version returns the version of a dependency.
func (m manifest) version(name string) string {
	prefix, _ := split(name, m.Dependencies[name])
	return strings.TrimPrefix(m.Dependencies[name], prefix)
}

// viewed returns the newest version of a package, which it asks npm for.
func viewed(name string) (string, error) {
	var stderr bytes.Buffer
	cmd := exec.CommandContext(context.Background(), "npm", "view", name, "version")
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("npm view %s version: %w\n%s", name, err, stderr.String())
	}
	version := strings.TrimSpace(string(out))
	if version == "" {
		return "", fmt.Errorf("npm view %s version: no such package", name)
	}
	return version, nil
}

// install installs the agents of a manifest in a directory.
func (m manifest) install(dir string, out io.Writer) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	data, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "package.json"), append(data, '\n'), 0o644); err != nil {
		return err
	}
	fmt.Fprintf(out, "\ninstalling the newest versions in %s\n", dir)
	cmd := exec.CommandContext(context.Background(), "npm", "install", "--no-package-lock", "--no-fund", "--no-audit", "--no-update-notifier")
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("npm install in %s: %w", dir, err)
	}
	return nil
}

// A row holds the versions of one agent.
type row struct {
	agent          string // name of its provider
	pinned, newest string
	runs           bool
}

// compareVersions returns a row for each agent. modules maps the names of the
// agents' providers to npm packages. asked is a list of names separated by
// commas. Without it an agent runs if its newest version is not the pinned one;
// with it exactly the named agents run.
func compareVersions(modules map[string]string, pins, newest manifest, asked string) (rows []row, err error) {
	names := strings.FieldsFunc(asked, func(r rune) bool { return r == ',' })
	for _, name := range names {
		if modules[name] == "" {
			return nil, fmt.Errorf("unknown agent %q; want some of %s", name, strings.Join(slices.Sorted(maps.Keys(modules)), ", "))
		}
	}
	for _, agent := range slices.Sorted(maps.Keys(modules)) {
		r := row{agent: agent, pinned: pins.version(modules[agent]), newest: newest.version(modules[agent])}
		r.runs = r.newest != r.pinned && len(names) == 0 || slices.Contains(names, agent)
		rows = append(rows, r)
	}
	return rows, nil
}

// running returns the names of the agents that run.
func running(rows []row) (names []string) {
	for _, r := range rows {
		if r.runs {
			names = append(names, r.agent)
		}
	}
	return names
}

func printVersions(out io.Writer, rows []row) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "agent\tpinned\tnewest")
	for _, r := range rows {
		newest := r.newest
		if r.newest == r.pinned {
			newest = "the same"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", r.agent, r.pinned, newest)
	}
	_ = w.Flush() // as fmt.Fprintln, which ignores the errors of a terminal
}
