package browser

import (
	"io"
	"net/http"
)

// noWorker replaces a foreign service worker. A program that had one of our
// addresses before, such as a preview server, may have left a service worker in
// the browser, which would answer in our place. When the browser asks for the
// worker's script again, it gets this one, which removes the worker and reloads
// the worker's pages.
const noWorker = `self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", (e) => e.waitUntil((async () => {
  await self.registration.unregister();
  for (const c of await self.clients.matchAll({ type: "window", includeUncontrolled: true })) await c.navigate(c.url);
})()));
`

// OwnWorker is the path of the page's own service worker, if the page has one.
const OwnWorker = "/sw.js"

// EndWorker answers a request for the script of a service worker that is not
// the page's own. It reports whether r was such a request. hasOwn is true if
// the page has a file at [OwnWorker].
func EndWorker(w http.ResponseWriter, r *http.Request, host Verdict, hasOwn bool) bool {
	own := hasOwn && host == HostOfPage && r.URL.Path == OwnWorker
	if own || r.Method != http.MethodGet || r.Header.Get("Service-Worker") != "script" {
		return false
	}
	DropCookies(r)
	h := w.Header()
	h.Set("Content-Type", "text/javascript; charset=utf-8")
	h.Set("Service-Worker-Allowed", "/") // the worker to remove may have a wider scope than its folder
	_, _ = io.WriteString(w, noWorker)
	return true
}
