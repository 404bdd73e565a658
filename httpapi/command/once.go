package command

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/google/uuid"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/gateway/once"
	"github.com/runnel-dev/runnel/httpapi/access"
	"github.com/runnel-dev/runnel/httpapi/reply"
	"github.com/runnel-dev/runnel/internal/strictjson"
)

// KeyHeader is the request header that marks requests which are the same.
// ReplayedHeader is the response header of the answer to a repeated request.
const (
	KeyHeader      = "Idempotency-Key"
	ReplayedHeader = "Idempotency-Replayed"
)

// maxKey bounds an Idempotency-Key, in bytes.
const maxKey = 255

// Key returns the Idempotency-Key of r, or "" if there is none. An empty key,
// or more than one, is an error.
func Key(r *http.Request) (string, error) {
	lines := r.Header.Values(KeyHeader)
	switch len(lines) {
	case 0:
		return "", nil
	case 1:
		if lines[0] != "" {
			return lines[0], checkKey(KeyHeader, lines[0])
		}
	}
	return "", reply.Invalid(KeyHeader + ": must be one key that is not empty")
}

// SendMessage is [Commands.Send] for a WebSocket message, which has its key in
// a field. It does not wait for the agent to check its login, because the
// messages that follow would wait, too. A missing login becomes the error of
// the turn.
func (c Commands) SendMessage(r *http.Request, id, key string, in SendRequest) (Accepted, error) {
	if err := checkKey("idempotencyKey", key); err != nil {
		return Accepted{}, err
	}
	return c.send(r, id, "content", key, in, false)
}

// checkKey validates an Idempotency-Key. name is the name of the key in the
// error.
func checkKey(name, key string) error {
	if len(key) > maxKey {
		return reply.Invalid(fmt.Sprintf("%s: has %d bytes; at most %d are allowed", name, len(key), maxKey))
	}
	for _, c := range []byte(key) {
		if c < ' ' || c > '~' {
			return reply.Invalid(name + ": may hold printable ASCII characters only")
		}
	}
	return nil
}

// checkTurnID validates the id that a client chose for a turn. The empty id is
// valid.
func checkTurnID(id string) error {
	parsed, err := uuid.Parse(id)
	if id == "" || err == nil && parsed != uuid.Nil && parsed != uuid.Max && parsed.String() == id {
		return nil
	}
	return reply.Invalid("turnId: " + strictjson.Quote(id) + " is not a UUID in lower case such as " + `"01890a5d-ac96-774b-bcce-b302099a8057"`)
}

// Once answers a request that the client may repeat under a key or a turn id;
// see [once.Requests.Do]. what names the command and its target, and body has
// its parameters.
func (c Commands) Once(r *http.Request, key, turn, what string, body any, run func(ctx context.Context) (any, error)) (once.Answer, error) {
	req := once.Request{Credential: access.Caller(r.Context()).ID, Key: key, Turn: turn}
	if key != "" || turn != "" {
		var err error
		if req.Digest, err = digest(what, body); err != nil {
			return once.Answer{}, err
		}
	}
	a, err := gateway.RequestsOf(c.Sessions.Gateway).Once(r.Context(), req, run)
	if e, ok := errors.AsType[*runnel.Error](err); ok && errors.Is(err, once.ErrConflict) {
		err = reply.WithStatus(http.StatusConflict, e)
	}
	return a, err
}

// digest returns a hash of a request. White space, the order of members and
// escapes in strings make no difference.
func digest(what string, body any) ([32]byte, error) {
	data, err := json.Marshal(body)
	if err != nil {
		return [32]byte{}, err
	}
	var v any
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	if err := dec.Decode(&v); err != nil {
		return [32]byte{}, err
	}
	if data, err = json.Marshal(v); err != nil { // with sorted keys
		return [32]byte{}, err
	}
	return sha256.Sum256(append([]byte(what+"\n"), data...)), nil
}
