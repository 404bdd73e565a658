package archtest

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestTestsThatTheRaceTierSkipsRunElsewhere checks that make test runs every
// test in some tier. The tier with the race detector skips the tests whose names
// DISKS matches, in all of its packages. Only the packages in TWICE also run
// without the race detector.
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
	elsewhere := []string{"DRIVERS", "BINARY", "SEQUENTIAL", "TWICE"}
	if slices.ContainsFunc(elsewhere, func(name string) bool {
		return slices.Contains(strings.Fields(variable(makefile, name)), "./"+path.Dir(file))
	}) {
		return nil
	}
	skipped, err := regexp.Compile(variable(makefile, "DISKS"))
	if err != nil || variable(makefile, "DISKS") == "" {
		return []string{fmt.Sprintf("the Makefile has no DISKS: %v", err)}
	}
	for _, m := range testFunction.FindAllStringSubmatch(src, -1) {
		if skipped.MatchString(m[1]) {
			problems = append(problems, file+": no tier of make test runs "+m[1]+", because DISKS matches it")
		}
	}
	return problems
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
	const makefile = "\nTWICE := ./store \\\n\t./sim\nDISKS := ^TestTorn$$\n"
	want(t, "a test that no tier runs", checkSkipped(makefile, "audit/log_test.go", "func TestTorn(t *testing.T) {}"), "no tier of make test runs TestTorn")
	for file, src := range map[string]string{
		"sim/sim_test.go":   "func TestTorn(t *testing.T) {}",
		"audit/log_test.go": "func TestTornHead(t *testing.T) {}",
	} {
		if problems := checkSkipped(makefile, file, src); problems != nil {
			t.Errorf("%s: %v", file, problems)
		}
	}
}
