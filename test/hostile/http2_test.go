//go:build linux

package hostile

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/runnel-dev/runnel/internal/testapi"
)

// useTLS makes the server of w use TLS with a new certificate. Call it before
// start.
func (w *world) useTLS() {
	w.t.Helper()
	cert, key := w.dir+"/cert.pem", w.dir+"/key.pem"
	create := exec.Command("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=runnel", "-keyout", key, "-out", cert)
	if out, err := create.CombinedOutput(); err != nil {
		w.t.Fatalf("openssl: %v %s", err, out)
	}
	if err := os.Chmod(key, 0o600); err != nil {
		w.t.Fatal(err)
	}
	w.flags = append(w.flags, "--tls-cert", cert, "--tls-key", key)
}

// Types and flags of HTTP/2 frames.
const (
	h2Headers, h2Settings, h2Ping = 1, 4, 6
	h2EndStream, h2Ack            = 1, 1
	h2EndHeaders                  = 4
)

// An h2Conn is an HTTP/2 connection on which a test writes frames.
type h2Conn struct {
	t *testing.T
	net.Conn
	next uint32 // id of the next stream
}

// http2 opens an HTTP/2 connection over TLS. The windows of its streams are
// empty, so no body of an answer can be written.
func (w *world) http2() *h2Conn {
	w.t.Helper()
	conn, err := tls.Dial("tcp", w.Addr, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(testapi.Timeout)); err != nil {
		w.t.Fatal(err)
	}
	c := &h2Conn{w.t, conn, 1}
	emptyWindow := []byte{0, 4, 0, 0, 0, 0}
	c.write([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), h2Frame(h2Settings, 0, 0, emptyWindow))
	return c
}

func h2Frame(kind, flags byte, stream uint32, body []byte) []byte {
	head := binary.BigEndian.AppendUint32(nil, uint32(len(body)))[1:]
	head = append(head, kind, flags)
	return append(binary.BigEndian.AppendUint32(head, stream), body...)
}

func (c *h2Conn) write(parts ...[]byte) {
	c.t.Helper()
	if _, err := c.Write(slices.Concat(parts...)); err != nil {
		c.t.Fatal(err)
	}
}

// request sends a request without a body. block is its compressed header.
func (c *h2Conn) request(block []byte) {
	c.t.Helper()
	c.write(h2Frame(h2Headers, h2EndStream|h2EndHeaders, c.next, block))
	c.next += 2
}

// sync returns once the server has read everything that was sent.
func (c *h2Conn) sync() {
	c.t.Helper()
	c.write(h2Frame(h2Ping, 0, 0, make([]byte, 8)))
	c.until(func(kind, flags byte, _ uint32) bool { return kind == h2Ping && flags&h2Ack != 0 })
}

// until reads frames up to one for which found returns true.
func (c *h2Conn) until(found func(kind, flags byte, stream uint32) bool) {
	c.t.Helper()
	for head := make([]byte, 9); ; {
		if _, err := io.ReadFull(c, head); err != nil {
			c.t.Fatal(err)
		}
		if _, err := io.CopyN(io.Discard, c, int64(head[0])<<16|int64(head[1])<<8|int64(head[2])); err != nil {
			c.t.Fatal(err)
		}
		if found(head[3], head[4], binary.BigEndian.Uint32(head[5:])) {
			return
		}
	}
}

// literal returns a header field that is not compressed. If index is true, the
// field enters the table of the connection.
func literal(name, value string, index bool) []byte {
	var b bytes.Buffer
	b.WriteByte(0)
	if index {
		b.Reset()
		b.WriteByte(0x40)
	}
	for _, text := range []string{name, value} {
		n := len(text)
		if n < 127 {
			b.WriteByte(byte(n))
		} else {
			b.WriteByte(127)
			for n -= 127; n >= 128; n >>= 7 {
				b.WriteByte(byte(n) | 128)
			}
			b.WriteByte(byte(n))
		}
		b.WriteString(text)
	}
	return b.Bytes()
}

// TestHeadersOverHTTP2HoldLittleMemory sends requests whose headers are a few
// hundred bytes and stand for a megabyte of cookies, without a credential. The
// HTTP server itself answers them, since the headers are too long or malformed.
// The client does not let it write the answers, so the requests stay in memory.
func TestHeadersOverHTTP2HoldLittleMemory(t *testing.T) {
	const (
		conns, streams = 4, 90
		cookie         = 3500                        // bytes; fits into the table
		field          = cookie + len("cookie") + 32 // as HTTP/2 counts a field
		most           = conns * (8 << 20)           // bytes that the connections may hold
		tooMany        = (1<<20)/field + 10          // cookies beyond every limit
		fits           = (1<<20)/field - 10          // cookies within the limit of net/http
		newest         = 0x80 | 62                   // refers to the newest entry of the table
		forbidden      = "connection"                // malformed in HTTP/2
	)
	for name, c := range map[string]struct {
		cookies int
		extra   []byte
	}{
		"too long":  {tooMany, nil},
		"malformed": {fits, literal(forbidden, "x", false)},
		"no route":  {fits, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil, "60s")
			w.useTLS()
			w.start()
			head := slices.Concat(literal(":method", "GET", false), literal(":scheme", "https", false), literal(":path", "/api/me", false), literal(":authority", w.Addr, false), c.extra)
			w.http2().sync() // the first connection takes memory for TLS
			before, _ := rss(w.cmd.Process.Pid)
			for range conns {
				conn := w.http2()
				for i := range streams {
					first := []byte{newest}
					if i == 0 {
						first = literal("cookie", strings.Repeat("x", cookie), true)
					}
					conn.request(slices.Concat(head, first, bytes.Repeat([]byte{newest}, c.cookies-1)))
				}
				conn.sync()
			}
			after, _ := rss(w.cmd.Process.Pid)
			t.Logf("%d MiB before, %d MiB after", before>>10, after>>10)
			if after-before > most>>10 {
				t.Errorf("%d connections without a credential hold %d MiB, want at most %d", conns, (after-before)>>10, most>>20)
			}
		})
	}
}
