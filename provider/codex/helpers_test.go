package codex

import (
	"strconv"

	"github.com/runnel-dev/runnel/internal/translate"
)

// Short names for the constants of package translate.
const (
	allowOnce    = translate.AllowOnce
	allowSession = translate.AllowSession
	allowAlways  = translate.AllowAlways
	deny         = translate.Deny
	denyStop     = translate.DenyStop
	option       = translate.OptionPrefix
	maxOpen      = translate.MaxOpen
)

var (
	object = translate.Object
	digest = translate.Digest
	itoa   = strconv.Itoa
)

func decodeLenient[T any](data []byte) T { return translate.DecodeLenient[T](data) }
