package conns

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/runnel-dev/runnel"
)

// TLS returns a listener of connections with TLS. It accepts connections from
// ln, which should be a [Listener], and returns each one after its handshake,
// which may take as long as timeout. The connections use HTTP/2 if the client
// offers that.
//
// An [http.Server] could make TLS connections itself. Over HTTP/1.1 it would
// write its own responses to requests that it cannot parse, and nothing could
// convert them after their encryption. TLS returns connections that convert
// them, as those of a [Listener] without TLS do. The server must get them
// through Serve.
//
// certificate returns the certificate for each handshake.
//
// TLS calls failed with the error of each handshake that fails; failed must not
// block.
func TLS(ln net.Listener, certificate Certificate, timeout time.Duration, failed func(remote net.Addr, err error)) net.Listener {
	ctx, stop := context.WithCancel(context.Background())
	l := &tlsListener{
		Listener: ln, config: &tls.Config{GetCertificate: certificate, NextProtos: []string{http2, "http/1.1"}},
		timeout: timeout, failed: failed, accepted: make(chan accepted), ctx: ctx, stop: stop,
	}
	go l.run() // ends when the listener is closed
	return l
}

// A Certificate returns the certificate for a handshake, as GetCertificate of a
// [tls.Config] does. It may be called concurrently and must not block.
type Certificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error)

// Always returns a Certificate that returns cert for every handshake.
func Always(cert tls.Certificate) Certificate {
	return func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &cert, nil }
}

// http2 is the name of HTTP/2 in a handshake.
const http2 = "h2"

type tlsListener struct {
	net.Listener
	config   *tls.Config
	timeout  time.Duration
	failed   func(remote net.Addr, err error)
	accepted chan accepted
	ctx      context.Context // ends when the listener is closed
	stop     context.CancelFunc
}

// accepted is a result of Accept.
type accepted struct {
	conn net.Conn
	err  error
}

// Accept implements [net.Listener].
func (l *tlsListener) Accept() (net.Conn, error) {
	select {
	case a := <-l.accepted:
		return a.conn, a.err
	case <-l.ctx.Done():
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener]. It closes the connections whose handshake
// has not ended.
func (l *tlsListener) Close() error {
	l.stop()
	return l.Listener.Close()
}

// run accepts connections until the listener is closed. After an error it waits
// for the next call of Accept, whose caller decides how long to wait.
func (l *tlsListener) run() {
	for l.ctx.Err() == nil {
		raw, err := l.Listener.Accept()
		if err == nil {
			go l.handshake(raw) // ends after the timeout at the latest, or when the listener is closed
			continue
		}
		select {
		case l.accepted <- accepted{err: err}:
		case <-l.ctx.Done():
		}
	}
}

// handshake makes the handshake on a connection, and passes the connection to
// Accept.
func (l *tlsListener) handshake(raw net.Conn) {
	ctx, cancel := context.WithTimeout(l.ctx, l.timeout)
	defer cancel()
	conn := tls.Server(raw, l.config)
	if err := conn.HandshakeContext(ctx); err != nil {
		if speaksHTTP(err) {
			_, _ = raw.Write(answer(http.StatusBadRequest, runnel.Fail(runnel.InvalidRequest, "this port speaks HTTPS: use https:// in the URL"))) // does not block: fits into the socket's empty send buffer
		}
		_ = raw.Close()
		if l.ctx.Err() == nil {
			l.failed(raw.RemoteAddr(), err)
		}
		return
	}
	a := accepted{conn: conn}
	if conn.ConnectionState().NegotiatedProtocol != http2 { // only for HTTP/2, net/http needs a *tls.Conn
		a.conn = &tlsConn{conn, of(raw)}
	}
	select {
	case l.accepted <- a:
	case <-l.ctx.Done():
		_ = raw.Close()
	}
}

// speaksHTTP reports whether a handshake failed because the client sent a
// request of HTTP without TLS.
func speaksHTTP(err error) bool {
	head, ok := errors.AsType[tls.RecordHeaderError](err)
	return ok && head.Conn != nil && slices.Contains([]string{"GET /", "HEAD ", "POST ", "PUT /", "OPTIO"}, string(head.RecordHeader[:]))
}

// A tlsConn is a connection with TLS and HTTP/1.1.
type tlsConn struct {
	*tls.Conn
	below *Conn // the connection below TLS; nil if it is not a Conn
}

// Write implements [net.Conn]. It converts responses as [Conn.Write] does.
func (c *tlsConn) Write(p []byte) (int, error) {
	if c.below == nil {
		return c.Conn.Write(p)
	}
	return c.below.convert(p, c.Conn.Write)
}
