package browser

import (
	"io"
	"net/http"
)

// A service worker that a preview left under one of our addresses would answer
// for us. Its browser asks for its script again, and gets one that removes the
// worker and loads the pages that it served once more.
const noWorker = `self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", (e) => e.waitUntil((async () => {
  await self.registration.unregister();
  for (const c of await self.clients.matchAll({ type: "window", includeUncontrolled: true })) await c.navigate(c.url);
})()));
`

// OwnWorker is the path at which the page may have a service worker of its own.
const OwnWorker = "/sw.js"

// EndWorker answers a browser that asks for the script of a service worker
// which is not the page's own. It reports whether r was such a request. hasOwn
// says whether there is a file at [OwnWorker].
func EndWorker(w http.ResponseWriter, r *http.Request, host Verdict, hasOwn bool) bool {
	own := hasOwn && host == HostOfPage && r.URL.Path == OwnWorker
	if own || r.Method != http.MethodGet || r.Header.Get("Service-Worker") != "script" {
		return false
	}
	h := w.Header()
	h.Set("Content-Type", "text/javascript; charset=utf-8")
	h.Set("Service-Worker-Allowed", "/") // a worker may have been allowed more than its folder
	_, _ = io.WriteString(w, noWorker)
	return true
}
