package httpapi

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/httpapi/access"
	"github.com/runnel-dev/runnel/httpapi/reply"
)

const (
	maxImports    = 2 // imports that run at once
	importTimeout = 10 * time.Minute
)

// imports counts the imports that run.
type imports struct{ running atomic.Int32 }

func (s *sessions) importRoutes() []route {
	return []route{
		{method: http.MethodPost, path: "/api/session/import", scope: auth.Send, bound: true, name: "importSession", summary: "Import an exported session",
			about: "The body is what GET /api/session/{id}/export?format=jsonl returned, unchanged. Creates a session with the same items, under a new id. A notice (SESSION_IMPORTED) at its end names the exported session. The agent does not know the imported turns: the first prompt begins a new conversation of the agent. A file that no export can have written is refused with INVALID_REQUEST, and the message names the line. The file may have at most 1 GiB, and counts towards max-upload-mib-per-credential.",
			params: []param{
				{name: "projectDir", doc: "Absolute path of the directory of the new session.", required: true},
				{name: "cliType", doc: "Kind of agent of the new session. Default: the one that the file names."},
			},
			status: http.StatusCreated, out: gateway.Imported{}, upload: true, serve: s.importSession,
			fails: []runnel.Code{runnel.UnsupportedCLIType, runnel.WorkingRootInaccessible, runnel.WorkingRootConflict, runnel.Overloaded}},
	}
}

// importSession accepts only a media type that no HTML form and no beacon can
// send.
func (s *sessions) importSession(w http.ResponseWriter, r *http.Request) error {
	if mt, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || mt != "application/octet-stream" {
		return reply.NewError(http.StatusUnsupportedMediaType, "send the file as it is, with Content-Type: application/octet-stream")
	}
	if r.ContentLength > gateway.MaxImport {
		return runnel.Fail(runnel.PayloadTooLarge, "the file is too large; it may have at most 1 GiB")
	}
	q := r.URL.Query()
	dir, err := access.Home(r.Context(), q.Get("projectDir"))
	if err != nil {
		return err
	}
	if err := s.maySession(r); err != nil {
		return err
	}
	defer s.imports.running.Add(-1)
	if s.imports.running.Add(1) > maxImports {
		return runnel.Fail(runnel.Overloaded, "other imports are running; try again when they have ended")
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(importTimeout))
	file := &importBody{r.Body, s, access.Caller(r.Context()).ID}
	done, err := gateway.ImportsOf(s.gw).Import(r.Context(), q.Get("cliType"), dir, file)
	if err != nil {
		return err
	}
	return reply.JSON(w, http.StatusCreated, done)
}

// An importBody counts the bytes of a file as uploaded by a credential. Its
// errors are safe to show.
type importBody struct {
	io.Reader
	s  *sessions
	id string // of the credential
}

func (b *importBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if !b.s.sent.spend(b.id, int64(n), b.s.limits.UploadBytes, uploadDay) {
		return 0, b.s.refuse("max-upload-mib-per-credential", b.s.limits.UploadBytes>>20, "this credential has uploaded as much as allowed in a day")
	}
	if _, safe := errors.AsType[*runnel.Error](err); err == nil || safe || err == io.EOF {
		return n, err
	}
	if errors.Is(err, auth.ErrEnded) {
		return n, err
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return n, reply.NewError(http.StatusRequestTimeout, "the file did not arrive in time; send it again")
	}
	return n, reply.NewError(http.StatusBadRequest, "the file did not arrive completely; send it again")
}
