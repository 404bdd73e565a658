package stream

import (
	"os"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/runnel-dev/runnel/auth"
)

// The page about streams lists exactly the codes with which the server closes a
// WebSocket.
func TestCloseCodesAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/streams.md")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range regexp.MustCompile(`(?m)^\| (\d{4}) \|`).FindAllStringSubmatch(string(page), -1) {
		got = append(got, m[1])
	}
	var want []string
	for _, cause := range []error{
		errShutdown, errProtocol, errUTF8, errFlood, errBroken, errBadFrame, auth.ErrEnded, errStalled, errTooLarge, errStore,
	} {
		code, _ := closeCode(cause)
		want = append(want, strconv.Itoa(int(code)))
	}
	if !slices.Equal(got, want) {
		t.Errorf("the page has %v, the server %v", got, want)
	}
}
