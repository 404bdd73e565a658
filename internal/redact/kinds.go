package redact

import (
	"bytes"
	"strings"
)

// A keyKind describes the form of one kind of key.
type keyKind struct {
	prefix string
	body   *class
	min    int  // minimum number of bytes of body
	alone  bool // the key does not begin within a word
}

// keyKinds lists the kinds of keys that are recognised by their prefix. They
// come from public rule sets (Gitleaks, TruffleHog, GitHub's secret scanning).
var keyKinds = []keyKind{
	// Models
	{"sk-ant-", token, 8, false},
	{"sk-", token, 20, true},
	{"AIza", token, 35, true},
	{"gsk_", alnum, 40, true},
	{"hf_", alnum, 30, true},
	{"pplx-", alnum, 40, true},
	{"r8_", alnum, 36, true},
	{"xai-", alnum, 60, true},

	// Code, packages and images
	{"ghp_", alnum, 20, false}, {"gho_", alnum, 20, false}, {"ghu_", alnum, 20, false}, {"ghs_", alnum, 20, false}, {"ghr_", alnum, 20, false},
	{"github_pat_", word, 20, false},
	{"glpat-", token, 20, false}, {"glptt-", token, 20, true}, {"gldt-", token, 20, true}, {"glrt-", token, 20, true},
	{"glcbt-", token, 20, true}, {"glft-", token, 20, true}, {"glsoat-", token, 20, true}, {"glagent-", token, 20, true}, {"gloas-", token, 20, true},
	{"npm_", alnum, 36, true},
	{"pypi-AgE", token, 50, true},
	{"rubygems_", hexes, 48, true},
	{"dckr_pat_", token, 27, true},
	{"ATATT3", chars(letters + digits + "_-="), 100, true},
	{"lin_api_", alnum, 40, true},
	{"figd_", token, 40, true},
	{"PMAK-", dashed, 59, true},

	// Clouds and services
	{"AKIA", chars(upper + digits), 16, true}, {"ASIA", chars(upper + digits), 16, true},
	{"ya29.", dotted, 20, true},
	{"GOCSPX-", token, 28, true},
	{"dop_v1_", hexes, 64, true}, {"doo_v1_", hexes, 64, true}, {"dor_v1_", hexes, 64, true},
	{"hvs.", token, 24, true}, {"hvb.", token, 90, true},
	{"dp.pt.", alnum, 40, true},
	{"pul-", hexes, 40, true},
	{"dapi", hexes, 32, true},
	{"pscale_tkn_", dotted, 32, true}, {"pscale_pw_", dotted, 32, true},
	{"glsa_", word, 40, true}, {"glc_", chars(letters + digits + "+/="), 32, true},
	{"NRAK-", chars(upper + digits), 27, true},
	{"sntrys_", chars(letters + digits + "+/=_"), 60, true}, {"sntryu_", hexes, 64, true},

	// Payment, mail and chat
	{"sk_live_", alnum, 10, true}, {"sk_test_", alnum, 10, true}, {"sk_prod_", alnum, 10, true},
	{"rk_live_", alnum, 10, true}, {"rk_test_", alnum, 10, true}, {"rk_prod_", alnum, 10, true},
	{"whsec_", chars(letters + digits + "+/="), 32, true},
	{"shpat_", hexes, 32, true}, {"shpca_", hexes, 32, true}, {"shppa_", hexes, 32, true}, {"shpss_", hexes, 32, true},
	{"sq0atp-", token, 22, true}, {"sq0csp-", token, 43, true},
	{"SG.", dotted, 60, true},
	{"SK", chars("0123456789abcdef"), 32, true},
	{"xoxa-", dashed, 10, false}, {"xoxb-", dashed, 10, false}, {"xoxe-", dashed, 10, false},
	{"xoxo-", dashed, 10, false}, {"xoxp-", dashed, 10, false}, {"xoxr-", dashed, 10, false}, {"xoxs-", dashed, 10, false},
	{"xapp-", dashed, 10, false},
	{"hooks.slack.com/services/", chars(letters + digits + "/+"), 40, false},

	// Files
	{"AGE-SECRET-KEY-", chars(upper + digits + "-"), 58, true},

	// Our own
	{"rnl_", token, 20, false},
}

// headers are the names of headers with secret values.
var headers = []string{"authorization", "x-api-key"}

// byFirst holds the keyKinds by the first byte of their prefix.
var byFirst = func() (by [256][]keyKind) {
	for _, l := range keyKinds {
		by[l.prefix[0]] = append(by[l.prefix[0]], l)
	}
	return by
}()

// begins and pairs select the positions to check: by one byte, and by two
// bytes.
var begins, pairs = func() (c class, p [256][4]uint64) {
	mark := func(a, b byte) {
		c[a] = true
		p[a][b>>6] |= 1 << (b & 63)
	}
	for _, l := range keyKinds {
		mark(l.prefix[0], l.prefix[1])
	}
	for _, h := range headers {
		for _, form := range []string{h, strings.ToUpper(h)} {
			mark(form[0], h[1])
			mark(form[0], strings.ToUpper(h)[1])
		}
	}
	mark('-', '-') // a private key
	mark(':', '/') // a URL
	mark(':', '\\')
	mark('e', 'y') // a web token
	return c, p
}()

// mayBegin reports whether a secret may begin at buf[i].
func mayBegin(buf []byte, i int) bool {
	a := buf[i]
	if !begins[a] {
		return false
	}
	if i+1 == len(buf) {
		return true
	}
	b := buf[i+1]
	return pairs[a][b>>6]>>(b&63)&1 == 1
}

// Bounds for the check of a URL and of a web token.
const (
	maxUser     = 128
	minPassword = 3
	maxPassword = 256
	minPart     = 10
	maxPart     = 512
)

// userinfo is the set of bytes in the user name and password of a URL.
var userinfo = func() *class {
	c := new(class)
	for b := '!'; b <= '~'; b++ {
		c[b] = !bytes.ContainsRune([]byte("\"'`\\/?#<>@[]{}|^"), b)
	}
	return c
}()

// address checks whether text continues a URL after its scheme with a password:
// "://NAME:PASSWORD@". The password begins after keep bytes and ends before
// past.
func address(text []byte, final bool) (v verdict, keep, past int) {
	open := no
	if !final {
		open = more
	}
	i := 1
	for range 2 { // slashes, which JSON may escape
		if i < len(text) && text[i] == '\\' {
			i++
		}
		switch {
		case i >= len(text):
			return open, 0, 0
		case text[i] != '/':
			return no, 0, 0
		}
		i++
	}
	user := i
	for i < len(text) && userinfo[text[i]] && text[i] != ':' && i-user < maxUser {
		i++
	}
	if i == len(text) {
		return open, 0, 0
	}
	if text[i] != ':' {
		return no, 0, 0
	}
	i++
	keep = i
	for i < len(text) && userinfo[text[i]] && i-keep < maxPassword {
		i++
	}
	const digest = "@sha256:" // of an image reference: the preceding part is a version
	switch rest := text[i:]; {
	case i > keep && (text[keep] == '$' || text[keep] == '%' || text[keep] == '*'): // a placeholder for a password
		return no, 0, 0
	case len(rest) == 0:
		return open, 0, 0
	case rest[0] == ellipsis[0] && !isPort(text[keep:i]):
		return cutOff(i-keep, rest, final), keep, i
	case rest[0] != '@' || i-keep < minPassword, bytes.HasPrefix(rest, []byte(digest)):
		return no, 0, 0
	case open == more && len(rest) < len(digest) && bytes.HasPrefix([]byte(digest), rest):
		return more, 0, 0
	}
	return yes, keep, i
}

// isPort reports whether text may be a port number.
func isPort(text []byte) bool {
	return len(text) <= len("65535") && len(bytes.Trim(text, digits)) == 0
}

// webToken checks whether text begins with a JSON web token: two base64 parts
// that are JSON objects, and a signature.
func webToken(text []byte, final bool) (v verdict, past int) {
	open := no
	if !final {
		open = more
	}
	i := 0
	for part := range 2 {
		for _, b := range []byte("ey") {
			switch {
			case i == len(text):
				return open, 0
			case text[i] != b:
				return no, 0
			}
			i++
		}
		begin := i
		for i < len(text) && token[text[i]] && i-begin < maxPart && (part == 0 || i-begin < minPart) {
			i++
		}
		switch {
		case part == 1 && i-begin == minPart:
			return yes, i
		case i == len(text):
			return open, 0
		case part == 1 && text[i] == ellipsis[0]:
			return cutOff(i-begin, text[i:], final), i
		case part == 1 || i-begin < minPart || text[i] != '.':
			return no, 0
		}
		i++
	}
	return no, 0
}
