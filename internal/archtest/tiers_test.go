package archtest

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestTestsThatTheRaceTierSkipsRunElsewhere checks that make test runs every
// test in some tier. The tier with the race detector skips, in all of its
// packages, the tests that UNRACED names. Without the race detector, only those of
// the packages in UNRACED_IN run.
func TestTestsThatTheRaceTierSkipsRunElsewhere(t *testing.T) {
	makefile := read(t, "Makefile")
	var problems []string
	goFiles(t, func(file string, src []byte) {
		problems = append(problems, checkSkipped(makefile, file, string(src))...)
	})
	report(t, problems)
}

func checkSkipped(makefile, file, src string) (problems []string) {
	if !strings.HasSuffix(file, "_test.go") {
		return nil
	}
	elsewhere := []string{"DRIVERS", "BINARY", "SEQUENTIAL", "PARTLY", "TWICE"}
	if slices.ContainsFunc(elsewhere, func(name string) bool { return lists(makefile, name, file) }) {
		return nil
	}
	unraced := strings.Fields(variable(makefile, "UNRACED"))
	for _, m := range testFunction.FindAllStringSubmatch(src, -1) {
		if slices.Contains(unraced, strings.TrimPrefix(m[1], "Test")) && !lists(makefile, "UNRACED_IN", file) {
			problems = append(problems, file+": no tier of make test runs "+m[1]+", because UNRACED names it")
		}
	}
	return problems
}

// TestTestsThatTheMakefileNamesExist checks that AT_ONCE names tests of each
// package in PARTLY, UNRACED of each in UNRACED_IN, and MEMORY of each in
// MEASURED. make test would not notice if it ran no test there.
func TestTestsThatTheMakefileNamesExist(t *testing.T) {
	makefile := read(t, "Makefile")
	files := map[string]string{}
	goFiles(t, func(file string, src []byte) { files[file] = string(src) })
	var problems []string
	for tests, packages := range map[string]string{"AT_ONCE": "PARTLY", "UNRACED": "UNRACED_IN", "MEMORY": "MEASURED"} {
		problems = append(problems, checkNamed(makefile, tests, packages, files)...)
	}
	report(t, problems)
}

// checkNamed checks that each name in the variable tests belongs to a test of a
// package in the variable packages, and that each of these has such a test.
func checkNamed(makefile, tests, packages string, files map[string]string) (problems []string) {
	names := strings.Fields(variable(makefile, tests))
	found, folders := map[string]bool{}, map[string]bool{}
	for file, src := range files {
		if !strings.HasSuffix(file, "_test.go") || !lists(makefile, packages, file) {
			continue
		}
		for _, m := range testFunction.FindAllStringSubmatch(src, -1) {
			if name := strings.TrimPrefix(m[1], "Test"); slices.Contains(names, name) {
				found[name], folders["./"+path.Dir(file)] = true, true
			}
		}
	}
	for _, name := range names {
		if !found[name] {
			problems = append(problems, tests+" names Test"+name+", but no package in "+packages+" has this test")
		}
	}
	for _, folder := range strings.Fields(variable(makefile, packages)) {
		if !folders[folder] {
			problems = append(problems, folder+": "+tests+" names no test of this package")
		}
	}
	return problems
}

// lists reports whether a variable of the Makefile contains the file's package.
func lists(makefile, name, file string) bool {
	return slices.Contains(strings.Fields(variable(makefile, name)), "./"+path.Dir(file))
}

var testFunction = regexp.MustCompile(`(?m)^func (Test\w+)\(`)

// variable returns the value of a variable of the Makefile, in which $$ is a
// dollar sign.
func variable(makefile, name string) string {
	_, rest, _ := strings.Cut(makefile, "\n"+name+" := ")
	rest = strings.ReplaceAll(rest, "\\\n", " ")
	value, _, _ := strings.Cut(rest, "\n")
	return strings.ReplaceAll(value, "$$", "$")
}

func TestSeededSkippedTest(t *testing.T) {
	const makefile = "\nTWICE := ./store \\\n\t./sim\nUNRACED := Large \\\n\tSlow\nUNRACED_IN := ./api\n"
	want(t, "a test that no tier runs", checkSkipped(makefile, "audit/log_test.go", "func TestSlow(t *testing.T) {}"), "no tier of make test runs TestSlow")
	for file, src := range map[string]string{
		"sim/sim_test.go":   "func TestSlow(t *testing.T) {}",
		"audit/log_test.go": "func TestSlower(t *testing.T) {}",
		"api/api_test.go":   "func TestSlow(t *testing.T) {}",
	} {
		if problems := checkSkipped(makefile, file, src); problems != nil {
			t.Errorf("%s: %v", file, problems)
		}
	}
}

func TestSeededTestThatTheMakefileNames(t *testing.T) {
	const makefile = "\nPARTLY := ./changes \\\n\t./files\nAT_ONCE := Waits \\\n\tLists\n"
	files := map[string]string{
		"changes/run_test.go": "func TestWaits(t *testing.T) {}",
		"files/list_test.go":  "func TestLists(t *testing.T) {}",
	}
	check := func(makefile string) []string { return checkNamed(makefile, "AT_ONCE", "PARTLY", files) }
	if problems := check(makefile); problems != nil {
		t.Error(problems)
	}
	want(t, "a test that does not exist", check(strings.Replace(makefile, "Waits", "Waits Gone", 1)), "AT_ONCE names TestGone")
	want(t, "a package without such a test", check(strings.Replace(makefile, "./files", "./files ./audit", 1)), "./audit: AT_ONCE names no test")
	files["audit/list_test.go"] = files["files/list_test.go"]
	delete(files, "files/list_test.go")
	want(t, "a test of another package", check(makefile), "AT_ONCE names TestLists")
}
