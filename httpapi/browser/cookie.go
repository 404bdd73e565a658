package browser

import (
	"net/http"
	"strings"
	"time"
)

// A browser's credential has two halves. The cookie, which scripts cannot read,
// goes to every port of this host; the key, which the page keeps for its origin
// and sends by itself, goes nowhere else. A request needs both.
const (
	CookieName  = "runnel_session"
	KeyHeader   = "Runnel-Key"
	KeyProtocol = "runnel.key." // before the key, among the subprotocols of a WebSocket
)

// PageKey returns the page's half of the credential in r; "" if there is none
// or more than one.
func PageKey(r *http.Request) string {
	keys := r.Header.Values(KeyHeader)
	if strings.EqualFold(r.Header.Get("Upgrade"), "websocket") { // a page cannot give it headers
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

// A Cookies makes the cookies of the page.
type Cookies struct {
	Proxied bool // a proxy in front of the server speaks TLS
}

// Make returns the cookie for the answer to r. It expires after life. Requests
// for the page's files are sent without it: the browser may send them by itself
// while another program has our port.
func (c Cookies) Make(r *http.Request, secret string, life time.Duration) *http.Cookie {
	return &http.Cookie{
		Name: CookieName, Value: secret, Path: "/api", MaxAge: int(life / time.Second),
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil || c.Proxied,
	}
}
