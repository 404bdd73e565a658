//go:build linux

package hostile

import (
	"bytes"
	"encoding/json"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
)

// A valuePool holds values that the server accepts, by the names of properties
// and parameters. It learns ids from responses.
type valuePool struct {
	mu    sync.Mutex
	known map[string][]any
}

const pooled = 48 // maximum number of values of a name

func newValuePool(w *world) *valuePool {
	texts := []any{"hello", plan{Deltas: 3}.prompt(), plan{Deltas: 1, Ask: true}.prompt(), " ", "ünï©ode \u202e 💥"}
	return &valuePool{known: map[string][]any{
		"cliType":    {"script", "script", "script", "script", "script", "script", "claude", "claude-code", "codex"},
		"projectDir": {w.project, w.project, w.project, w.project + "/", w.dir}, "projectRoot": {w.project, w.project, w.dir},
		"projectId": {"*", w.project}, "addDirs": {[]any{w.dir}, []any{}}, "path": {w.project + "/note.txt", w.project + "/none.txt"},
		"viewFilePath": {w.project + "/note.txt"}, "content": texts, "message": texts,
		"scopes": {[]any{"read"}, []any{"read", "send", "approve"}, []any{"admin"}}, "name": {"fuzzed", "note.txt", "image.png"},
		"lifeDays": {0, 1, 30}, "model": {"default", "opus"}, "permissionMode": {"default", "acceptEdits", "plan", "dontAsk", "bypass"},
		"reasoningEffort": {"low", "high"}, "choice": {"allow", "deny"}, "streamProtocol": {"upsert-v1", "events-v1", "upsert-v1", "events-v1", ""},
		"format": {"md", "json", "jsonl"}, "refresh": {"1", "true"}, "all": {"1", "true", "false"}, "onDisconnect": {"detach", "cancel"},
		"after": {0, 1, 5}, "limit": {1, 10, 1000}, "Last-Event-ID": {"0", "3"}, "nonce": {strings.Repeat("n", 30)},
		"turnId":          {"", "", "", "01890a5d-ac96-774b-bcce-b302099a8057", "9e0bf65a-d1bb-4ba9-bdc4-3543065d331a", "one"},
		"Idempotency-Key": {"a", "b"}, "idempotencyKey": {"", "", "a", "b"},
		"newOrigin": {false}, // a new origin would end the browser's credential
	}}
}

// add adds a value. If the name has the maximum number of values, it replaces a
// random one.
func (p *valuePool) add(rnd *rand.Rand, name string, v any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if have := p.known[name]; len(have) >= pooled {
		have[rnd.IntN(len(have))] = v
	} else {
		p.known[name] = append(have, v)
	}
}

// forget drops the values of a name.
func (p *valuePool) forget(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.known, name)
}

// of returns the values of a name.
func (p *valuePool) of(name string) []any {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.known[name])
}

// learn adds the ids in a response to the pool.
func (p *valuePool) learn(rnd *rand.Rand, path string, body []byte) {
	var v any
	if json.Unmarshal(body, &v) != nil {
		return
	}
	if o, ok := v.(object); ok && path == "/api/tokens" && o["id"] != nil {
		p.add(rnd, "tokenId", o["id"])
	}
	p.walk(rnd, v)
}

func (p *valuePool) walk(rnd *rand.Rand, v any) {
	switch v := v.(type) {
	case []any:
		for _, e := range v[max(0, len(v)-8):] {
			p.walk(rnd, e)
		}
	case object:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if text, ok := v[name].(string); ok && slices.Contains([]string{"sessionId", "uploadId", "approvalId", "argumentsDigest", "code"}, name) {
				p.add(rnd, name, text)
			} else if a, ok := v[name].(object); ok && name == "approval" && a["id"] != nil {
				p.add(rnd, "approvalId", a["id"])
			}
			p.walk(rnd, v[name])
		}
	}
}

// The kinds of values, by how far they are from their schema.
const (
	valid = iota
	nearly
	hostile
)

// A maker makes random values. It belongs to one goroutine.
type maker struct {
	*rand.Rand
	doc  *apiDocument
	pool *valuePool
	deep bool // the request must reach its handler, so only its body may be invalid
}

// odds returns true with a probability of 1/n.
func (m *maker) odds(n int) bool { return m.IntN(n) == 0 }

func pick[T any](m *maker, from []T) T { return from[m.IntN(len(from))] }

// kind returns the kind of the next value. Half of the values are valid, so
// that they pass the first checks of the server.
func (m *maker) kind() int { return pick(m, []int{valid, valid, valid, nearly, nearly, hostile}) }

// body returns the body of a request for a schema. kind decides how far it is
// from the schema.
func (m *maker) body(s *apiSchema, kind int) []byte {
	if kind == hostile && m.odds(2) {
		return m.notJSON()
	}
	v := m.value("", s, 0)
	switch kind {
	case nearly:
		v = m.change(v, 0)
	case hostile:
		v = m.hostileValue(0)
	}
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // only a defect of this test makes such a value
	}
	if kind != valid && m.odds(4) {
		text = m.damage(text)
	}
	return text
}

// value returns a value that fits a schema.
func (m *maker) value(name string, s *apiSchema, depth int) any {
	if known := m.pool.of(name); len(known) > 0 {
		return pick(m, known)
	}
	s = m.doc.resolve(s)
	switch {
	case s == nil || depth > 6:
		return m.hostileValue(depth)
	case len(s.Enum) > 0:
		return pick(m, s.Enum)
	case len(s.OneOf) > 0:
		return m.value(name, pick(m, s.OneOf), depth+1)
	}
	typ := s.Type
	if several, ok := typ.([]any); ok && len(several) > 0 {
		typ = pick(m, several)
	}
	switch typ {
	case "string":
		return m.text()
	case "integer", "number":
		return m.IntN(100)
	case "boolean":
		return m.odds(2)
	case "array":
		list := []any{}
		for range m.IntN(4) {
			list = append(list, m.value("", s.Items, depth+1))
		}
		return list
	case "object":
		o := object{}
		for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
			if slices.Contains(s.Required, name) || name == "content" || m.odds(5) {
				o[name] = m.value(name, s.Properties[name], depth+1)
			}
		}
		return o
	}
	return nil
}

// text returns a random text: ordinary, hostile or very long.
func (m *maker) text() string {
	switch m.IntN(12) {
	case 0:
		return strings.Repeat(pick(m, hostileTexts()), 1+m.IntN(200))
	case 1:
		return strings.Repeat("x", 1<<m.IntN(18))
	case 2, 3, 4:
		return pick(m, hostileTexts())
	}
	return pick(m, []string{"word", "two words", "0", "00000000-0000-4000-8000-000000000000"})
}

func hostileTexts() []string {
	return []string{
		"", " ", "\x00", "\n", "..", "../../../../etc/passwd", "/etc/passwd", "/proc/self/environ", "/dev/zero", "~", "file:///etc/passwd", "C:\\", "*", "%", "%00", "%2e%2e%2f",
		"'; drop table sessions; --", "\" or 1=1", "<script>alert(1)</script>", "{{.}}", "${HOME}", "$(id)", "`id`", "-rf", "--help", "\u202e", "\ufeff", "\u2028", "\U0010ffff", "a\u0301",
		"true", "null", "NaN", "-1", "9223372036854775807", "9223372036854775808", "1e9", "0x10", "1.5", "undefined", "__proto__", "constructor", "\x1b[31m", "\r\nSet-Cookie: a=b", "rnl_", "#c=",
	}
}

// hostileValue returns a random value of any type.
func (m *maker) hostileValue(depth int) any {
	n := 11
	if depth > 4 {
		n = 8
	}
	switch m.IntN(n) {
	case 0:
		return nil
	case 1:
		return m.odds(2)
	case 2:
		return json.RawMessage(pick(m, []string{"-1", "0", "-0", "1.5", "1e400", "-9223372036854775809", "9223372036854775808", "1e-400", strings.Repeat("9", 300)}))
	case 3, 4, 5, 6, 7:
		return m.text()
	case 8, 9:
		o := object{}
		for range m.IntN(4) {
			o[m.text()] = m.hostileValue(depth + 1)
		}
		return o
	}
	list := make([]any, m.IntN(5))
	for i := range list {
		list[i] = m.hostileValue(depth + 1)
	}
	return list
}

// change returns a copy of v that differs in one place.
func (m *maker) change(v any, depth int) any {
	o, ok := v.(object)
	if !ok || len(o) == 0 || m.odds(8) {
		if list, ok := v.([]any); ok && len(list) > 0 && !m.odds(3) {
			list = slices.Clone(list)
			i := m.IntN(len(list))
			list[i] = m.change(list[i], depth+1)
			return list
		}
		return m.hostileValue(depth)
	}
	o = maps.Clone(o)
	name := pick(m, slices.Sorted(maps.Keys(o)))
	switch m.IntN(6) {
	case 0:
		delete(o, name)
	case 1:
		o[m.text()] = m.hostileValue(depth + 1)
	case 2:
		o[strings.ToUpper(name)] = o[name]
	default:
		if name != "newOrigin" { // see newValuePool
			o[name] = m.change(o[name], depth+1)
		}
	}
	return o
}

// notJSON returns bytes that a strict JSON decoder rejects, such as unclosed
// brackets, invalid UTF-8, duplicate names or only spaces.
func (m *maker) notJSON() []byte {
	switch m.IntN(8) {
	case 0:
		return bytes.Repeat([]byte("["), 1<<m.IntN(16))
	case 1:
		return bytes.Repeat([]byte(`{"a":`), 1<<m.IntN(14))
	case 2:
		return []byte("\xef\xbb\xbf{}")
	case 3:
		return []byte(`{"sessionId":"a","sessionId":"b"}`)
	case 4:
		return []byte("{\"message\":\"\xff\xfe\xed\xa0\x80\"}")
	case 5:
		return bytes.Repeat([]byte{' '}, 1<<20+m.IntN(3)-1)
	}
	junk := make([]byte, m.IntN(200))
	for i := range junk {
		junk[i] = byte(m.Uint32())
	}
	return junk
}

// damage returns text with some bytes lost, doubled or replaced.
func (m *maker) damage(text []byte) []byte {
	text = slices.Clone(text)
	for range 1 + m.IntN(3) {
		if len(text) == 0 {
			return text
		}
		at := m.IntN(len(text))
		to := min(len(text), at+1+m.IntN(8))
		switch m.IntN(5) {
		case 0:
			text[at] ^= 1 << m.IntN(8)
		case 1:
			text = slices.Delete(text, at, to)
		case 2:
			text = slices.Insert(text, at, slices.Clone(text[at:to])...)
		case 3:
			text = slices.Insert(text, at, pick(m, []byte("\x00\xff\r\n\t \"\\{}[],:%")))
		case 4:
			text = text[:at]
		}
	}
	return text
}
