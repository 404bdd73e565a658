package httpapi

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"image"
	"image/color"
	imagepng "image/png"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/httpapi/command"
	"github.com/runnel-dev/runnel/httpapi/reply"
)

// pngOf returns an image of one colour.
func pngOf(t *testing.T, c color.Color) string {
	t.Helper()
	img := image.NewRGBA(image.Rect(0, 0, 2, 2))
	img.Set(0, 0, c)
	var b bytes.Buffer
	if err := imagepng.Encode(&b, img); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// attached sends a prompt with an uploaded image, and returns the event with
// the prompt.
func (rg *rig) attached(id, image string) event.Attachment {
	rg.t.Helper()
	turn := call[command.SendAnswer](rg, "POST", "/api/session/"+id+"/send", rg.withUpload(image), 202)
	return attachmentOf(rg.t, rg.events(id, turn.TurnID), turn.TurnID)
}

func attachmentOf(t *testing.T, evs []event.Event, turn string) event.Attachment {
	t.Helper()
	for _, ev := range evs {
		if b, ok := ev.Body.(event.ItemDone); ok && ev.Turn == turn {
			return b.FinalItem.(event.Message).Attachments[0]
		}
	}
	t.Fatal("the turn has no prompt")
	return event.Attachment{}
}

// withUpload returns the body of a prompt with an uploaded image.
func (rg *rig) withUpload(image string) string {
	rg.t.Helper()
	w := rg.do("POST", "/api/uploads?name=dot.png", image, octetStream)
	var up struct{ UploadID string }
	if err := json.Unmarshal(w.Body.Bytes(), &up); w.Code != 201 || err != nil {
		rg.t.Fatalf("got %d %s", w.Code, w.Body)
	}
	return fmt.Sprintf(`{"content":"text","attachments":[{"uploadId":%q}]}`, up.UploadID)
}

func (rg *rig) picture(id, picture string, status int) (http.Header, string) {
	rg.t.Helper()
	w := rg.do("GET", "/api/session/"+id+"/pictures/"+picture, "")
	if w.Code != status {
		rg.t.Fatalf("got %d %s, want %d", w.Code, w.Body, status)
	}
	return w.Header(), w.Body.String()
}

// stored returns the names of the files with pictures and lists of sessions.
func (rg *rig) stored() (names []string) {
	rg.t.Helper()
	for _, dir := range []string{"", "sessions"} {
		list, err := os.ReadDir(filepath.Join(rg.data, gateway.PicturesFolder, dir))
		if err != nil {
			rg.t.Fatal(err)
		}
		for _, f := range list {
			if !f.IsDir() {
				names = append(names, f.Name())
			}
		}
	}
	return names
}

func TestPictureOfPromptIsStoredOnceUntilItsLastSessionIsDeleted(t *testing.T) {
	rg := newRig(t)
	red := pngOf(t, color.White)
	one, two := rg.create(), rg.create()
	a := rg.attached(one, red)
	if a.Picture != event.PictureID([]byte(red)) || a.MediaType != "image/png" {
		t.Fatalf("the prompt's attachment is %+v", a)
	}
	if again := rg.attached(one, red); again.Picture != a.Picture {
		t.Errorf("sent again it is %+v", again)
	}
	rg.attached(two, red)
	if got, want := rg.stored(), []string{a.Picture, one, two}; len(got) != 3 || !slices.Contains(got, want[0]) || !slices.Contains(got, want[1]) || !slices.Contains(got, want[2]) {
		t.Errorf("stored: %v, want %v", got, want)
	}

	h, body := rg.picture(one, a.Picture, 200)
	if body != red {
		t.Errorf("%d bytes, want %d", len(body), len(red))
	}
	for name, want := range map[string]string{
		"Content-Type": "image/png", "X-Content-Type-Options": "nosniff", "Content-Security-Policy": "default-src 'none'; sandbox",
		"Content-Disposition": "inline; filename=" + a.Picture + ".png",
	} {
		if got := h.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	rg.picture(one, strings.Repeat("0", 64), 404)
	rg.picture(one, "sessions", 404)
	rg.picture(one, "..%2fuploads", 404)
	three := rg.create()
	rg.picture(three, a.Picture, 404) // the session does not use it

	d := call[gateway.Deletion](rg, "GET", "/api/session/"+one+"/deletion", "", 200)
	if d.Pictures != 0 {
		t.Errorf("a picture that another session uses would be deleted: %+v", d)
	}
	call[gateway.Deletion](rg, "DELETE", "/api/session/"+one, "", 200)
	if _, body := rg.picture(two, a.Picture, 200); body != red {
		t.Error("the other session lost its picture")
	}
	d = call[gateway.Deletion](rg, "GET", "/api/session/"+two+"/deletion", "", 200)
	if d.Pictures != 1 || d.FreedBytes < int64(len(red)) {
		t.Errorf("the last session's deletion frees %+v", d)
	}
	call[gateway.Deletion](rg, "DELETE", "/api/session/"+two, "", 200)
	if got := rg.stored(); len(got) != 0 {
		t.Errorf("left after the deletion: %v", got)
	}
}

func TestPictureOfOtherProjectLooksLikeMissingSession(t *testing.T) {
	rg := newRig(t)
	id := rg.create()
	a := rg.attached(id, pngOf(t, color.White))
	rg.token = rg.bind(t.TempDir(), "read")
	if _, body := rg.picture(id, a.Picture, 404); !strings.Contains(body, "SESSION_NOT_FOUND") {
		t.Errorf("got %s", body)
	}
}

// A prompt that is rejected after its image was stored leaves no picture.
func TestRejectedPromptLeavesNoPicture(t *testing.T) {
	rg := newRig(t)
	id := rg.create()
	body := rg.withUpload(pngOf(t, color.White))
	rg.prompt(id, "approve") // waits
	if w := rg.do("POST", "/api/session/"+id+"/send", body); w.Code != 409 {
		t.Fatalf("got %d %s", w.Code, w.Body)
	}
	if got := rg.stored(); len(got) != 0 {
		t.Errorf("stored: %v", got)
	}
	call[reply.Empty](rg, "POST", "/api/session/"+id+"/cancel", "", 200)
}

func TestExportsContainPicturesAndImportRestoresThem(t *testing.T) {
	rg := newRig(t)
	red := pngOf(t, color.White)
	id := rg.create()
	a := rg.attached(id, red)
	rg.attached(id, red)

	page := rg.do("GET", "/api/session/"+id+"/export?format=html", "").Body.String()
	if n := strings.Count(page, `src="data:image/png;base64,`); n != 2 {
		t.Errorf("the page has %d pictures:\n%s", n, page)
	}
	if !strings.Contains(page, `content="default-src 'none'; img-src data:"`) {
		t.Error("the page lacks its policy")
	}
	file := rg.exportOf(id)
	if n := strings.Count(file, `{"type":"picture",`); n != 1 {
		t.Errorf("%d pictures in the export", n)
	}
	before := rg.entriesOf(id)
	call[gateway.Deletion](rg, "DELETE", "/api/session/"+id, "", 200)

	im, _ := rg.importFile(file, "", 201)
	if _, body := rg.picture(im.SessionID, a.Picture, 200); body != red {
		t.Error("the imported picture differs")
	}
	after := rg.entriesOf(im.SessionID)
	if got := after[:len(before)]; !reflect.DeepEqual(got, before) { // a notice follows
		t.Errorf("imported:\n%s\nwant:\n%s", got, before)
	}

	line := file[strings.Index(file, `{"type":"picture",`):]
	line = line[:strings.Index(line, "\n")+1]
	first := strings.Index(file, "\n") + 1
	for name, bad := range map[string]string{
		"without an event that names it": file[:first] + line + file[first:],
		"twice":                          strings.Replace(file, line, line+line, 1),
		"with other content":             strings.Replace(file, `"data":"iVBOR`, `"data":"iVBOS`, 1),
		"with another field":             strings.Replace(file, `{"type":"picture",`, `{"type":"picture","x":1,`, 1),
	} {
		before := rg.stored()
		if _, message := rg.importFile(bad, "", 400); !strings.Contains(message, "line ") {
			t.Errorf("%s: %s", name, message)
		}
		if got := rg.stored(); !reflect.DeepEqual(got, before) {
			t.Errorf("%s: left behind %v", name, got)
		}
	}
}

// A file of a few bytes can claim to be an image for which a browser needs
// gigabytes. The check of attachments rejects it, and an import keeps none.
func TestImportKeepsNoImageThatIsTooLargeToShow(t *testing.T) {
	rg := newRig(t)
	small := pngOf(t, color.White)
	id := rg.create()
	a := rg.attached(id, small)
	large := []byte(small)
	const header, sides, end = 12, 16, 29 // of the first chunk of a PNG file: its type, its width and height, its checksum
	binary.BigEndian.PutUint32(large[sides:], 60_000)
	binary.BigEndian.PutUint32(large[sides+4:], 60_000)
	binary.BigEndian.PutUint32(large[end:], crc32.ChecksumIEEE(large[header:end]))
	encoded := base64.StdEncoding.EncodeToString
	file := strings.NewReplacer(a.Picture, event.PictureID(large), encoded([]byte(small)), encoded(large)).Replace(rg.exportOf(id))
	im, _ := rg.importFile(file, "", 201)
	rg.picture(im.SessionID, event.PictureID(large), 404)
}
