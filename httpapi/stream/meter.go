package stream

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"time"
	"unicode/utf8"
)

// A handshake is the ResponseWriter for a WebSocket upgrade. If the upgrade
// fails, it keeps the error answer instead of writing it. If the upgrade
// succeeds, it has a meter read the connection.
type handshake struct {
	http.ResponseWriter
	meter  *meter
	status int    // of an upgrade that failed
	why    []byte // text of its answer
}

func (h *handshake) WriteHeader(status int) {
	if status < http.StatusBadRequest {
		h.ResponseWriter.WriteHeader(status)
		return
	}
	h.status = status
}

func (h *handshake) Write(p []byte) (int, error) {
	if h.status == 0 {
		return h.ResponseWriter.Write(p)
	}
	h.why = append(h.why, p...)
	return len(p), nil
}

// Hijack implements [http.Hijacker].
func (h *handshake) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(h.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	early, _ := rw.Reader.Peek(rw.Reader.Buffered()) // frames that arrived with the request
	h.meter.Conn, h.meter.early = conn, append([]byte(nil), early...)
	rw.Reader.Reset(h.meter)
	return h.meter, rw, nil
}

// A frame whose payload has fewer than smallFragment bytes counts as small.
const smallFragment = 64

// A meter checks the frames of a client before the WebSocket library reads
// them. It detects what the library accepts: a close reason that is not UTF-8,
// and too many small frames in a second that complete no message.
type meter struct {
	net.Conn
	early  []byte          // read before the connection was upgraded
	most   int             // small frames allowed in a second
	failed func(err error) // called once; later bytes of the client are discarded
	over   bool

	header  [14]byte
	have    int    // bytes of the header read so far
	left    uint64 // bytes of the payload not read yet
	closing []byte // payload of a close frame so far; nil in other frames
	n       int    // small frames since the time below
	since   time.Time
}

var errUTF8 = errors.New("httpapi: a close reason that is not UTF-8")

func (m *meter) Read(p []byte) (int, error) {
	for {
		n, err := m.next(p)
		if m.over {
			n = 0
		} else if passed, bad := m.scan(p[:n]); bad != nil {
			m.over, n = true, passed
			m.failed(bad)
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
}

func (m *meter) next(p []byte) (int, error) {
	if len(m.early) > 0 {
		n := copy(p, m.early)
		m.early = m.early[n:]
		return n, nil
	}
	n, err := m.Conn.Read(p)
	if n == 0 && err == nil && len(p) > 0 {
		err = io.ErrNoProgress
	}
	return n, err
}

// scan parses the frames in p. With an error it returns how many bytes of p
// precede the frame that caused it.
func (m *meter) scan(p []byte) (passed int, err error) {
	for at := 0; at < len(p); {
		if m.left > 0 {
			n := int(min(m.left, uint64(len(p)-at)))
			if m.closing != nil {
				m.closing = append(m.closing, p[at:at+n]...)
			}
			at, m.left = at+n, m.left-uint64(n)
		} else {
			m.header[m.have] = p[at]
			at, m.have = at+1, m.have+1
			if m.have < m.headerSize() {
				continue
			}
			if err := m.begin(); err != nil {
				return passed, err
			}
		}
		if m.left == 0 {
			if err := m.end(); err != nil {
				return passed, err
			}
			passed = at
		}
	}
	return len(p), nil
}

// The parts of a frame's header (RFC 6455, section 5.2).
const (
	finBit   = 0x80
	opBits   = 0x0f
	maskBit  = 0x80
	sizeBits = 0x7f

	opClose    = 0x8
	opPing     = 0x9
	opPong     = 0xa
	maxControl = 125 // bytes of a control frame
)

func (m *meter) headerSize() int {
	if m.have < 2 {
		return 2
	}
	size := 2
	switch m.header[1] & sizeBits {
	case 126:
		size += 2
	case 127:
		size += 8
	}
	if m.header[1]&maskBit != 0 {
		size += 4
	}
	return size
}

// begin handles the whole header of a frame.
func (m *meter) begin() error {
	switch size := m.header[1] & sizeBits; size {
	case 126:
		m.left = uint64(binary.BigEndian.Uint16(m.header[2:]))
	case 127:
		m.left = binary.BigEndian.Uint64(m.header[2:])
	default:
		m.left = uint64(size)
	}
	op, whole := m.header[0]&opBits, m.header[0]&finBit != 0
	if op == opClose && m.left <= maxControl {
		m.closing = make([]byte, 0, m.left)
	}
	if op < opClose && whole || op == opClose || op == opPing || m.left >= smallFragment { // pings have their own limit
		return nil
	}
	if now := time.Now(); now.Sub(m.since) >= time.Second {
		m.n, m.since = 0, now
	}
	if m.n++; m.n > m.most {
		return errFragments
	}
	return nil
}

// end handles the last byte of a frame. It returns an error if the frame is a
// close frame whose reason is not valid UTF-8.
func (m *meter) end() error {
	reason := m.closing
	m.closing = nil
	if size := m.headerSize(); reason != nil && m.header[1]&maskBit != 0 {
		for i := range reason {
			reason[i] ^= m.header[size-4+i%4]
		}
	}
	m.have = 0
	if len(reason) > 2 && !utf8.Valid(reason[2:]) { // the first two bytes are the close code
		return errUTF8
	}
	return nil
}
