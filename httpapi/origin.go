package httpapi

import (
	"net/http"
	"slices"
	"strings"

	"github.com/runnel-dev/runnel"
)

// judgeOrigin decides whether the page that made r may talk to us. It runs
// after the Host was accepted, and on every method: a WebSocket upgrade is a GET.
//
// A present Origin must be our own, byte for byte, or one the operator listed.
// A cookie is believed only with proof that our own page sent the request;
// listed origins and programs present a bearer token.
func (s *Server) judgeOrigin(r *http.Request) error {
	own := s.scheme(r) + "://" + strings.ToLower(r.Host)
	origins, site := r.Header.Values("Origin"), r.Header.Values("Sec-Fetch-Site")
	if len(origins) > 1 || len(site) > 1 {
		return forbidden("the request names more than one origin")
	}
	ours := len(origins) == 1 && (origins[0] == own || slices.Contains(s.cfg.Origins, origins[0]))
	if len(origins) == 1 && !ours && !slices.Contains(s.cfg.CORSOrigins, origins[0]) {
		return forbidden("requests from this page are not allowed")
	}
	if len(origins) == 0 && len(site) == 1 && site[0] != "same-origin" && !navigates(r, site[0]) {
		return forbidden("requests from other sites are not allowed")
	}
	if err := s.crossOrigin.Check(r); err != nil { // a second opinion on what changes state
		return forbidden("requests from this page are not allowed")
	}
	if !presentsCookie(r) {
		return nil
	}
	switch {
	case len(site) == 1 && site[0] == "same-origin" && (ours || len(origins) == 0):
	case len(site) == 1 && site[0] == "none" && len(origins) == 0 && navigates(r, site[0]):
	case len(site) == 0 && ours: // browsers that send no metadata with an upgrade
	default:
		return forbidden("a cookie counts only in requests of runnel's own page; programs use a bearer token")
	}
	return nil
}

// navigates reports whether a person opened r as a page of its own. From
// another site it brings no cookie along, since ours is SameSite=Strict.
func navigates(r *http.Request, site string) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) &&
		r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document" &&
		(site == "none" || !presentsCookie(r))
}

// cors answers for the origins the operator listed, exactly; for all others,
// and by default, there is nothing to say. It reports whether r was a preflight
// that is now answered.
func (s *Server) cors(w http.ResponseWriter, r *http.Request) bool {
	if len(s.cfg.CORSOrigins) == 0 {
		return false
	}
	w.Header().Add("Vary", "Origin")
	origin := r.Header.Get("Origin")
	if !slices.Contains(s.cfg.CORSOrigins, origin) {
		return false
	}
	w.Header().Set("Access-Control-Allow-Origin", origin)
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	w.Header().Set("Access-Control-Allow-Methods", "GET, POST, DELETE")
	w.Header().Set("Access-Control-Allow-Headers", "Authorization, Content-Type, Last-Event-ID")
	w.Header().Set("Access-Control-Max-Age", "600")
	w.WriteHeader(http.StatusNoContent)
	return true
}

func (s *Server) scheme(r *http.Request) string {
	if r.TLS != nil {
		return "https"
	}
	return "http"
}

func presentsCookie(r *http.Request) bool { return len(r.CookiesNamed(cookieName)) > 0 }

func forbidden(message string) error { return runnel.Fail(runnel.ForbiddenOrigin, message) }
