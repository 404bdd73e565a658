package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/runnel-dev/runnel/provider/providertest"
)

// A difference describes how the newest version of an agent differs from the
// pinned one.
type difference struct {
	row
	noReport     bool     // the suite did not complete, so it wrote no report
	abilities    []string // "+NAME" or "-NAME": a capability that was gained or lost
	results      []string // tests with another result, with both results
	fails        bool     // a test fails that passes with the pinned version
	recordings   int      // number of conversations that were recorded again
	changed      []string // conversations whose events differ, with the file of the diff
	renumbered   []string // conversations whose events differ in numbers and ids only
	unrecordable []string // conversations that could not be recorded again
}

// worse reports whether the newest version does less than the pinned one.
func (d difference) worse() bool { return d.noReport || d.fails || len(d.unrecordable) > 0 }

// next returns the maintainer's next step.
func (d difference) next() string {
	same := !d.worse() && len(d.abilities)+len(d.results)+len(d.changed) == 0 // renumbered does not count: costs and tokens differ each time
	switch {
	case same && d.newest == d.pinned:
		return "nothing; the pin is the newest version"
	case d.newest == d.pinned:
		return fmt.Sprintf("it is the pinned version, so testdata is out of date or a test is flaky: make docs AGENT=%s, make record AGENT=%[1]s, read the diff", d.agent)
	case d.worse():
		return "mend what works with the pinned version only, then move the pin: CONTRIBUTING.md, When an agent has a new version"
	case same:
		return "move the pin: CONTRIBUTING.md, When an agent has a new version"
	}
	return "read what differs, mend what is wrong, then move the pin: CONTRIBUTING.md, When an agent has a new version"
}

// compare compares the stored results of an agent's pinned version, which are
// in the folders below providers, with the results of its newest version.
func compare(r row, providers, results string) (d difference, err error) {
	d.row = r
	found, err := filepath.Glob(filepath.Join(providers, "*", "testdata", "conformance", r.agent+"@"+r.pinned+".json"))
	if err != nil || len(found) != 1 {
		return d, errors.Join(err, fmt.Errorf("%s %s: %d reports of the pinned version in %s, want one; run make docs", r.agent, r.pinned, len(found), providers))
	}
	pinned, err := readReport(found[0])
	if err != nil {
		return d, err
	}
	testdata := filepath.Dir(filepath.Dir(found[0])) // testdata of the provider
	ours := filepath.Join(results, filepath.Base(filepath.Dir(testdata)), "testdata")
	switch newest, err := readReport(filepath.Join(ours, "conformance", r.agent+"@"+r.newest+".json")); {
	case errors.Is(err, fs.ErrNotExist):
		d.noReport = true
	case err != nil:
		return d, err
	default:
		d.reports(pinned, newest)
	}
	if _, err := os.Stat(filepath.Join(testdata, r.agent)); err == nil { // a provider of several agents has a folder for each
		testdata, ours = filepath.Join(testdata, r.agent), filepath.Join(ours, r.agent)
	}
	return d, d.recorded(testdata, ours)
}

func readReport(path string) (r providertest.Report, err error) {
	data, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(data, &r)
	}
	return r, err
}

// reports compares two conformance reports.
func (d *difference) reports(pinned, newest providertest.Report) {
	for _, c := range newest.Capabilities {
		if !slices.Contains(pinned.Capabilities, c) {
			d.abilities = append(d.abilities, "+"+string(c))
		}
	}
	for _, c := range pinned.Capabilities {
		if !slices.Contains(newest.Capabilities, c) {
			d.abilities = append(d.abilities, "-"+string(c))
		}
	}
	for _, was := range pinned.Results {
		i := slices.IndexFunc(newest.Results, func(f providertest.Finding) bool { return f.Test == was.Test })
		is := providertest.Finding{Why: "was not run"}
		if i >= 0 {
			is = newest.Results[i]
		}
		if was.Works == is.Works && was.Why == is.Why {
			continue
		}
		d.results = append(d.results, fmt.Sprintf("%s: %s -> %s", was.Test, outcome(was), outcome(is)))
		d.fails = d.fails || was.Works
	}
}

func outcome(f providertest.Finding) string {
	switch {
	case f.Works:
		return "works"
	case f.Why == "":
		return "fails"
	}
	return "no (" + f.Why + ")"
}

// recorded compares the events of the recordings in two folders.
func (d *difference) recorded(testdata, ours string) error {
	kept, err := newestRecordings(testdata)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(kept)) {
		path, newest := kept[name], filepath.Join(ours, name+"@"+d.newest+".txtar")
		if _, err := os.Stat(newest); err != nil {
			d.unrecordable = append(d.unrecordable, name)
			continue
		}
		d.recordings++
		was, err := events(path)
		if err != nil {
			return err
		}
		is, err := events(newest)
		if err != nil {
			return err
		}
		to := filepath.Join(ours, name+".diff")
		lines, err := diff(was, is, to)
		if err != nil {
			return err
		}
		switch shown := fmt.Sprintf("%s: %d lines, in %s", name, lines, to); {
		case lines == 0:
		case renumbered(was, is):
			d.renumbered = append(d.renumbered, shown)
		default:
			d.changed = append(d.changed, shown)
		}
	}
	return nil
}

// newestRecordings returns the path of the newest recording of each
// conversation. Its keys are the names of the conversations, which may contain
// a folder. A recording may be older than the pin: a new version whose events
// are the same gets no recording.
func newestRecordings(testdata string) (map[string]string, error) {
	var paths []string
	err := filepath.WalkDir(testdata, func(path string, _ fs.DirEntry, err error) error {
		if strings.Contains(filepath.Base(path), "@") && strings.HasSuffix(path, ".txtar") {
			paths = append(paths, path)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	of := func(path string) (name string, version []int) {
		path = strings.TrimPrefix(path, testdata+string(filepath.Separator))
		name, rest, _ := strings.Cut(strings.TrimSuffix(path, ".txtar"), "@")
		for _, part := range strings.Split(rest, ".") {
			n, _ := strconv.Atoi(part) // 0 if part is no number
			version = append(version, n)
		}
		return name, version
	}
	newest := make(map[string]string)
	for _, path := range paths {
		name, version := of(path)
		if _, other := of(newest[name]); newest[name] == "" || slices.Compare(version, other) > 0 {
			newest[name] = path
		}
	}
	return newest, nil
}

// numbered matches words that differ in each run: numbers, and ids that contain
// a digit.
var numbered = regexp.MustCompile(`[\w.]*\d[\w.]*`)

// renumbered reports whether events differ at most in numbers and ids.
func renumbered(pinned, newest []byte) bool {
	return bytes.Equal(numbered.ReplaceAll(pinned, []byte("0")), numbered.ReplaceAll(newest, []byte("0")))
}

// diff writes the diff of two texts to the file to, unless they are equal, and
// returns how many lines were added or removed.
func diff(pinned, newest []byte, to string) (changes int, err error) {
	files := []string{to + ".0", to + ".1"}
	for i, text := range [][]byte{pinned, newest} {
		if err := os.WriteFile(files[i], text, 0o644); err != nil {
			return 0, err
		}
		defer os.Remove(files[i])
	}
	cmd := exec.CommandContext(context.Background(), "git", "diff", "--no-index", "--no-color", "--unified=1", "--", files[0], files[1])
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) { // exit code 1: the files differ
		return 0, fmt.Errorf("git diff: %w", err)
	}
	for line := range strings.Lines(string(out)) {
		if (line[0] == '+' || line[0] == '-') && !strings.HasPrefix(line, "+++") && !strings.HasPrefix(line, "---") {
			changes++
		}
	}
	if changes == 0 {
		return 0, nil
	}
	return changes, os.WriteFile(to, out, 0o644)
}

// events returns the events of a recording.
func events(path string) ([]byte, error) {
	a, err := txtar.ParseFile(path)
	if err != nil {
		return nil, err
	}
	return section(a, "want"), nil
}

func section(a *txtar.Archive, name string) []byte {
	for _, f := range a.Files {
		if f.Name == name {
			return f.Data
		}
	}
	return nil
}

// print writes the differences as text for the maintainer.
func (d difference) print(out io.Writer) {
	fmt.Fprintf(out, "\n%s %s, compared with the pinned %s\n", d.agent, d.newest, d.pinned)
	list := func(head string, lines []string) {
		if len(lines) > 0 {
			fmt.Fprintf(out, "  %s\n    %s\n", head, strings.Join(lines, "\n    "))
		}
	}
	switch {
	case d.noReport:
		fmt.Fprintln(out, "  conformance: the suite did not run to its end; see the output")
	case len(d.abilities)+len(d.results) == 0:
		fmt.Fprintln(out, "  conformance: the same results")
	default:
		list("conformance: other capabilities", d.abilities)
		list("conformance: other results", d.results)
	}
	fmt.Fprintf(out, "  recordings: %d of %d have other events, %d other numbers or ids only\n", len(d.changed), d.recordings, len(d.renumbered))
	list("events that differ", d.changed)
	list("numbers or ids that differ", d.renumbered)
	list("conversations that could not be recorded again; see the output", d.unrecordable)
	fmt.Fprintf(out, "  next: %s\n", d.next())
}
