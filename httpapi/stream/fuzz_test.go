package stream

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel/httpapi/reply"
)

// A cursor is a whole number of zero or more in plain digits; anything else is
// rejected. (J07)
func FuzzCursor(f *testing.F) {
	for _, c := range []string{"", "0", "1", "-1", "+1", "007", "9223372036854775807", "9223372036854775808", "1.0", "1e3", " 1", "1 ", "0x1", "1_000", "١", "\x00"} {
		f.Add(c)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r := &http.Request{Header: http.Header{"Last-Event-Id": {text}}, URL: &url.URL{RawQuery: url.Values{"after": {text}}.Encode()}}
		byHeader, err := cursor(r)
		byQuery, err2 := reply.Number(r, "after", 0)
		if byHeader != byQuery || (err == nil) != (err2 == nil) {
			t.Fatalf("%q: %d, %v as header and %d, %v as query", text, byHeader, err, byQuery, err2)
		}
		if err != nil {
			return
		}
		plain := strings.TrimLeft(text, "0")
		if byHeader < 0 || fmt.Sprint(byHeader) != plain && !(byHeader == 0 && plain == "") {
			t.Fatalf("%q was read as %d", text, byHeader)
		}
	})
}
