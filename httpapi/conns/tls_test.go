package conns

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/big"
	"net"
	"testing"
	"time"
)

// newCertificate returns a self-signed certificate.
func newCertificate(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// A secure is a listener with TLS and the errors of its handshakes.
type secure struct {
	t *testing.T
	net.Listener
	failed chan error
}

func listenTLS(t *testing.T, timeout time.Duration) *secure {
	t.Helper()
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &secure{t: t, failed: make(chan error, 10)}
	s.Listener = TLS(Limit(ln, Limits{100, 100}, func(string) {}), Always(newCertificate(t)), timeout, func(_ net.Addr, err error) { s.failed <- err })
	t.Cleanup(func() { s.Close() })
	return s
}

// dial connects without a handshake.
func (s *secure) dial() net.Conn {
	s.t.Helper()
	c, err := new(net.Dialer).DialContext(s.t.Context(), "tcp", s.Addr().String())
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		s.t.Fatal(err)
	}
	return c
}

// connect connects with TLS, and returns both ends of the connection.
func (s *secure) connect(protocols ...string) (client *tls.Conn, server net.Conn) {
	s.t.Helper()
	client = tls.Client(s.dial(), &tls.Config{InsecureSkipVerify: true, NextProtos: protocols})
	if err := client.HandshakeContext(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	server, err := s.Accept()
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { server.Close() })
	return client, server
}

func TestSlowHandshakeBlocksNobody(t *testing.T) {
	s := listenTLS(t, time.Minute)
	slow := s.dial()
	s.connect()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := slow.Read(make([]byte, 1)); err == nil {
		t.Error("the connection of a slow handshake is open after the listener was closed")
	}
	if _, err := s.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("accept after close: %v", err)
	}
}

func TestHandshakeTimesOut(t *testing.T) {
	s := listenTLS(t, 10*time.Millisecond)
	slow := s.dial()
	if _, err := slow.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("read: %v", err)
	}
	if err := <-s.failed; !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("failed with %v", err)
	}
}

// Only a *tls.Conn can use HTTP/2 with net/http, and only another type can
// convert responses.
func TestTLSConvertsResponsesOfHTTP1Only(t *testing.T) {
	s := listenTLS(t, time.Minute)
	_, two := s.connect("h2", "http/1.1")
	if _, ok := two.(*tls.Conn); !ok {
		t.Errorf("HTTP/2 uses a %T", two)
	}
	for _, protocols := range [][]string{nil, {"http/1.1"}} {
		client, server := s.connect(protocols...)
		if of(server) == nil {
			t.Fatalf("a %T belongs to no listener", server)
		}
		said := "HTTP/1.1 400 Bad Request" + plainHead + "400 Bad Request"
		if n, err := server.Write([]byte(said)); err != nil || n != len(said) {
			t.Fatalf("wrote %d, %v", n, err)
		}
		if err := server.Close(); err != nil {
			t.Fatal(err)
		}
		want, _ := inShape([]byte(said))
		if got, err := io.ReadAll(client); err != nil || string(got) != string(want) {
			t.Errorf("%q, %v", got, err)
		}
	}
}
