package turnview

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/subpath"
)

// Duration returns a time for people, such as "320 ms", "4.1 s", "12 s", "2 min
// 5 s" or "1 h 4 min".
func Duration(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", max(d, 0).Milliseconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Truncate(100*time.Millisecond).Seconds())
	}
	return Elapsed(d)
}

// Elapsed is [Duration] in whole seconds, for a time that is still growing.
func Elapsed(d time.Duration) string {
	s := int(max(d, 0).Seconds())
	h, m := s/3600, s/60%60
	switch {
	case s < 60:
		return fmt.Sprintf("%d s", s)
	case h > 0 && m > 0:
		return fmt.Sprintf("%d h %d min", h, m)
	case h > 0:
		return fmt.Sprintf("%d h", h)
	case s%60 > 0:
		return fmt.Sprintf("%d min %d s", m, s%60)
	}
	return fmt.Sprintf("%d min", m)
}

// Tokens returns the number of all tokens of a usage, such as "950 tokens" or
// "12.3k tokens"; "" if there are none.
func Tokens(u *event.Usage) string {
	if u == nil {
		return ""
	}
	n := u.InputTokens + u.OutputTokens + u.CacheReadInputTokens + u.CacheCreationInputTokens
	if n == 0 {
		return ""
	}
	return count(n) + " tokens"
}

// count returns a number for people, such as 950, 12.3k or 1.2M.
func count(n int64) string {
	short := func(f float64, unit string) string {
		return strings.TrimSuffix(strconv.FormatFloat(f, 'f', 1, 64), ".0") + unit
	}
	switch {
	case n < 1000:
		return strconv.FormatInt(n, 10)
	case n < 999_950:
		return short(float64(n)/1e3, "k")
	}
	return short(float64(n)/1e6, "M")
}

// Cost returns an amount of money for people, such as "$0.0042" or "$1.20".
func Cost(usd float64) string {
	if usd < 0.01 {
		return fmt.Sprintf("$%.4f", usd)
	}
	return fmt.Sprintf("$%.2f", usd)
}

// plural returns a number with the singular or plural of a noun.
func plural(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + one + "s"
}

// shortPath returns the path relative to dir if it is inside, otherwise the
// path.
func shortPath(path, dir string) string {
	if dir == "" || !filepath.IsAbs(path) || !subpath.Within(path, dir) {
		return path
	}
	if rel, err := filepath.Rel(dir, path); err == nil && rel != "." {
		return rel
	}
	return path
}
