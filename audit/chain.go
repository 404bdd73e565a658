package audit

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"hash"
)

// A mac is the code of an entry: the HMAC of the code of the entry before it
// and of its own line.
type mac [sha256.Size]byte

func (m mac) String() string { return hex.EncodeToString(m[:]) }

// A chain makes and checks codes with one key.
type chain struct{ key []byte }

// newChain returns the chain for a secret, which it does not use directly: the
// secret may serve other purposes, too.
func newChain(secret string) chain {
	h := hmac.New(sha256.New, []byte(secret))
	h.Write([]byte("runnel audit log"))
	return chain{h.Sum(nil)}
}

func (c chain) hash() hash.Hash { return hmac.New(sha256.New, c.key) }

// next returns the code of the line after the one with the code prev. text is
// the line without its code.
func (c chain) next(prev mac, text []byte) (m mac) {
	h := c.hash()
	h.Write(prev[:])
	h.Write(text)
	h.Sum(m[:0])
	return m
}

// A line of the log is an object of JSON whose last member is its code.
const (
	codeMember = `,"mac":"`
	codeLength = len(codeMember) + 2*sha256.Size + len(`"}`)
	maxLine    = 8 << 10 // bytes
)

// line returns the line of an entry and its code.
func (c chain) line(prev mac, e Record) ([]byte, mac, error) {
	text, err := json.Marshal(e)
	if err != nil {
		return nil, mac{}, err
	}
	text = text[:len(text)-1] // without the closing brace
	m := c.next(prev, text)
	return append(text, codeMember+m.String()+"\"}\n"...), m, nil
}

// split returns the text and the code of a line without its line break.
func split(line []byte) (text []byte, m mac, err error) {
	at := len(line) - codeLength
	if at < 1 || !bytes.HasPrefix(line[at:], []byte(codeMember)) || !bytes.HasSuffix(line, []byte(`"}`)) {
		return nil, m, errors.New("it is no line of an audit log")
	}
	_, err = hex.Decode(m[:], line[at+len(codeMember):len(line)-2])
	return line[:at], m, err
}

// entry decodes a line. It does not check the code.
func entry(line []byte) (e Record, m mac, err error) {
	if _, m, err = split(line); err == nil {
		err = json.Unmarshal(line, &e)
	}
	return e, m, err
}

// A head is what the log knew last: the number and the code of its last entry,
// and the number of its first one. It is kept apart from the entries, so that
// entries missing at the end are noticed.
type head struct {
	first, n uint64
	last     mac
}

const headSize = 8 + 8 + sha256.Size + sha256.Size

// encode returns the head with its own code.
func (c chain) encode(h head) []byte {
	b := binary.BigEndian.AppendUint64(nil, h.first)
	b = binary.BigEndian.AppendUint64(b, h.n)
	b = append(b, h.last[:]...)
	return append(b, c.codeOfHead(b)...)
}

func (c chain) codeOfHead(b []byte) []byte {
	h := c.hash()
	h.Write([]byte("head"))
	h.Write(b)
	return h.Sum(nil)
}

// decode returns the head in b, or false if b is no head of this key.
func (c chain) decode(b []byte) (h head, ok bool) {
	if len(b) != headSize {
		return h, false
	}
	body := b[:headSize-sha256.Size]
	if !hmac.Equal(b[len(body):], c.codeOfHead(body)) {
		return h, false
	}
	h = head{first: binary.BigEndian.Uint64(body), n: binary.BigEndian.Uint64(body[8:])}
	copy(h.last[:], body[16:])
	return h, true
}
