package attach_test

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/attach"
)

// A lossless WebP image of 1 × 1 pixel.
const webp1x1 = "UklGRhoAAABXRUJQVlA4TA0AAAAvAAAAEAcQERGIiP4HAA=="

// samples returns one real file of each type, by extension.
func samples(t testing.TB) map[string]string {
	t.Helper()
	img := image.NewPaletted(image.Rect(0, 0, 2, 2), color.Palette{color.Black, color.White})
	var p, j, g bytes.Buffer
	for _, err := range []error{png.Encode(&p, img), jpeg.Encode(&j, img, nil), gif.Encode(&g, img, nil)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	w, err := base64.StdEncoding.DecodeString(webp1x1)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]string{
		".png": p.String(), ".jpg": j.String(), ".jpeg": j.String(), ".gif": g.String(), ".webp": string(w),
		".pdf": "%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj\n", ".txt": "plain \x1b[1mtext\x1b[0m\n", ".md": "# BM, MZ and PK\n", ".csv": "a;b\n1;é\n",
	}
}

func TestAttachmentsHaveTheServersType(t *testing.T) {
	files := map[string]string{}
	want := map[string]string{
		".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif", ".webp": "image/webp",
		".pdf": "application/pdf", ".txt": "text/plain", ".md": "text/markdown", ".csv": "text/csv",
	}
	for ext, content := range samples(t) {
		files["f"+ext], files["F"+strings.ToUpper(ext)] = content, content
	}
	dir := tree(t, files)
	c := attach.Checker{Roots: []string{dir}}
	for name, content := range files {
		got := c.Check(refs(filepath.Join(dir, name)))
		if len(got.Attachments) != 1 {
			t.Errorf("%s: %v", name, got.Rejected)
			continue
		}
		w := runnel.Attachment{Name: name, MediaType: want[strings.ToLower(filepath.Ext(name))], Path: filepath.Join(dir, name)}
		if strings.HasPrefix(w.MediaType, "text/") {
			w.Text = content
		} else {
			w.Data = []byte(content)
		}
		if diff := cmp.Diff(w, got.Attachments[0]); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// An attachment is accepted only if its content matches its extension. HTML or
// SVG is at most text.
func TestContentDecidesTheTypeOfAnAttachment(t *testing.T) {
	bodies := samples(t)
	for name, body := range map[string]string{
		"html":      "<!doctype html><script>alert(1)</script>",
		"svg":       `<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>`,
		"elf":       "\x7fELF\x02\x01\x01\x00\x00\x00",
		"exe":       "MZ\x90\x00\x03\x00\x00\x00",
		"zip":       "PK\x03\x04\x14\x00\x00\x00",
		"gif only":  "GIF89a",
		"png only":  "\x89PNG\r\n\x1a\n",
		"jpeg only": "\xff\xd8\xff",
		"webp only": "RIFF\x00\x00\x00\x00WEBPVP8 ",
		"late pdf":  "\n\n%PDF-1.4",
		"utf16":     "\xff\xfeh\x00i\x00",
		"latin1":    "caf\xe9",
		"nul":       "a\x00b",
		"bell":      "a\x07b",
		"empty":     "",
	} {
		bodies[name] = body
	}
	// The samples that each extension accepts. A polyglot that begins with a
	// real image header counts as an image and as nothing else.
	takes := map[string][]string{
		".png": {".png"}, ".jpg": {".jpg", ".jpeg"}, ".jpeg": {".jpg", ".jpeg"}, ".gif": {".gif"}, ".webp": {".webp"}, ".pdf": {".pdf"},
		".txt": {".txt", ".md", ".csv", "html", "svg", "late pdf", "gif only"},
	}
	takes[".md"], takes[".csv"] = takes[".txt"], takes[".txt"]
	for ext, ok := range takes {
		for name, body := range bodies {
			dir := tree(t, map[string]string{"f" + ext: body})
			c := attach.Checker{Roots: []string{dir}}
			got := c.Check(refs(filepath.Join(dir, "f"+ext)))
			want := 0
			for _, n := range ok {
				if n == name {
					want = 1
				}
			}
			if len(got.Attachments) != want {
				t.Errorf("%q as %s: accepted %d, want %d (%v)", name, ext, len(got.Attachments), want, reasons(got))
			}
			if want == 1 && strings.HasPrefix(ext, ".t") && got.Attachments[0].MediaType != "text/plain" {
				t.Errorf("%q is %s", name, got.Attachments[0].MediaType)
			}
		}
	}
	for _, name := range []string{"x", "x.svg", "x.html", "x.exe", "x.png.exe", "x.zip", ".png/x", "x.txt~", "x.txt "} {
		dir := tree(t, map[string]string{name: bodies[".png"]})
		c := attach.Checker{Roots: []string{dir}}
		if got := c.Check(refs(filepath.Join(dir, name))); len(got.Attachments) != 0 {
			t.Errorf("%q is accepted", name)
		}
	}
	polyglot := bodies[".gif"] + "<script>alert(1)</script>"
	dir := tree(t, map[string]string{"p.gif": polyglot, "p.txt": polyglot})
	c := attach.Checker{Roots: []string{dir}}
	if got := c.Check(refs(filepath.Join(dir, "p.gif"), filepath.Join(dir, "p.txt"))); len(got.Attachments) != 1 || got.Attachments[0].MediaType != "image/gif" {
		t.Errorf("polyglot: %+v", got)
	}
}

// pngOf returns a PNG file of 1 KB whose header claims this size.
func pngOf(w, h uint32) string {
	ihdr := []byte("IHDR")
	ihdr = binary.BigEndian.AppendUint32(ihdr, w)
	ihdr = binary.BigEndian.AppendUint32(ihdr, h)
	ihdr = append(ihdr, 8, 2, 0, 0, 0)
	b := append([]byte("\x89PNG\r\n\x1a\n"), 0, 0, 0, 13)
	b = append(b, ihdr...)
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(ihdr))
	return string(append(b, make([]byte, 1024-len(b))...))
}

func gifOf(w, h uint16) string {
	b := binary.LittleEndian.AppendUint16([]byte("GIF89a"), w)
	b = binary.LittleEndian.AppendUint16(b, h)
	return string(append(b, 0, 0, 0, ';'))
}

func jpegOf(t *testing.T, w, h uint16) string {
	b := []byte(samples(t)[".jpg"])
	i := bytes.Index(b, []byte{0xff, 0xc0}) // start of frame: length, precision, height, width
	binary.BigEndian.PutUint16(b[i+5:], h)
	binary.BigEndian.PutUint16(b[i+7:], w)
	return string(b)
}

func webpOf(chunk string, w, h int) string {
	b := append([]byte("RIFF\x00\x00\x00\x00WEBP"), chunk...)
	b = append(b, 0, 0, 0, 0)
	switch chunk {
	case "VP8 ":
		b = append(b, 0, 0, 0, 0x9d, 0x01, 0x2a, byte(w), byte(w>>8), byte(h), byte(h>>8))
	case "VP8L":
		b = binary.LittleEndian.AppendUint32(append(b, 0x2f), uint32(w-1)|uint32(h-1)<<14)
	case "VP8X":
		w, h = w-1, h-1
		b = append(b, 0, 0, 0, 0, byte(w), byte(w>>8), byte(w>>16), byte(h), byte(h>>8), byte(h>>16))
	}
	return string(append(b, make([]byte, 64)...))
}

func TestHugeImagesAreRefusedWithoutDecoding(t *testing.T) {
	small := map[string]string{
		"a.png": pngOf(8000, 8000), "a.gif": gifOf(8000, 8000), "a.jpg": jpegOf(t, 8000, 8000),
		"a.webp": webpOf("VP8 ", 8000, 8000), "b.webp": webpOf("VP8L", 8000, 8000), "c.webp": webpOf("VP8X", 8000, 8000),
	}
	bombs := map[string]string{
		"a.png": pngOf(60_000, 60_000), "b.png": pngOf(8001, 1), "c.png": pngOf(1, 8001),
		"a.gif": gifOf(65_535, 65_535), "b.gif": gifOf(1, 8001), "a.jpg": jpegOf(t, 65_535, 65_535), "b.jpg": jpegOf(t, 8001, 1),
		"a.webp": webpOf("VP8 ", 16_383, 16_383), "b.webp": webpOf("VP8L", 16_384, 1), "c.webp": webpOf("VP8X", 1<<24, 1<<24),
	}
	dir := tree(t, small)
	c := attach.Checker{Roots: []string{dir}}
	for name := range small {
		if got := c.Check(refs(filepath.Join(dir, name))); len(got.Attachments) != 1 {
			t.Errorf("%s of 8000 × 8000: %v", name, got.Rejected)
		}
	}
	dir = tree(t, bombs)
	c = attach.Checker{Roots: []string{dir}}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for name := range bombs {
		got := c.Check(refs(filepath.Join(dir, name)))
		if len(got.Rejected) != 1 || got.Rejected[0].Reason != "the image is larger than 8000 × 8000 pixels" {
			t.Errorf("%s: %+v", name, got)
		}
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 8<<20 {
		t.Errorf("allocated %d bytes", n)
	}
	for name, body := range map[string]string{"z.png": pngOf(0, 1), "z2.png": pngOf(1<<31, 1), "z.gif": gifOf(0, 0), "z.webp": webpOf("VP8 ", 0, 0)} {
		dir := tree(t, map[string]string{name: body})
		c := attach.Checker{Roots: []string{dir}}
		if got := c.Check(refs(filepath.Join(dir, name))); len(got.Attachments) != 0 {
			t.Errorf("%s is accepted", name)
		}
	}
}

// framedGIF returns a GIF with a small logical screen and a frame that ends at
// this point.
func framedGIF(right, bottom uint16) string {
	b := []byte("GIF89a\x0a\x00\x0a\x00\x80\x00\x00\x00\x00\x00\xff\xff\xff" + "!\xfe\x05,,,,,\x00" + ",\x01\x00\x02\x00")
	b = binary.LittleEndian.AppendUint16(b, right-1)
	b = binary.LittleEndian.AppendUint16(b, bottom-2)
	return string(append(b, "\x00\x02\x02\x44\x01\x00;"...))
}

// A browser gives an image the size of its first frame if the frame is larger
// than the logical screen.
func TestGIFIsAsLargeAsItsFirstFrame(t *testing.T) {
	dir := tree(t, map[string]string{"a.gif": framedGIF(8000, 8000), "b.gif": framedGIF(8001, 10), "c.gif": framedGIF(10, 8001)})
	c := attach.Checker{Roots: []string{dir}}
	if got := c.Check(refs(filepath.Join(dir, "a.gif"))); len(got.Attachments) != 1 {
		t.Errorf("8000 × 8000: %v", got.Rejected)
	}
	for _, name := range []string{"b.gif", "c.gif"} {
		got := c.Check(refs(filepath.Join(dir, name)))
		if len(got.Rejected) != 1 || got.Rejected[0].Reason != "the image is larger than 8000 × 8000 pixels" {
			t.Errorf("%s: %+v", name, got)
		}
	}
	for n := range len(framedGIF(9, 9)) { // a truncated file must not panic
		attach.ImageType([]byte(framedGIF(9, 9)[:n]))
	}
}

// withScans returns a JPEG with further scans that change nothing. Its other
// segments contain bytes like those before a scan.
func withScans(t *testing.T, more int) []byte {
	t.Helper()
	j := samples(t)[".jpg"]
	scan := "\xff\xda\x00\x08\x01\x01\x00\x01\x3f\x00\x00\x00\xff\x00"
	thumbnail := "\xff\xe1\x01\x02" + strings.Repeat("\xff\xda", 128)
	return []byte(j[:2] + thumbnail + j[2:len(j)-2] + strings.Repeat(scan, more) + "\xff\xff\xd9" + strings.Repeat("\xff\xda", 200))
}

// A browser draws the whole image for each scan, so an image of ten megabytes
// would keep it busy for a quarter of an hour.
func TestJPEGWithManyScansIsNoImage(t *testing.T) {
	if media, ok := attach.ImageType(withScans(t, 99)); !ok || media != "image/jpeg" {
		t.Errorf("100 scans: %q %t", media, ok)
	}
	if media, ok := attach.ImageType(withScans(t, 100)); ok {
		t.Errorf("101 scans: %q", media)
	}
	whole := withScans(t, 1)
	for n := range whole { // a truncated file must not panic
		attach.ImageType(whole[:n])
	}
}
