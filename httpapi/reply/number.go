package reply

import (
	"net/http"
	"strconv"
)

// Number returns the value of a query parameter that is a whole number of zero
// or more. If r does not have the parameter, Number returns absent.
func Number(r *http.Request, name string, absent int64) (int64, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return absent, nil
	}
	return ParseNumber(name, text)
}

// ParseNumber parses a position or a count, a whole number of zero or more.
// name is the name of the number in the error.
func ParseNumber(name, text string) (int64, error) {
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return 0, Invalid(name + ": must be a whole number of zero or more")
	}
	return int64(n), nil
}

// Flag returns a query parameter that is true or false, or false if r does not
// have it. It also accepts 1 and 0, as flags of the command line do.
func Flag(r *http.Request, name string) (bool, error) {
	switch r.URL.Query().Get(name) {
	case "true", "1":
		return true, nil
	case "", "false", "0":
		return false, nil
	}
	return false, Invalid(name + ": must be true or false")
}
