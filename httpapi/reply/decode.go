package reply

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/strictjson"
)

// MaxBody bounds a JSON body, in bytes.
const MaxBody = 1 << 20

// WantsJSON rejects a request whose Content-Type is not JSON. A page of another
// site can send forms and beacons without a preflight request, but not JSON.
func WantsJSON(r *http.Request) error {
	mt, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	charset := params["charset"]
	if err != nil || mt != "application/json" || charset != "" && !strings.EqualFold(charset, "utf-8") {
		return NewError(http.StatusUnsupportedMediaType, "send Content-Type: application/json")
	}
	return nil
}

// Decode reads the JSON body of r into v, a pointer to a struct. A missing body
// counts as an empty object.
func Decode(w http.ResponseWriter, r *http.Request, v any) error {
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBody))
	if big, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return runnel.Fail(runnel.PayloadTooLarge, fmt.Sprintf("the body is larger than %d bytes; send files as uploads", big.Limit))
	}
	if limited, ok := errors.AsType[*runnel.Error](err); ok { // too many bodies of the credential are arriving
		return limited
	}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return NewError(http.StatusRequestTimeout, "the request body did not arrive in time; send the request again")
	case err != nil:
		return NewError(http.StatusBadRequest, "the request body is incomplete, or its chunks are malformed; correct the request and send it again")
	}
	// The body is complete. The handler may now write a stream for hours, so
	// remove the read deadline.
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	if len(data) == 0 {
		return nil
	}
	return Strict(data, v)
}

// Strict is [strictjson.Decode] with an error for the client.
func Strict(data []byte, v any) error {
	if err := strictjson.Decode(data, v); err != nil {
		return Invalid(err.Error())
	}
	return nil
}

// Fit is [strictjson.Fit] with an error for the client.
func Fit(name string, members map[string]json.RawMessage, v any) error {
	if err := strictjson.Fit(name, members, v); err != nil {
		return Invalid(err.Error())
	}
	return nil
}
