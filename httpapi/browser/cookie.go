package browser

import (
	"net/http"
	"strings"
	"time"
)

// A browser's credential has two halves, and a request needs both. Scripts
// cannot read the cookie, but browsers send it to every port of this host. The
// page stores the key for its origin and sends it itself, so the key reaches no
// other origin.
const (
	CookieName  = "runnel_session"
	KeyHeader   = "Runnel-Key"
	KeyProtocol = "runnel.key." // prefix of the key among the subprotocols of a WebSocket
)

// PageKey returns the key in r, or "" if r has no key or more than one.
func PageKey(r *http.Request) string {
	keys := r.Header.Values(KeyHeader)
	if strings.EqualFold(r.Header.Get("Upgrade"), "websocket") { // a page cannot set its headers
		for _, list := range r.Header.Values("Sec-WebSocket-Protocol") {
			for p := range strings.SplitSeq(list, ",") {
				if key, ok := strings.CutPrefix(strings.TrimSpace(p), KeyProtocol); ok {
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

// A Cookies makes the cookies of browsers' credentials.
type Cookies struct {
	Proxied bool // a proxy in front of the server terminates TLS
}

// Make returns the cookie for the answer to r. It expires after life. Its path
// excludes the page's files: a browser may request these by itself, also while
// another program has our port, and must not send the cookie then.
func (c Cookies) Make(r *http.Request, secret string, life time.Duration) *http.Cookie {
	return &http.Cookie{
		Name: CookieName, Value: secret, Path: BaseOf(r) + "/api", MaxAge: int(life / time.Second),
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil || c.Proxied,
	}
}

// DropCookies removes the cookies from r, which may have a megabyte of them.
// They must not stay in memory while the answer waits to be written: over
// HTTP/2 they arrive as a few hundred bytes, and the client decides how long
// the answer waits.
func DropCookies(r *http.Request) { r.Header.Del("Cookie") }
