package claude

import (
	"strconv"

	"github.com/runnel-dev/runnel/internal/translate"
)

// Short names for constants that the tests use often.
const (
	allowOnce    = translate.AllowOnce
	allowSession = translate.AllowSession
	deny         = translate.Deny
	denyStop     = translate.DenyStop
	option       = translate.OptionPrefix
)

func itoa(n int) string { return strconv.Itoa(n) }

func digest(arguments []byte) string { return translate.Digest(arguments) }

func decodeLenient[T any](data []byte) T { return translate.DecodeLenient[T](data) }
