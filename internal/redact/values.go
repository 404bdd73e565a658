package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	// minValue is the minimum length of a value in bytes. Shorter values occur
	// in ordinary text.
	minValue = 8
	// plainWord is the minimum length of a value that has only lower-case
	// letters or only digits.
	plainWord = 16
	// maxValue bounds a value, in bytes. Only the first maxValue bytes of a
	// longer value are searched for and redacted.
	maxValue = 16 << 10
)

// distinct reports whether v can be distinguished from ordinary text.
func distinct(v string) bool {
	if len(v) < minValue || strings.Contains(Marker, v) {
		return false
	}
	first, _ := utf8.DecodeRuneInString(v)
	only := func(in func(r rune) bool) bool { return !strings.ContainsFunc(v, func(r rune) bool { return !in(r) }) }
	if only(func(r rune) bool { return r == first }) {
		return false
	}
	if only(func(r rune) bool { return r >= 'a' && r <= 'z' }) || only(func(r rune) bool { return r >= '0' && r <= '9' }) {
		return len(v) >= plainWord
	}
	return true
}

// forms are the strings to search for.
type forms struct{ plain, encoded *set }

func compile(values []string) *forms {
	var plain, encoded []string
	for _, v := range values {
		v = v[:min(len(v), maxValue)]
		plain = append(plain, plainForms(v)...)
		encoded = append(encoded, encodedForms(v)...)
	}
	return &forms{newSet(compact(plain), false), newSet(compact(encoded), true)}
}

// in reports whether s contains one of the strings, or ends in a prefix that
// counts as one.
func (f *forms) in(s string) bool {
	if f == nil {
		return false
	}
	st := Stream{stages: []stage{&matcher{set: f.plain}, &matcher{set: f.encoded}}}
	return st.Append(s)+st.End() != s
}

func compact(words []string) []string {
	slices.Sort(words)
	return slices.Compact(words)
}

// plainForms returns v unchanged and escaped. It returns nothing for a v that
// is not UTF-8, because texts are split between characters; such a v is found
// only in its encodings.
func plainForms(v string) []string {
	if !utf8.ValidString(v) {
		return nil
	}
	query, path := url.QueryEscape(v), url.PathEscape(v)
	out := []string{v, query, path, lowerEscapes(query), lowerEscapes(path)}
	if quoted, err := json.Marshal(v); err == nil {
		out = append(out, string(quoted[1:len(quoted)-1]))
	}
	var buf strings.Builder
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if enc.Encode(v) == nil {
		s := strings.TrimSuffix(buf.String(), "\n")
		out = append(out, s[1:len(s)-1], strings.ReplaceAll(s[1:len(s)-1], "/", `\/`))
	}
	return out
}

// lowerEscapes changes escapes such as %2F to %2f.
func lowerEscapes(s string) string {
	b := []byte(s)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			copy(b[i+1:], strings.ToLower(s[i+1:i+3]))
			i += 2
		}
	}
	return string(b)
}

// encodedForms returns v in hexadecimal and in base64. The base64 form depends
// on the offset of v in the encoded data, so there is one for each offset,
// reduced to the characters that v alone determines.
func encodedForms(v string) []string {
	low := hex.EncodeToString([]byte(v))
	out := []string{low, strings.ToUpper(low)}
	for shift := range 3 {
		from, to := (8*shift+5)/6, (8*shift+8*len(v))/6
		data := append(make([]byte, shift, shift+len(v)+2), v...)
		data = append(data, 0, 0)
		for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
			out = append(out, enc.EncodeToString(data)[from:to])
		}
	}
	return out
}

// Env returns the secret values of an environment with entries NAME=value: the
// values of variables with secret names, and the passwords in URLs.
func Env(environ []string) []string {
	var out []string
	for _, entry := range environ {
		if name, value, ok := strings.Cut(entry, "="); ok {
			out = append(out, named(name, value)...)
		}
	}
	return out
}

// JSON returns the secret values of a JSON configuration, at any depth: the
// strings under secret names, and the passwords in URLs.
func JSON(doc []byte) []string {
	var v any
	dec := json.NewDecoder(bytes.NewReader(doc))
	dec.UseNumber() // a number too large for a float64 must not make Decode fail
	if dec.Decode(&v) != nil {
		return nil
	}
	var out []string
	var walk func(name string, v any)
	walk = func(name string, v any) {
		switch v := v.(type) {
		case string:
			out = append(out, named(name, v)...)
		case []any:
			for _, e := range v {
				walk(name, e)
			}
		case map[string]any:
			for n, e := range v {
				walk(n, e)
			}
		}
	}
	walk("", v)
	return out
}

// named returns the secret parts of a variable's value.
func named(name, value string) []string {
	var out []string
	if u, err := url.Parse(value); err == nil && u.User != nil {
		if pw, ok := u.User.Password(); ok {
			out = append(out, pw)
		}
	}
	if !secretName(name) {
		return out
	}
	out = append(out, value)
	if trimmed := strings.TrimSpace(value); trimmed != value {
		out = append(out, trimmed)
	}
	for line := range strings.Lines(value) { // "Authorization: Bearer x"; there may be several lines
		if _, v, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			v = strings.TrimSpace(v)
			out = append(out, v)
			value = v
		}
		if _, v, ok := strings.Cut(strings.TrimSpace(value), " "); ok {
			out = append(out, v)
		}
	}
	return out
}

// secretWords are name parts that mark a secret. notSecret are last name parts
// that mark a location or a number instead.
var (
	secretWords = []string{
		"KEY", "APIKEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASS", "PWD", "PASSPHRASE", "CREDENTIAL", "CREDENTIALS",
		"AUTH", "AUTHORIZATION", "BEARER", "COOKIE", "PRIVATE", "DSN", "HEADERS", "PAT",
	}
	notSecret = []string{"FILE", "PATH", "DIR", "SOCK", "ID", "COUNT", "LIMIT", "SIZE", "TTL", "TIMEOUT", "URL", "URI", "HELPER"}
)

func secretName(name string) bool {
	switch name = strings.ToUpper(name); name {
	case "PWD", "OLDPWD", "GOOGLE_APPLICATION_CREDENTIALS":
		return false
	}
	parts := strings.FieldsFunc(name, func(r rune) bool { return r == '_' || r == '-' || r == '.' })
	if len(parts) == 0 || slices.Contains(notSecret, parts[len(parts)-1]) {
		return false
	}
	return slices.ContainsFunc(parts, func(p string) bool {
		if slices.Contains(secretWords, p) {
			return true
		}
		for _, w := range []string{"APIKEY", "ACCESSKEY", "SECRET", "PASSWORD", "TOKEN"} { // accessToken, DBPASSWORD
			if strings.HasSuffix(p, w) {
				return true
			}
		}
		return false
	})
}
