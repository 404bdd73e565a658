package httpapi

import (
	"net/http"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/httpapi/stream"
)

func streamRoutes(s *stream.Streams) []route {
	cursor := []param{
		{name: "after", doc: "position after which to begin", number: true},
		{name: "Last-Event-ID", doc: "as after, and wins over it"},
		{name: "logId", doc: "of the log that the position is one of, as the first frame said; the stream begins anew if this is another log"},
	}
	return []route{
		{method: http.MethodGet, path: "/api/session/{id}/events", scope: auth.Read, name: "followEvents", summary: "Follow the session's events",
			params: cursor, status: http.StatusOK, media: []string{"text/event-stream"}, stream: true, fails: []runnel.Code{runnel.Overloaded}, serve: s.Events},
		{method: http.MethodGet, path: "/api/session/{id}/items", scope: auth.Read, unread: true, name: "listItems",
			summary: "Read the session's history as whole items",
			params: []param{
				{name: "after", doc: "position after which to begin", number: true},
				{name: "limit", doc: "about how many at most; 200 if absent, and fewer where they are large", number: true},
			}, status: http.StatusOK, out: stream.ItemsAnswer{}, serve: s.Items},
		{method: http.MethodGet, path: "/api/session/{id}/export", scope: auth.Read, unread: true, name: "exportSession", summary: "Export a session",
			params: []param{{name: "format", doc: "jsonl: the events; md or html: the items, for people", values: []string{"jsonl", "md", "html"}, required: true}},
			status: http.StatusOK, media: []string{"application/jsonl", "text/markdown", "text/html"}, stream: true, serve: s.Export},
		{method: http.MethodGet, path: "/api/ws", scope: auth.Read, bound: true, name: "connectWebSocket", summary: "Open the WebSocket",
			status: http.StatusSwitchingProtocols, stream: true, serve: s.WebSocket},
	}
}
