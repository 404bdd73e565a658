package httpapi

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/fstest"
)

// A goneWriter is the connection of a client that has disconnected.
type goneWriter struct{ http.ResponseWriter }

func (goneWriter) Write([]byte) (int, error) { return 0, errors.New("client disconnected") }

// Any client can send these requests without a credential and reset them. If
// each were an error, each would add a line to the log.
func TestClientThatIsGoneIsNoErrorWithoutACredential(t *testing.T) {
	a := &about{document: func() ([]byte, error) { return []byte("{}"), nil }}
	for name, serve := range map[string]func(http.ResponseWriter, *http.Request) error{
		"openapi": a.serveDocument, "docs": a.serveDocs,
		"page": newPage(fstest.MapFS{"index.html": {Data: []byte("page")}}).file("index.html"),
	} {
		r := httptest.NewRequest("GET", "/", nil)
		if err := serve(goneWriter{httptest.NewRecorder()}, r); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
