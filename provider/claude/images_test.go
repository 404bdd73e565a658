package claude

import (
	"bytes"
	"compress/zlib"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"hash/crc32"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/runnel-dev/runnel"
)

// picture returns an image with a red left half and a blue right half.
func picture(w, h int) *image.NRGBA {
	m := image.NewNRGBA(image.Rect(0, 0, w, h))
	for y := range h {
		for x := range w {
			c := color.NRGBA{R: 200, A: 255}
			if x >= w/2 {
				c = color.NRGBA{B: 200, A: 255}
			}
			m.SetNRGBA(x, y, c)
		}
	}
	return m
}

func encoded(t testing.TB, format string, m image.Image) []byte {
	t.Helper()
	var b bytes.Buffer
	var err error
	switch format {
	case "png":
		err = png.Encode(&b, m)
	case "jpeg":
		err = jpeg.Encode(&b, m, nil)
	case "gif":
		err = gif.Encode(&b, m, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func prepare(t *testing.T, as ...runnel.Attachment) ([]runnel.Attachment, error) {
	t.Helper()
	in, err := New().Prepare(t.Context(), runnel.Input{Attachments: as})
	return in.Attachments, err
}

func TestLargeImagesAreScaled(t *testing.T) {
	tests := []struct {
		format string
		w, h   int
		want   image.Point
		media  string
	}{
		{"png", 3000, 1500, image.Pt(2000, 1000), "image/png"},
		{"jpeg", 1500, 3000, image.Pt(1000, 2000), "image/jpeg"},
		{"gif", 2500, 10, image.Pt(2000, 8), "image/png"},
		{"png", 2001, 1, image.Pt(2000, 1), "image/png"},
		{"png", 2000, 2000, image.Pt(2000, 2000), "image/png"},
	}
	for _, tt := range tests {
		data := encoded(t, tt.format, picture(tt.w, tt.h))
		sent := runnel.Attachment{Name: "p", MediaType: "image/" + tt.format, Data: data}
		out, err := prepare(t, sent)
		if err != nil {
			t.Fatal(err)
		}
		m, _, err := image.Decode(bytes.NewReader(out[0].Data))
		if err != nil {
			t.Fatal(err)
		}
		if m.Bounds().Size() != tt.want || out[0].MediaType != tt.media || out[0].Name != "p" {
			t.Errorf("%s %d×%d: %v %s", tt.format, tt.w, tt.h, m.Bounds().Size(), out[0].MediaType)
		}
		left, _, _, _ := m.At(tt.want.X/4, tt.want.Y/2).RGBA()
		_, _, right, _ := m.At(tt.want.X*3/4, tt.want.Y/2).RGBA()
		if left < 0xa000 || right < 0xa000 {
			t.Errorf("%s %d×%d: wrong colours: %x %x", tt.format, tt.w, tt.h, left, right)
		}
		if !bytes.Equal(sent.Data, data) {
			t.Error("the input was changed")
		}
	}
}

// withOrientation adds an Exif orientation to a JPEG.
func withOrientation(jpeg []byte, orientation byte) []byte {
	exif := []byte("Exif\x00\x00MM\x00*\x00\x00\x00\x08\x00\x01\x01\x12\x00\x03\x00\x00\x00\x01\x00")
	exif = append(exif, orientation, 0, 0, 0, 0, 0, 0)
	out := append([]byte{}, jpeg[:2]...)
	out = append(out, 0xff, 0xe1)
	out = binary.BigEndian.AppendUint16(out, uint16(len(exif)+2))
	return append(append(out, exif...), jpeg[2:]...)
}

func TestScaledImagesKeepTheirExifOrientation(t *testing.T) {
	data := encoded(t, "jpeg", picture(2400, 120)) // red on the left, blue on the right
	tests := []struct {
		orientation byte
		size        image.Point
		red         image.Point // a red pixel
	}{
		{1, image.Pt(2000, 100), image.Pt(100, 50)}, {2, image.Pt(2000, 100), image.Pt(1900, 50)},
		{3, image.Pt(2000, 100), image.Pt(1900, 50)}, {4, image.Pt(2000, 100), image.Pt(100, 50)},
		{5, image.Pt(100, 2000), image.Pt(50, 100)}, {6, image.Pt(100, 2000), image.Pt(50, 100)},
		{7, image.Pt(100, 2000), image.Pt(50, 1900)}, {8, image.Pt(100, 2000), image.Pt(50, 1900)},
		{9, image.Pt(2000, 100), image.Pt(100, 50)},
	}
	for _, tt := range tests {
		out, err := prepare(t, runnel.Attachment{MediaType: "image/jpeg", Data: withOrientation(data, tt.orientation)})
		if err != nil {
			t.Fatal(err)
		}
		m, err := jpeg.Decode(bytes.NewReader(out[0].Data))
		if err != nil {
			t.Fatal(err)
		}
		if red, _, blue, _ := m.At(tt.red.X, tt.red.Y).RGBA(); m.Bounds().Size() != tt.size || red < 0xa000 || blue > 0x5000 {
			t.Errorf("orientation %d: %v, red %x, blue %x", tt.orientation, m.Bounds().Size(), red, blue)
		}
	}
	for n := range 200 { // a truncated header must not panic
		orientation(withOrientation(data, 6)[:n])
	}
}

func TestImagesAboveThePixelLimitAreNotScaled(t *testing.T) {
	data := encoded(t, "jpeg", image.NewGray(image.Rect(0, 0, 5000, 4000)))
	out, err := prepare(t, runnel.Attachment{MediaType: "image/jpeg", Data: data})
	if err != nil || !bytes.Equal(out[0].Data, data) {
		t.Errorf("the image was changed, %v", err)
	}
}

// jpegWithScans returns a progressive JPEG whose scans change nothing.
func jpegWithScans(w, h uint16, scans int) []byte {
	data := []byte("\xff\xd8\xff\xdb\x00\x43\x00" + strings.Repeat("\x01", 64))
	data = append(data, "\xff\xc2\x00\x0b\x08"...)
	data = binary.BigEndian.AppendUint16(data, h)
	data = binary.BigEndian.AppendUint16(data, w)
	data = append(data, "\x01\x01\x11\x00"...)
	// The only code, one bit, is followed by 14 bits: the number of further
	// blocks without a coefficient, minus 1<<14.
	data = append(data, "\xff\xc4\x00\x14\x10\x01"+strings.Repeat("\x00", 15)+"\xe0"...)
	scan := []byte("\xff\xda\x00\x08\x01\x01\x00\x01\x3f\x00")
	for blocks := (int(w) + 7) / 8 * ((int(h) + 7) / 8); blocks > 0; blocks -= 1 << 14 {
		scan = append(scan, 0, 0) // a code and 14 bits, all zero, and padding
	}
	return append(append(data, bytes.Repeat(scan, scans)...), "\xff\xd9"...)
}

// The decoder visits the whole image for each scan: an image of ten megabytes
// would take most of an hour, and all other images would wait for it.
func TestImagesWithManyScansAreNotDecoded(t *testing.T) {
	for _, tt := range []struct {
		scans  int
		scaled bool
	}{{maxScans, true}, {maxScans + 1, false}} {
		sent := runnel.Attachment{MediaType: "image/jpeg", Data: jpegWithScans(2400, 16, tt.scans)}
		out, err := prepare(t, sent)
		if err != nil {
			t.Fatal(err)
		}
		if scaled := !cmp.Equal(out[0], sent); scaled != tt.scaled {
			t.Errorf("%d scans: scaled %t", tt.scans, scaled)
		}
	}
}

func TestOtherAttachmentsAreNotChanged(t *testing.T) {
	in := []runnel.Attachment{
		{Name: "n.txt", MediaType: "text/plain", Text: "note"}, {Name: "broken.png", MediaType: "image/png", Data: []byte("\x89PNG no")},
		{Name: "d.pdf", MediaType: "application/pdf", Data: []byte("%PDF-1.4")}, {Name: "s.png", MediaType: "image/png", Data: encoded(t, "png", picture(8, 8))},
	}
	out, err := prepare(t, in...)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(in, out); d != "" {
		t.Error(d)
	}
}

// pngHeader returns a PNG with a size of w × h pixels that has only the first
// pixels.
func pngHeader(w, h uint32) []byte {
	chunk := func(b []byte, kind string, data []byte) []byte {
		b = append(binary.BigEndian.AppendUint32(b, uint32(len(data))), kind...)
		b = append(b, data...)
		return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(append([]byte(kind), data...)))
	}
	size := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, w), h)
	b := chunk([]byte("\x89PNG\r\n\x1a\n"), "IHDR", append(size, 8, 6, 0, 0, 0))
	var pixels bytes.Buffer
	z := zlib.NewWriter(&pixels)
	z.Write(make([]byte, 1<<10))
	z.Close()
	return chunk(b, "IDAT", pixels.Bytes())
}

func TestHugeImagesAreRefusedWithoutDecoding(t *testing.T) {
	bomb := pngHeader(60000, 60000)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	accepts, err := New().Accepts(t.Context(), runnel.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if accepts(runnel.Attachment{MediaType: "image/png", Data: bomb}) == "" {
		t.Error("Accepts allows the image")
	}
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 8<<20 {
		t.Errorf("%d bytes were allocated", took)
	}
	// The size is accepted, but the image has too many pixels to decode.
	runtime.ReadMemStats(&before)
	_, err = prepare(t, runnel.Attachment{MediaType: "image/png", Data: pngHeader(8000, 8000)})
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; err != nil || took > 8<<20 {
		t.Errorf("%v, %d bytes were allocated", err, took)
	}
}

// The model receives the attachments in the order in which the user attached
// them. The agent does not change them.
func TestModelReceivesAttachmentsUnchangedAndInOrder(t *testing.T) {
	eachAgent(t, func(t *testing.T, r *rig) {
		s, err := runnel.Open(t.Context(), New(), r.Opt, runnel.Config{ID: "s"})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		in := runnel.Input{Text: "Look.", Attachments: []runnel.Attachment{
			{Name: "b.txt", MediaType: "text/plain", Text: "second letter"},
			{Name: "big.png", MediaType: "image/png", Data: encoded(t, "png", picture(3000, 2500))},
			{Name: "a.txt", MediaType: "text/plain", Text: "first letter"},
			{Name: "small.png", MediaType: "image/png", Data: encoded(t, "png", picture(9, 9))},
			{Name: "d.pdf", MediaType: "application/pdf", Data: []byte("%PDF-1.4\n1 0 obj<</Type/Catalog>>endobj\ntrailer<</Root 1 0 R>>\n")},
		}}
		turn, err := s.Send(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		if res, err := turn.Wait(t.Context()); err != nil || res.FinalText != "ok" {
			t.Fatalf("%+v, %v", res, err)
		}
		prepared, err := prepare(t, in.Attachments...)
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		for _, a := range prepared {
			want = append(want, digest(append(a.Data, a.Text...))[:12])
		}
		if got := r.attached(); !slices.Equal(got, want) {
			t.Errorf("the model got %v, want %v", got, want)
		}
	})
}

// attached returns digests of the images and documents in the last request to
// the model.
func (r *rig) attached() (out []string) {
	r.T.Helper()
	reqs := r.Model.Requests()
	var req struct {
		Messages []struct {
			Role    string
			Content content
		}
	}
	if err := json.Unmarshal(reqs[len(reqs)-1].Body, &req); err != nil {
		r.T.Fatal(err)
	}
	for _, m := range req.Messages {
		for _, b := range m.Content {
			if b.Source == nil {
				continue
			}
			data := []byte(b.Source.Data)
			if b.Source.Type == "base64" {
				decoded, err := base64.StdEncoding.DecodeString(strings.TrimSpace(b.Source.Data))
				if err != nil {
					r.T.Fatal(err)
				}
				data = decoded
			}
			out = append(out, digest(data)[:12])
		}
	}
	return out
}

// waitingImage decodes the images of the format "waiting".
var waitingImage atomic.Pointer[func() image.Image]

// A format stays registered, so it is registered once for all runs of the tests.
func init() {
	size := image.Config{Width: maxSide + 1, Height: 1, ColorModel: color.NRGBAModel}
	image.RegisterFormat("waiting", "waiting image",
		func(io.Reader) (image.Image, error) { return (*waitingImage.Load())(), nil },
		func(io.Reader) (image.Config, error) { return size, nil })
}

// Every session may send an image at the same time, and a decoded image takes
// much memory.
func TestOneImageIsDecodedAtATime(t *testing.T) {
	entered, leave := make(chan struct{}, 2), make(chan struct{})
	decode := func() image.Image {
		entered <- struct{}{}
		<-leave
		return picture(maxSide+1, 1)
	}
	waitingImage.Store(&decode)
	in := runnel.Input{Attachments: []runnel.Attachment{{Name: "p", MediaType: "image/png", Data: []byte("waiting image")}}}
	first := make(chan error, 1)
	go func() {
		_, err := New().Prepare(t.Context(), in)
		first <- err
	}()
	<-entered
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	second := make(chan error, 1)
	go func() {
		_, err := New().Prepare(ctx, in)
		second <- err
	}()
	select {
	case <-entered:
		t.Error("two images are decoded at once")
		close(leave)
		<-second
	case err := <-second:
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the client of the second image is gone: got %v", err)
		}
		close(leave)
	}
	if err := <-first; err != nil {
		t.Error(err)
	}
	if _, err := New().Prepare(t.Context(), in); err != nil {
		t.Errorf("an image after both: %v", err)
	}
}
