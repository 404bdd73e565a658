package translate

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strings"

	"github.com/google/uuid"

	"github.com/runnel-dev/runnel/event"
)

// Derive returns a UUID derived from a native id. The same provider and id
// always give the same UUID.
func Derive(provider, native string) string {
	return uuid.NewSHA1(uuid.NameSpaceOID, []byte(provider+" "+native)).String()
}

// Key returns a native id in a form that can be part of an item's id: the
// native id itself if it is short and plain, otherwise a UUID derived from it.
func Key(provider, native string) string {
	if len(native) > 100 || strings.ContainsFunc(native, func(r rune) bool { return r <= ' ' || r == '/' || r > '~' }) {
		return Derive(provider, native)
	}
	return native
}

// Digest returns the SHA-256 of a question's arguments, in hex.
func Digest(arguments []byte) string {
	sum := sha256.Sum256(arguments)
	return hex.EncodeToString(sum[:])
}

// Base64Size returns the number of bytes that a base64 text encodes.
func Base64Size(text string) int64 {
	padding := strings.Count(text[max(0, len(text)-2):], "=")
	return int64(max(len(text)/4*3-padding, 0))
}

// Picture returns the id of an image in base64, or "" if the text encodes no
// picture; see [event.PictureID]. It calls keep, unless keep is nil, with the
// image.
func Picture(text string, keep func(data []byte)) string {
	if text == "" || Base64Size(text) > event.MaxPicture {
		return ""
	}
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return ""
	}
	id := event.PictureID(data)
	if id != "" && keep != nil {
		keep(data)
	}
	return id
}
