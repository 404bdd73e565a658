package httpapi

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/runnel-dev/runnel/gateway"
)

// The script of codedPage, as it is and as the build stored it. The content of
// the files with a coding does not matter to the server.
const (
	plainScript  = "export {} // as it is, the longest of the three"
	gzipScript   = "the script in gzip"
	brotliScript = "the script in br"
)

// codedPage is a built page whose script is stored in every coding.
func codedPage() fstest.MapFS {
	files := builtPage()
	for name, data := range map[string]string{"": plainScript, ".gz": gzipScript, ".br": brotliScript} {
		files["assets/app-1.js"+name] = &fstest.MapFile{Data: []byte(data)}
	}
	return files
}

func newCodedRig(t *testing.T) *rig {
	return newRig(t, func(c *Config, _ *gateway.Config) { c.UI = codedPage() })
}

func accept(codings string) func(*http.Request) { return header("Accept-Encoding", codings) }

func TestFileIsServedInThePreferredCoding(t *testing.T) {
	rg := newCodedRig(t)
	script := scriptOf(rg)
	for _, tt := range []struct{ accept, want string }{
		{"", "identity"},
		{"gzip", "gzip"},
		{"x-gzip", "gzip"},
		{"br", "br"},
		{"BR", "br"},
		{"gzip, deflate, br, zstd", "br"},
		{"gzip,deflate,br", "br"},
		{"deflate, zstd", "identity"},
		{"br;q=0.5, gzip", "gzip"},
		{"br;q=0.5,gzip;q=0.7", "gzip"},
		{"br ; q=0.5 , gzip ; Q=0.5", "br"},
		{"br;q=0, gzip", "gzip"},
		{"br;q=0.000, gzip;q=0", "identity"},
		{"br;q=0.001", "br"},
		{"*", "br"},
		{"*;q=0.5, br;q=0", "gzip"},
		{"*;q=0.5, gzip", "gzip"},
		{"identity", "identity"},
		{"identity, br", "br"},
		{"identity;q=1, br;q=0.9", "identity"},
		{"identity;q=0.5, *;q=0", "identity"},
		{"identity;q=0, br", "br"},
		{"identity;q=0, *", "br"},
		{"*;q=0, gzip", "gzip"},
		{"identity;q=0", "none"},
		{"*;q=0", "none"},
		{"br;q=0, gzip;q=0, identity;q=0", "none"},
		{"deflate, identity;q=0", "none"},
		{"br;q=2, gzip", "gzip"}, // a coding with an invalid weight is not used
		{"br;q=-1, gzip", "gzip"},
		{"br;q=NaN, gzip", "gzip"},
		{"br;q=, gzip", "gzip"},
		{"br;level=1, gzip", "gzip"},
		{"broken, ;;, =, br", "br"},
	} {
		w := rg.do("GET", script, "", anonymous, accept(tt.accept))
		got := w.Header().Get("Content-Encoding")
		if w.Code == http.StatusNotAcceptable {
			got = "none"
		} else if got == "" {
			got = "identity"
		}
		body := map[string]string{"identity": plainScript, "gzip": gzipScript, "br": brotliScript, "none": w.Body.String()}[got]
		if got != tt.want || w.Body.String() != body || w.Code != http.StatusOK && tt.want != "none" {
			t.Errorf("Accept-Encoding %q: got %d in %s, want %s: %s", tt.accept, w.Code, got, tt.want, w.Body)
		}
		if vary := w.Header().Get("Vary"); vary != "Accept-Encoding" {
			t.Errorf("Accept-Encoding %q: Vary %q", tt.accept, vary)
		}
	}
	two := rg.do("GET", script, "", anonymous, accept("gzip"), addHeader("Accept-Encoding", "br"))
	if got := two.Header().Get("Content-Encoding"); got != "br" {
		t.Errorf("two headers: got %q", got)
	}
	if none := rg.do("GET", script, "", anonymous); none.Header().Get("Content-Encoding") != "" || none.Body.String() != plainScript {
		t.Errorf("no header: got %v %s", none.Header(), none.Body)
	}
}

// A file that the build stored in no coding is served as it is.
func TestFileWithoutCodingIsServedAsItIs(t *testing.T) {
	rg := newCodedRig(t)
	for _, at := range []string{"/", "/favicon.svg", strings.Replace(scriptOf(rg), ".js", ".css", 1)} {
		w := rg.do("GET", at, "", anonymous, accept("br, gzip"))
		if h := w.Header(); w.Code != http.StatusOK || h.Get("Content-Encoding") != "" || h.Get("Vary") != "Accept-Encoding" || h.Get("Content-Length") != fmt.Sprint(w.Body.Len()) {
			t.Errorf("%s: got %d %v", at, w.Code, h)
		}
	}
}

func TestStoredCodingsHaveNoAddress(t *testing.T) {
	rg := newRig(t, func(c *Config, _ *gateway.Config) {
		files := codedPage()
		files["favicon.svg.gz"] = &fstest.MapFile{Data: []byte("gzip")}
		c.UI = files
	})
	for _, ext := range []string{".br", ".gz"} {
		if w := rg.do("GET", scriptOf(rg)+ext, "", anonymous); w.Code != http.StatusNotFound {
			t.Errorf("the script%s: got %d %s", ext, w.Code, w.Body)
		}
	}
	if w := rg.do("GET", "/favicon.svg.gz", ""); w.Code != http.StatusNotFound {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
	if w := rg.do("GET", "/favicon.svg", "", anonymous, accept("gzip")); w.Body.String() != "gzip" {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

// Each coding of a file is a representation with its own headers.
func TestEveryCodingHasItsOwnHeaders(t *testing.T) {
	rg := newCodedRig(t)
	script := scriptOf(rg)
	tags := make(map[string]string)
	for c, body := range map[string]string{"identity": plainScript, "gzip": gzipScript, "br": brotliScript} {
		w := rg.do("GET", script, "", anonymous, accept(c))
		h := w.Header()
		tag := h.Get("ETag")
		if other, taken := tags[tag]; taken || len(tag) < 20 || tag[0] != '"' {
			t.Errorf("%s: ETag %s, and that of %q", c, tag, other)
		}
		tags[tag] = c
		for name, want := range map[string]string{
			"Content-Type": "text/javascript; charset=utf-8", "Content-Length": fmt.Sprint(len(body)),
			"Cache-Control": "public, max-age=31536000, immutable", "X-Content-Type-Options": "nosniff",
		} {
			if got := h.Get(name); got != want {
				t.Errorf("%s: %s %q, want %q", c, name, got, want)
			}
		}
		if !strings.HasPrefix(h.Get("Content-Security-Policy"), "default-src 'none'; script-src 'self'") {
			t.Errorf("%s: policy %q", c, h.Get("Content-Security-Policy"))
		}

		head := rg.do("HEAD", script, "", anonymous, accept(c))
		if head.Code != http.StatusOK || head.Body.Len() > 0 || fmt.Sprint(head.Header()) != fmt.Sprint(h) {
			t.Errorf("%s: HEAD gets %d %v %q, want %v", c, head.Code, head.Header(), head.Body, h)
		}
		for _, match := range []string{tag, "W/" + tag, `"x", ` + tag, "*"} {
			same := rg.do("GET", script, "", anonymous, accept(c), header("If-None-Match", match))
			if sh := same.Header(); same.Code != http.StatusNotModified || same.Body.Len() > 0 || sh.Get("ETag") != tag ||
				sh.Get("Vary") != "Accept-Encoding" || sh.Get("Cache-Control") != h.Get("Cache-Control") || sh.Get("Content-Length") != "" {
				t.Errorf("%s: If-None-Match %s gets %d %v %q", c, match, same.Code, sh, same.Body)
			}
		}

		part := rg.do("GET", script, "", anonymous, accept(c), header("Range", "bytes=4-9"), header("If-Range", tag))
		if ph := part.Header(); part.Code != http.StatusPartialContent || part.Body.String() != body[4:10] || ph.Get("Content-Length") != "6" ||
			ph.Get("Content-Range") != fmt.Sprintf("bytes 4-9/%d", len(body)) || ph.Get("Content-Encoding") != h.Get("Content-Encoding") || ph.Get("ETag") != tag {
			t.Errorf("%s: a range gets %d %v %q", c, part.Code, ph, part.Body)
		}
		past := rg.do("GET", script, "", anonymous, accept(c), header("Range", "bytes=1000-"))
		if ph := past.Header(); past.Code != http.StatusRequestedRangeNotSatisfiable || ph.Get("Content-Encoding") != "" || ph.Get("Cache-Control") != "" ||
			ph.Get("Content-Length") != "" && ph.Get("Content-Length") != fmt.Sprint(past.Body.Len()) {
			t.Errorf("%s: a range past the end gets %d %v %q", c, past.Code, ph, past.Body)
		}
	}
	// A range request that names the ETag of one coding gets the whole body of
	// another coding. A request with the ETag of one coding gets no 304 for
	// another.
	for tag, of := range tags {
		for c, body := range map[string]string{"identity": plainScript, "gzip": gzipScript, "br": brotliScript} {
			if c == of {
				continue
			}
			if w := rg.do("GET", script, "", anonymous, accept(c), header("Range", "bytes=4-9"), header("If-Range", tag)); w.Code != http.StatusOK || w.Body.String() != body {
				t.Errorf("the rest of %s in %s: got %d %q", of, c, w.Code, w.Body)
			}
			if w := rg.do("GET", script, "", anonymous, accept(c), header("If-None-Match", tag)); w.Code != http.StatusOK {
				t.Errorf("the tag of %s for %s: got %d", of, c, w.Code)
			}
		}
	}
}

// The page and its icon have the same address after each start, so browsers ask
// for them again. A program that had our port between two starts can have left
// another file in the browser's cache, with the ETag that ours had. The next
// start must not confirm it.
func TestPageIsConfirmedOnlyWithinOneStart(t *testing.T) {
	first, second := newRig(t), newRig(t)
	for _, at := range []string{"/", "/favicon.svg"} {
		w := first.do("GET", at, "", anonymous)
		tag := header("If-None-Match", w.Header().Get("ETag"))
		if h := w.Header(); w.Code != http.StatusOK || h.Get("Cache-Control") != "no-cache" || h.Get("Last-Modified") != "" || h.Get("ETag") == "" {
			t.Errorf("%s: got %d %v", at, w.Code, h)
		}
		if again := first.do("GET", at, "", anonymous, tag); again.Code != http.StatusNotModified || again.Header().Get("Cache-Control") != "no-cache" {
			t.Errorf("%s again: got %d %v", at, again.Code, again.Header())
		}
		if other := second.do("GET", at, "", anonymous, tag); other.Code != http.StatusOK || other.Body.Len() == 0 {
			t.Errorf("%s after the next start: got %d", at, other.Code)
		}
	}
}

// Answers of the API are never compressed, because their length could reveal
// secrets in them; see [coding].
func TestAnswersOfTheAPIHaveNoCoding(t *testing.T) {
	rg := newCodedRig(t)
	id := rg.create()
	rg.events(id, rg.prompt(id, "tools"))
	for _, path := range []string{
		"/api/overview", "/api/session/list?projectId=*", "/api/session/" + id + "/status", "/api/session/" + id + "/items", "/api/session/" + id + "/export?format=md",
		"/api/agents", "/api/projects", "/api/usage?by=session", "/api/profiles", "/api/rules", "/api/tokens", "/api/me", "/openapi.json", "/docs",
	} {
		if w := rg.do("GET", path, "", accept("br, gzip")); w.Code != http.StatusOK || w.Header().Get("Content-Encoding") != "" {
			t.Errorf("%s: got %d %v", path, w.Code, w.Header())
		}
	}
}
