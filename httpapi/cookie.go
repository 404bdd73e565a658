package httpapi

import (
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/store"
)

// A browser's credential has two halves. The cookie, which scripts cannot read,
// goes to every port of this host; the key, which the page keeps for its origin
// and sends by itself, goes nowhere else. A request needs both.
const (
	cookieName  = "runnel_session"
	keyHeader   = "Runnel-Key"
	keyProtocol = "runnel.key." // before the key, among the subprotocols of a WebSocket
)

// pageKey returns the page's half of the credential that r presents. More than
// one is none.
func pageKey(r *http.Request) string {
	keys := r.Header.Values(keyHeader)
	if strings.EqualFold(r.Header.Get("Upgrade"), "websocket") { // a page cannot give it headers
		for _, list := range r.Header.Values("Sec-WebSocket-Protocol") {
			for p := range strings.SplitSeq(list, ",") {
				if key, ok := strings.CutPrefix(strings.TrimSpace(p), keyProtocol); ok {
					keys = append(keys, key)
				}
			}
		}
	}
	if len(keys) != 1 {
		return ""
	}
	return keys[0]
}

func (s *Server) cookie(r *http.Request, secret string, life time.Duration) *http.Cookie {
	return &http.Cookie{
		Name: cookieName, Value: secret, Path: "/", MaxAge: int(life / time.Second),
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil || s.cfg.Proxied,
	}
}

// renew records that a credential is used, and lets a browser's live longer.
func (s *Server) renew(w http.ResponseWriter, r *http.Request, id auth.Identity) {
	again, err := s.keys.Renew(r.Context(), id)
	if err != nil {
		s.log.LogAttrs(r.Context(), slog.LevelWarn, "credential not renewed", slog.String("error", bounded(err.Error())))
	}
	if again {
		http.SetCookie(w, s.cookie(r, r.CookiesNamed(cookieName)[0].Value, auth.BrowserLife))
	}
}

type (
	loginRequest struct {
		Code string `json:"code" doc:"the one-time code of the link"`
	}
	loginAnswer struct {
		Key string `json:"key" doc:"for the header Runnel-Key, without which the cookie counts for nothing; shown this once"`
	}
)

// login turns a one-time code into a cookie and a key. That a page of another site cannot
// log the browser in is the chain's doing: its Origin is not ours.
func (s *Server) login(w http.ResponseWriter, r *http.Request) error {
	if peerOf(r).Agent() { // a link may be found in a terminal, and is the user's
		return s.refuseAgent(r, "it may not log in")
	}
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
	http.SetCookie(w, s.cookie(r, secret.Cookie, auth.BrowserLife))
	s.answer(w, http.StatusOK, loginAnswer{secret.Key})
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
