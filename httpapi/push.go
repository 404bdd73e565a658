package httpapi

import (
	"encoding/base64"
	"net/http"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/httpapi/access"
	"github.com/runnel-dev/runnel/httpapi/reply"
	"github.com/runnel-dev/runnel/push"
)

// The bodies of the routes about notes through Web Push.
type (
	pushKeys struct {
		P256dh string `json:"p256dh" doc:"The browser's public key, in base64url."`
		Auth   string `json:"auth" doc:"The secret of the browser and the server, in base64url."`
	}
	pushRequest struct {
		Endpoint string          `json:"endpoint" doc:"The https URL at the browser's push service."`
		Keys     pushKeys        `json:"keys"`
		Kinds    []push.NoteKind `json:"kinds" doc:"The notes to send, at least one."`
	}
	pushAnswer struct {
		Available bool            `json:"available" doc:"Whether the server sends notes (setting push)."`
		PublicKey string          `json:"publicKey,omitempty" doc:"The server's key for PushManager.subscribe (applicationServerKey), in base64url. Absent if the server sends no notes."`
		Kinds     []push.NoteKind `json:"kinds" doc:"The notes to which the calling credential has subscribed. Empty: none."`
	}
)

func (a *account) pushRoutes() []route {
	return []route{
		handle(route{path: "/api/push", scope: auth.Read, bound: true, name: "getPush",
			summary: "Get the caller's subscription to Web Push"}, a.pushState),
		handleJSON(route{path: "/api/push", scope: auth.Read, bound: true, name: "subscribePush",
			summary: "Subscribe to Web Push", about: "From then on, the server sends encrypted notes to the push service: that a session needs somebody, or has finished. A note says nothing else. The subscription belongs to the calling credential, ends with it, and replaces its earlier subscription.",
			fails: []runnel.Code{runnel.UnsupportedCapability, runnel.Overloaded}}, a.subscribe),
		handle(route{method: http.MethodDelete, path: "/api/push", scope: auth.Read, bound: true, name: "unsubscribePush",
			summary: "End the caller's subscription to Web Push"}, a.unsubscribe),
	}
}

func (a *account) pushState(r *http.Request) (out pushAnswer, err error) {
	out.Kinds = []push.NoteKind{}
	if a.push == nil {
		return out, nil
	}
	out.Available = true
	if out.PublicKey, err = a.push.PublicKey(r.Context()); err != nil {
		return out, err
	}
	kinds, err := a.push.Subscribed(r.Context(), access.Caller(r.Context()).ID)
	out.Kinds = append(out.Kinds, kinds...)
	return out, err
}

func (a *account) subscribe(r *http.Request, in pushRequest) (pushAnswer, error) {
	if a.push == nil {
		return pushAnswer{}, runnel.Fail(runnel.UnsupportedCapability, "this server sends no notes: its setting push is off")
	}
	public, err := base64.RawURLEncoding.Strict().DecodeString(in.Keys.P256dh)
	if err != nil {
		return pushAnswer{}, reply.Invalid("keys: p256dh: want base64url without padding")
	}
	secret, err := base64.RawURLEncoding.Strict().DecodeString(in.Keys.Auth)
	if err != nil {
		return pushAnswer{}, reply.Invalid("keys: auth: want base64url without padding")
	}
	sub := push.Subscription{Endpoint: in.Endpoint, P256dh: public, Auth: secret}
	if err := a.push.Subscribe(r.Context(), access.Caller(r.Context()).ID, sub, in.Kinds); err != nil {
		return pushAnswer{}, err
	}
	return a.pushState(r)
}

func (a *account) unsubscribe(r *http.Request) (pushAnswer, error) {
	if a.push != nil {
		if err := a.push.Unsubscribe(r.Context(), access.Caller(r.Context()).ID); err != nil {
			return pushAnswer{}, err
		}
	}
	return a.pushState(r)
}
