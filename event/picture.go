package event

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// MaxPicture is the maximum size of a picture, in bytes. A larger image is only
// described by its [Attachment].
const MaxPicture = 10 << 20

// PictureID returns the id of an image: the SHA-256 of its content, in lower
// case hexadecimal. It returns "" if data is no PNG, JPEG, GIF or WebP image,
// judged by its first bytes, or is larger than MaxPicture.
func PictureID(data []byte) string {
	if len(data) > MaxPicture || PictureType(data) == "" {
		return ""
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// PictureType returns the media type of a PNG, JPEG, GIF or WebP image, judged
// by its first bytes; "" for any other content.
func PictureType(data []byte) string {
	begins := func(s string) bool { return bytes.HasPrefix(data, []byte(s)) }
	switch {
	case begins("\x89PNG\r\n\x1a\n"):
		return "image/png"
	case begins("\xff\xd8\xff"):
		return "image/jpeg"
	case begins("GIF87a"), begins("GIF89a"):
		return "image/gif"
	case begins("RIFF") && len(data) >= 12 && string(data[8:12]) == "WEBP":
		return "image/webp"
	}
	return ""
}

// IsPictureID reports whether id has the form of a result of [PictureID].
func IsPictureID(id string) bool {
	return len(id) == hex.EncodedLen(sha256.Size) && strings.Trim(id, "0123456789abcdef") == ""
}

// Pictures returns the ids of the pictures that an event names.
func Pictures(b Body) (ids []string) {
	done, ok := b.(ItemDone)
	if !ok {
		return nil
	}
	m, ok := done.FinalItem.(Message)
	if !ok {
		return nil
	}
	for _, a := range m.Attachments {
		if a.Picture != "" {
			ids = append(ids, a.Picture)
		}
	}
	return ids
}

// A PictureLine is the line with the content of a picture in an exported
// session. It follows the line of the first event that names the picture.
type PictureLine struct {
	Type    string `json:"type"` // PictureLineType
	Session string `json:"sessionId"`
	Picture string `json:"picture"`
	Data    []byte `json:"data"`
}

// PictureLineType is the type of a [PictureLine].
const PictureLineType = "picture"
