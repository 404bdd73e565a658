package conns

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/httpapi/reply"
)

// answer returns a complete HTTP response with an error. It announces that the
// connection closes.
func answer(status int, err *runnel.Error) []byte {
	body, _ := json.Marshal(reply.ErrorBody{Error: reply.Problem{Type: err.Code, Message: err.Message}}) // cannot fail: two strings
	body = append(body, '\n')
	head := fmt.Sprintf("HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"+
		"Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n", status, http.StatusText(status), len(body))
	return append([]byte(head), body...)
}

// full returns the response to a connection beyond the limit of a setting.
func full(setting string, limits Limits) []byte {
	limit := limits.Open
	if setting == MaxUnauthenticatedConnections {
		limit = limits.Unauthenticated
	}
	return answer(http.StatusServiceUnavailable, runnel.Fail(runnel.Overloaded,
		fmt.Sprintf("the server has as many connections as allowed (%s: %d), and all are in use; try again, or raise the setting", setting, limit)))
}

// plainHead is the middle of the responses that net/http itself writes to
// requests that it cannot parse. A status line precedes it, and the status in
// words follows.
const plainHead = "\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"

// inShape converts a response that net/http itself has written to an error in
// the form of the API. It reports false for all other bytes.
func inShape(p []byte) ([]byte, bool) {
	line, said, ok := bytes.Cut(p, []byte(plainHead))
	words, http11 := bytes.CutPrefix(line, []byte("HTTP/1.1 "))
	if !ok || !http11 || len(words) < 3 || bytes.Contains(words, []byte("\r\n")) {
		return nil, false
	}
	status, err := strconv.Atoi(string(words[:3]))
	if err != nil {
		return nil, false
	}
	return answer(status, runnel.Fail(runnel.InvalidRequest, explain(status, said))), true
}

func explain(status int, said []byte) string {
	switch status {
	case http.StatusBadRequest:
		if _, detail, ok := bytes.Cut(said, []byte(": ")); ok {
			return "the request is not valid HTTP: " + string(detail)
		}
		return "the request is not valid HTTP; in a path, write a percent sign as %25"
	case http.StatusRequestHeaderFieldsTooLarge:
		return "the headers of the request are too large"
	}
	return "the request cannot be served: " + string(said)
}
