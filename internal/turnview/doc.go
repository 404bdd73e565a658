// Package turnview shows the events of a session as lines for a terminal.
//
// A View folds events into finished lines, which scroll away, and live lines,
// which change: the end of the text that the agent writes, the calls that run,
// and a status. All text of agents is made safe by package termtext.
package turnview

import (
	"strings"

	"github.com/runnel-dev/runnel/internal/livescreen"
	"github.com/runnel-dev/runnel/internal/termtext"
	"github.com/runnel-dev/runnel/internal/text"
)

// oneLine turns untrusted text into one line of at most n characters.
func oneLine(s string, n int) string {
	return text.ShortenRunes(strings.Join(strings.Fields(termtext.Clean(s)), " "), n)
}

// rows splits untrusted text into lines without tabs.
func rows(s string) (out []string) {
	for line := range strings.Lines(termtext.Clean(s)) {
		out = append(out, livescreen.Untab(strings.TrimSuffix(line, "\n")))
	}
	return out
}

// outputRows is [rows] for the output of a program, which may have replaced
// parts of its lines.
func outputRows(s string) []string { return rows(overwritten(s)) }

// overwritten applies the carriage returns and backspaces with which programs
// replace a part of a line, such as the progress that they report.
func overwritten(s string) string {
	if !strings.ContainsAny(s, "\r\b") {
		return s
	}
	var out strings.Builder
	for line := range strings.Lines(s) {
		text, end := strings.CutSuffix(line, "\n")
		text = strings.TrimRight(text, "\r")
		text = text[strings.LastIndexByte(text, '\r')+1:]
		var kept []rune
		for _, r := range text {
			if r != '\b' {
				kept = append(kept, r)
			} else if len(kept) > 0 {
				kept = kept[:len(kept)-1]
			}
		}
		out.WriteString(string(kept))
		if end {
			out.WriteByte('\n')
		}
	}
	return out.String()
}

// lastRow returns the last line of untrusted text that is not blank.
func lastRow(s string) string {
	const enough = 4 << 10 // bytes at the end that are searched
	if len(s) > enough {
		s = s[len(s)-enough:]
	}
	all := outputRows(s)
	for i := len(all) - 1; i >= 0; i-- {
		if line := strings.TrimSpace(all[i]); line != "" {
			return line
		}
	}
	return ""
}
