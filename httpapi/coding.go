package httpapi

import (
	"strconv"
	"strings"
)

// A coding is a content coding of HTTP. The build of the page stores each large
// file a second and third time, compressed, under its name and the coding's
// extension.
//
// The server does not compress the answers of the API: such an answer can hold
// a secret beside text of an attacker, and the length of the compressed answer
// would then reveal the secret (BREACH). The files of the page are the same for
// everybody and hold no secret. The library of /metrics compresses its answers,
// which hold neither secrets nor text of clients.
type coding struct{ name, ext string }

var (
	identity = coding{name: "identity"}
	// The smallest files first: of two codings that a client accepts equally,
	// it gets the first.
	compressed = []coding{{"br", ".br"}, {"gzip", ".gz"}}
)

// unlisted is the weight of the identity coding if the client's header lists
// neither it nor *. It is below every weight that a header can give.
const unlisted = 0.0001

// negotiate returns the coding that the client prefers for a file. The file is
// stored uncompressed and in the codings of stored. negotiate reports false if
// the client accepts none of them. values are those of the request's
// Accept-Encoding headers.
func negotiate(values []string, stored []coding) (best coding, ok bool) {
	weights := make(map[string]float64)
	for item := range strings.SplitSeq(strings.Join(values, ","), ",") {
		name, params, _ := strings.Cut(item, ";")
		name = strings.ToLower(strings.TrimSpace(name))
		if name == "x-gzip" { // its name before HTTP/1.1
			name = "gzip"
		}
		weights[name] = weight(params)
	}
	of := func(name string, missing float64) float64 {
		if w, ok := weights[name]; ok {
			return w
		}
		if w, ok := weights["*"]; ok {
			return w
		}
		return missing
	}
	var most float64
	for _, c := range stored {
		if w := of(c.name, 0); w > most {
			best, most = c, w
		}
	}
	if w := of(identity.name, unlisted); w > most {
		best, most = identity, w
	}
	return best, most > 0
}

// weight returns the weight of a coding from its parameters, such as q=0.5. It
// is 1 without parameters. A coding with an invalid weight is not used.
func weight(params string) float64 {
	if strings.TrimSpace(params) == "" {
		return 1
	}
	name, value, _ := strings.Cut(params, "=")
	w, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
	if strings.EqualFold(strings.TrimSpace(name), "q") && err == nil && w >= 0 && w <= 1 { // NaN is neither
		return w
	}
	return 0
}
