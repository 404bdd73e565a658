package browser

import (
	"context"
	"net/http"
	"strings"
)

type baseKey struct{}

// WithoutBase returns r without the path below which a proxy serves the page at
// the Host of r, if the page has such a path there. A proxy may also have
// removed the path already. [BaseOf] returns the path.
func (h Hosts) WithoutBase(r *http.Request) *http.Request {
	base := h.pages[strings.ToLower(r.Host)]
	if base == "" {
		return r
	}
	r = r.WithContext(context.WithValue(r.Context(), baseKey{}, base))
	path, ok := strings.CutPrefix(r.URL.Path, base+"/")
	raw, rawOK := strings.CutPrefix(r.URL.RawPath, base+"/")
	if !ok || r.URL.RawPath != "" && !rawOK { // a path with escaped letters of base is none of the page
		return r
	}
	u := *r.URL
	u.Path = "/" + path
	if u.RawPath != "" {
		u.RawPath = "/" + raw
	}
	r.URL = &u
	return r
}

// BaseOf returns the path below which a proxy serves the page to which r, from
// [Hosts.WithoutBase], was sent: without a slash at its end, and "" for none.
func BaseOf(r *http.Request) string {
	base, _ := r.Context().Value(baseKey{}).(string)
	return base
}
