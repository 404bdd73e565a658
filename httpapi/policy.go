package httpapi

import "net/http"

// policy is the content security policy of every answer. The page needs no
// inline scripts, no inline styles and nothing from other origins. Its only
// policy for trusted types makes the address of its service worker.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; " +
	"connect-src 'self'; font-src 'self'; manifest-src 'self'; worker-src 'self'; frame-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types worker"

// framed has the policies of the files that the page shows in a frame. Such a
// file is complete: it loads nothing, not even from this server. It has an
// origin of its own (sandbox), so its scripts reach neither the page nor what
// the page has stored. The page passes messages to it.
var framed = map[string]string{
	"frame/diagram.html": "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; font-src data:; " +
		"base-uri 'none'; form-action 'none'; frame-ancestors 'self'; sandbox allow-scripts",
}

// secure sets the headers that every answer has.
func secure(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// secureFile changes these headers for a file of the page that the page may
// show in a frame.
func secureFile(h http.Header, name string) {
	if own, ok := framed[name]; ok {
		h.Set("Content-Security-Policy", own)
		h.Set("X-Frame-Options", "SAMEORIGIN")
	}
}
