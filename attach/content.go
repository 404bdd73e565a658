package attach

import (
	"bytes"
	"encoding/binary"
	"errors"
	"image"
	"image/gif"
	"image/jpeg"
	"image/png"
	"io"
	"unicode/utf8"
)

const plainText = "text/plain"

// extensions returns the file name extensions that may be attached. An upload
// may have any other extension, too, if it is text.
func extensions() []string {
	return []string{".png", ".jpg", ".jpeg", ".gif", ".webp", ".pdf", ".txt", ".md", ".csv"}
}

// mediaType returns the media type of a lower-case extension, or "" if the
// extension may not be attached.
func mediaType(ext string) string {
	switch ext {
	case ".png":
		return "image/png"
	case ".jpg", ".jpeg":
		return "image/jpeg"
	case ".gif":
		return "image/gif"
	case ".webp":
		return "image/webp"
	case ".pdf":
		return "application/pdf"
	case ".txt":
		return plainText
	case ".md":
		return "text/markdown"
	case ".csv":
		return "text/csv"
	}
	return ""
}

// matches returns the reason why data is not content of the given media type,
// or nil if it is. It decodes only the header of an image, so an image that
// claims a huge size costs nothing.
func matches(media string, data []byte) *refusal {
	if len(data) == 0 {
		return refuse(mismatch, "it is empty")
	}
	switch media {
	case "image/png":
		return matchImage("PNG", png.DecodeConfig, data)
	case "image/jpeg":
		if scans(data) > maxScans {
			return refuse(mismatch, "the image has more than 100 scans; save it as a baseline JPEG")
		}
		return matchImage("JPEG", jpeg.DecodeConfig, data)
	case "image/gif":
		if r := matchImage("GIF", gif.DecodeConfig, data); r != nil {
			return r
		}
		return checkSize(firstFrame(data))
	case "image/webp":
		return matchImage("WebP", webpConfig, data)
	case "application/pdf":
		if !bytes.HasPrefix(data, []byte("%PDF-")) {
			return refuse(mismatch, "its content is not PDF")
		}
		return nil
	}
	if !isText(data) {
		return refuse(mismatch, "its content is not UTF-8 text")
	}
	return nil
}

// ImageType returns the media type of an image that may be attached, judged by
// its content. It decodes only the header of the image.
func ImageType(data []byte) (media string, ok bool) {
	for _, media := range []string{"image/png", "image/jpeg", "image/gif", "image/webp"} {
		if matches(media, data) == nil {
			return media, true
		}
	}
	return "", false
}

func matchImage(name string, config func(io.Reader) (image.Config, error), data []byte) *refusal {
	c, err := config(bytes.NewReader(data))
	if err != nil || c.Width <= 0 || c.Height <= 0 {
		return refuse(mismatch, "its content is not "+name)
	}
	return checkSize(c.Width, c.Height)
}

func checkSize(width, height int) *refusal {
	if width > MaxSide || height > MaxSide {
		return refuse(mismatch, "the image is larger than 8000 × 8000 pixels")
	}
	return nil
}

// isText reports whether data is text for a model: UTF-8 that does not begin
// like a PDF file, and without control characters below space except those that
// text files and terminal logs contain.
func isText(data []byte) bool {
	if !utf8.Valid(data) || bytes.HasPrefix(data, []byte("%PDF-")) {
		return false
	}
	for _, c := range data {
		if c < ' ' && !bytes.ContainsRune([]byte("\t\n\v\f\r\b\x1b"), rune(c)) {
			return false
		}
	}
	return true
}

// webpConfig reads the size from the header of a WebP image, as in RFC 9649. It
// does not set the colour model.
func webpConfig(r io.Reader) (c image.Config, err error) {
	var h [30]byte
	if _, err := io.ReadFull(r, h[:]); err != nil {
		return c, err
	}
	if string(h[:4]) != "RIFF" || string(h[8:12]) != "WEBP" {
		return c, errors.New("webp: no header")
	}
	body := h[20:] // contents of the first chunk
	switch string(h[12:16]) {
	case "VP8 ":
		if !bytes.Equal(body[3:6], []byte{0x9d, 0x01, 0x2a}) {
			return c, errors.New("webp: no key frame")
		}
		c.Width = int(binary.LittleEndian.Uint16(body[6:]) & 0x3fff)
		c.Height = int(binary.LittleEndian.Uint16(body[8:]) & 0x3fff)
	case "VP8L":
		if body[0] != 0x2f {
			return c, errors.New("webp: no lossless signature")
		}
		bits := binary.LittleEndian.Uint32(body[1:])
		c.Width, c.Height = int(bits&0x3fff)+1, int(bits>>14&0x3fff)+1
	case "VP8X":
		c.Width = int(uint32(body[4])|uint32(body[5])<<8|uint32(body[6])<<16) + 1
		c.Height = int(uint32(body[7])|uint32(body[8])<<8|uint32(body[9])<<16) + 1
	default:
		return c, errors.New("webp: unknown chunk")
	}
	return c, nil
}
