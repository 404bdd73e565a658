package httpapi

import (
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/store"
)

// cookieName is that of the browser's credential.
const cookieName = "runnel_session"

func (s *Server) cookie(r *http.Request, secret string, life time.Duration) *http.Cookie {
	return &http.Cookie{
		Name: cookieName, Value: secret, Path: "/", MaxAge: int(life / time.Second),
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil || s.cfg.Proxied,
	}
}

// renew records that a credential is used, and lets a browser's live longer.
func (s *Server) renew(w http.ResponseWriter, r *http.Request, id auth.Identity, secret string) {
	again, err := s.keys.Renew(r.Context(), id)
	if err != nil {
		s.log.LogAttrs(r.Context(), slog.LevelWarn, "credential not renewed", slog.String("error", bounded(err.Error())))
	}
	if again {
		http.SetCookie(w, s.cookie(r, secret, auth.BrowserLife))
	}
}

type loginRequest struct {
	Code string `json:"code" doc:"the one-time code of the link"`
}

// login turns a one-time code into a cookie. That a page of another site cannot
// log the browser in is the chain's doing: its Origin is not ours.
func (s *Server) login(w http.ResponseWriter, r *http.Request) error {
	var in loginRequest
	if err := s.decode(w, r, &in); err != nil {
		return err
	}
	secret, _, err := s.keys.Redeem(r.Context(), in.Code, remote(r))
	switch {
	case errors.Is(err, auth.ErrThrottled):
		return runnel.Fail(runnel.RateLimited, "too many wrong codes from this address; wait a minute")
	case errors.Is(err, auth.ErrInvalid):
		return runnel.Fail(runnel.Unauthorized, "this link was used already or is older than a minute; make a new one with `runnel login`")
	case err != nil:
		return runnel.Fail(runnel.StoreUnavailable, "the login cannot be recorded now; see the server's log", err)
	}
	http.SetCookie(w, s.cookie(r, secret, auth.BrowserLife))
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// logout ends the credential that r came with, if it is a browser's.
func (s *Server) logout(w http.ResponseWriter, r *http.Request) error {
	id := caller(r.Context())
	if id.Kind == store.TokenBrowser {
		if err := s.keys.Revoke(r.Context(), id.ID); err != nil && !errors.Is(err, store.ErrNotFound) {
			return runnel.Fail(runnel.StoreUnavailable, "the logout cannot be recorded now; see the server's log", err)
		}
		gone := s.cookie(r, "", 0)
		gone.MaxAge = -1
		http.SetCookie(w, gone)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
