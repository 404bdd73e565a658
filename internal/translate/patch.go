package translate

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/runnel-dev/runnel/event"
)

// hunkHead matches the first line of a hunk, such as "@@ -1,3 +1,4 @@".
var hunkHead = regexp.MustCompile(`^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@`)

// Hunks decodes a unified diff of one file. It drops lines outside of hunks,
// such as file names. It never returns nil.
func Hunks(diff string) []event.Hunk {
	hunks := []event.Hunk{}
	var open *event.Hunk
	before, after := 0, 0 // lines still missing in the open hunk
	for line := range strings.Lines(diff) {
		line = strings.TrimSuffix(line, "\n")
		if m := hunkHead.FindStringSubmatch(line); m != nil {
			hunks = append(hunks, event.Hunk{
				OldStart: count(m[1]), OldLines: count(m[2]), NewStart: count(m[3]), NewLines: count(m[4]), Lines: []string{},
			})
			open = &hunks[len(hunks)-1]
			before, after = open.OldLines, open.NewLines
			continue
		}
		if line == "" && before > 0 && after > 0 { // an unchanged empty line whose space was trimmed
			line = " "
		}
		if open == nil || line == "" || !strings.ContainsRune(" +-", rune(line[0])) {
			continue
		}
		open.Lines = append(open.Lines, line)
		if line[0] != '+' {
			before--
		}
		if line[0] != '-' {
			after--
		}
	}
	return hunks
}

// count decodes a number in a hunk's first line. It returns 1 for a missing
// number and 0 for a number that is too large.
func count(digits string) int {
	if digits == "" {
		return 1
	}
	n, err := strconv.Atoi(digits)
	if err != nil {
		return 0
	}
	return n
}
