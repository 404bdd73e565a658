package reply

import (
	"net/http"
	"strconv"
)

// Number reads a query parameter that is a whole number of zero or more.
func Number(r *http.Request, name string, absent int64) (int64, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return absent, nil
	}
	return ParseNumber(name, text)
}

// ParseNumber reads a position or a count that a client named name.
func ParseNumber(name, text string) (int64, error) {
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return 0, Invalid(name + ": must be a whole number of zero or more")
	}
	return int64(n), nil
}
