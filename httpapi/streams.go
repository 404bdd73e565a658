package httpapi

import (
	"net/http"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/httpapi/stream"
)

func streamRoutes(s *stream.Streams) []route {
	cursor := []param{
		{name: "after", doc: "Position to start after. Default: 0, the beginning of the log.", number: true},
		{name: "Last-Event-ID", doc: "Same as after, and takes precedence over it."},
		{name: "logId", doc: "Id of the log that contains the position, from the first frame of an earlier stream. If the server now has another log, because its data was restored from a backup or a power loss removed events, the stream starts at the beginning of the session."},
	}
	return []route{
		{method: http.MethodGet, path: "/api/session/{id}/events", scope: auth.Read, name: "followEvents", summary: "Follow a session's events", about: "Streams the events after a position, and then new events as they happen.",
			params: cursor, status: http.StatusOK, media: []string{"text/event-stream"}, stream: true, fails: []runnel.Code{runnel.Overloaded}, serve: s.Events},
		{method: http.MethodGet, path: "/api/session/{id}/items", scope: auth.Read, unread: true, name: "listItems",
			summary: "Read a session's history", about: "Returns one page of complete items. Forward: while more is true, get the next page with after set to the returned seq. Backward from the end: start with before=0, and while more is true, get the next older page with before set to the returned first.",
			params: []param{
				{name: "after", doc: "Position to start after. Default: 0, the beginning of the log.", number: true},
				{name: "before", doc: "Position before which the page ends; 0 for the end of the log. Not together with after. Each entry is on one page: an item on the page with the event that ended it, or on the newest page if it has not ended.", number: true},
				{name: "limit", doc: "Approximate maximum number of entries, up to 1000. Default: 200. Pages of large entries have fewer.", number: true},
			}, status: http.StatusOK, out: stream.ItemsAnswer{}, serve: s.Items},
		{method: http.MethodGet, path: "/api/session/{id}/export", scope: auth.Read, unread: true, name: "exportSession", summary: "Export a session", about: "Streams the whole history as one file.",
			params: []param{{name: "format", doc: "jsonl: all events, for programs. md or html: the items, for people to read.", values: []string{"jsonl", "md", "html"}, required: true}},
			status: http.StatusOK, media: []string{"application/jsonl", "text/markdown", "text/html"}, stream: true, fails: []runnel.Code{runnel.Overloaded}, serve: s.Export},
		{method: http.MethodGet, path: "/api/session/{id}/capture", scope: auth.Admin, unread: true, name: "getCapture", summary: "Download a session's debug capture",
			about:  "Returns the raw lines that the capture has written so far, one JSON object per line. 'runnel translate' turns them into events. Fails with status 404 if the session has no capture.",
			status: http.StatusOK, media: []string{"application/jsonl"}, stream: true, fails: []runnel.Code{runnel.Overloaded}, refused: []int{http.StatusNotFound}, serve: s.Capture},
		{method: http.MethodGet, path: "/api/ws", scope: auth.Read, bound: true, name: "connectWebSocket", summary: "Open the WebSocket",
			status: http.StatusSwitchingProtocols, stream: true, serve: s.WebSocket},
	}
}
