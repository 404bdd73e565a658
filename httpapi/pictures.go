package httpapi

import (
	"errors"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/httpapi/reply"
)

// pictureRoute is the route of the images that prompts contained.
func (f *fileRoutes) pictureRoute() route {
	return route{method: http.MethodGet, path: "/api/session/{id}/pictures/{picture}", scope: auth.Read, name: "getPicture",
		summary: "Get an image of a prompt", about: "Returns a PNG, JPEG, GIF or WebP image that a prompt of the session contained, as the agent received it. picture is the field of this name of the message's attachment.",
		status: http.StatusOK, media: imageTypes(), refused: []int{http.StatusNotFound}, serve: f.picture}
}

func (f *fileRoutes) picture(w http.ResponseWriter, r *http.Request) error {
	if err := f.count(r); err != nil {
		return err
	}
	st, err := f.gw.Status(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	id := r.PathValue("picture")
	data, err := gateway.PicturesOf(f.gw).Read(st.SessionID, id)
	if errors.Is(err, gateway.ErrNoPicture) {
		return reply.NewError(http.StatusNotFound, "picture: "+err.Error())
	}
	if err != nil {
		return err
	}
	writeImage(w, data, event.PictureType(data), "inline", id)
	return nil
}

// writeImage answers with an image that no browser interprets as anything else.
// A file of another type is downloaded as bytes. The name of the file gets an
// extension if it has none.
func writeImage(w http.ResponseWriter, data []byte, media, disposition, name string) {
	sub, image := strings.CutPrefix(media, "image/")
	if !image {
		media, disposition = "application/octet-stream", "attachment"
	} else if !strings.Contains(name, ".") {
		name += "." + sub
	}
	h := w.Header()
	h.Set("Content-Type", media)
	h.Set("Content-Length", strconv.Itoa(len(data)))
	h.Set("Content-Disposition", mime.FormatMediaType(disposition, map[string]string{"filename": name}))
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox")
	_, _ = w.Write(data) // an error means that the client has disconnected
}
