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

// Flag reads a query parameter that is true or false; absent is false. As in
// the flags of the command line 1 and 0 mean the same.
func Flag(r *http.Request, name string) (bool, error) {
	switch r.URL.Query().Get(name) {
	case "true", "1":
		return true, nil
	case "", "false", "0":
		return false, nil
	}
	return false, Invalid(name + ": must be true or false")
}
