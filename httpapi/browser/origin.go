package browser

import (
	"net/http"
	"slices"
	"strings"

	"github.com/runnel-dev/runnel"
)

// Origins decides which pages may send requests to the server.
type Origins struct {
	own, cors []string
	secure    map[string]bool // hosts of own origins with TLS, with and without a default port of HTTP or HTTPS
	second    *http.CrossOriginProtection
}

// NewOrigins returns the Origins that accept own, further origins of the page,
// and cors, origins of other pages that send a bearer token. They always accept
// the origin under which a request reaches the server.
func NewOrigins(own, cors []string) (*Origins, error) {
	o := &Origins{nil, cors, map[string]bool{}, http.NewCrossOriginProtection()}
	for _, origin := range own {
		u, err := parseOrigin(origin)
		if err != nil {
			return nil, err
		}
		origin = u.Scheme + "://" + u.Host // without a path, as browsers send it
		o.own = append(o.own, origin)
		if host, ok := strings.CutPrefix(origin, "https://"); ok {
			o.secure[host], o.secure[host+":80"], o.secure[host+":443"] = true, true, true
		}
	}
	for _, origin := range slices.Concat(o.own, cors) {
		if err := o.second.AddTrustedOrigin(origin); err != nil {
			return nil, err
		}
	}
	return o, nil
}

// Judge decides whether the page that sent r may talk to the server. It runs
// after the check of the Host, whose verdict is host. It runs for every method,
// because a WebSocket upgrade is a GET.
//
// An Origin header must be the server's own origin, byte for byte, or one that
// the operator listed. A cookie counts only under a Host of the page, and only
// with proof that the page itself sent the request. Programs and the pages of
// other origins send a bearer token instead.
func (o *Origins) Judge(r *http.Request, host Verdict) error {
	own := scheme(r) + "://" + strings.ToLower(r.Host)
	if r.TLS == nil && o.secure[strings.ToLower(r.Host)] {
		own = "https://" + strings.ToLower(r.Host) // a proxy terminates TLS, so http with this host is another origin
	}
	origins, site := r.Header.Values("Origin"), r.Header.Values("Sec-Fetch-Site")
	if len(origins) > 1 || len(site) > 1 {
		return Forbidden("the request names more than one origin")
	}
	ours := len(origins) == 1 && (origins[0] == own || slices.Contains(o.own, origins[0]))
	if len(origins) == 1 && !ours && !slices.Contains(o.cors, origins[0]) {
		return Forbidden("requests from this page are not allowed")
	}
	if len(origins) == 0 && len(site) == 1 && site[0] != "same-origin" && !navigates(r, site[0]) {
		return Forbidden("requests from other sites are not allowed")
	}
	if err := o.second.Check(r); err != nil { // a second check of requests that change state
		return Forbidden("requests from this page are not allowed")
	}
	if !presentsCookie(r) {
		return nil
	}
	switch {
	case host != HostOfPage:
		return NotOfPage()
	case len(site) == 1 && site[0] == "same-origin" && (ours || len(origins) == 0):
	case len(site) == 1 && site[0] == "none" && len(origins) == 0 && navigates(r, site[0]):
	case len(site) == 0 && ours: // browsers that send no Sec-Fetch-Site with a WebSocket upgrade
	default:
		return Forbidden("cookies are accepted only from runnel's own page; send a bearer token instead")
	}
	return nil
}

// navigates reports whether a person opened r as a page of its own, for example
// with a link. Such a request from another site must have no cookie. Browsers
// send none, because our cookie is SameSite=Strict.
func navigates(r *http.Request, site string) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) &&
		r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document" &&
		(site == "none" || !presentsCookie(r))
}

// CORS lets only pages of the origins that the operator listed read the answer.
// By default no origin is listed. It returns true if r was a preflight request,
// which CORS has then answered.
func (o *Origins) CORS(w http.ResponseWriter, r *http.Request) bool {
	if len(o.cors) == 0 {
		return false
	}
	w.Header().Add("Vary", "Origin")
	origin := r.Header.Get("Origin")
	if !slices.Contains(o.cors, origin) {
		return false
	}
	w.Header().Set("Access-Control-Allow-Origin", origin)
	w.Header().Set("Access-Control-Expose-Headers", "Idempotency-Replayed, Retry-After")
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	w.Header().Set("Access-Control-Allow-Methods", "GET, POST, DELETE")
	w.Header().Set("Access-Control-Allow-Headers", "Authorization, Content-Type, Idempotency-Key, Last-Event-ID")
	w.Header().Set("Access-Control-Max-Age", "600")
	w.WriteHeader(http.StatusNoContent)
	return true
}

func scheme(r *http.Request) string {
	if r.TLS != nil {
		return "https"
	}
	return "http"
}

func presentsCookie(r *http.Request) bool { return len(r.CookiesNamed(CookieName)) > 0 }

// Forbidden returns the error for a request that a page of another site may
// have sent.
func Forbidden(message string) error { return runnel.Fail(runnel.ForbiddenOrigin, message) }

// NotOfPage returns the error for a request that concerns the page, its login
// or its cookie, under a Host that is not the page's. Other programs may have
// used that Host before.
func NotOfPage() error {
	return Forbidden("the page and its login are not available at this address: open the link that `runnel login` prints; a proxy must pass on the Host header of an origin given with --origin")
}
