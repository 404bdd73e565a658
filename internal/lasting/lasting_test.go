package lasting

import (
	"errors"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
)

// failing is a listener whose first calls of Accept fail.
type failing struct {
	net.Listener
	left atomic.Int32
	err  error
}

func (f *failing) Accept() (net.Conn, error) {
	if f.left.Add(-1) >= 0 {
		return nil, f.err
	}
	return f.Listener.Accept()
}

func TestServerOutlivesErrorsThatPass(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.ENOSPC, syscall.ENOMEM, syscall.EMFILE} {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		f := &failing{Listener: ln, err: &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", errno)}}
		f.left.Store(2)
		s := &http.Server{Handler: http.NotFoundHandler()}
		ended := make(chan error, 1)
		go func() { ended <- s.Serve(Listener(f)) }()
		if res, err := http.Get("http://" + ln.Addr().String()); err != nil || res.Body.Close() != nil {
			t.Errorf("after %v: %v", errno, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("after %v, the server ended: %v", errno, err)
		}
	}
}

func TestClosedListenerEndsTheServer(t *testing.T) {
	for _, want := range []error{net.ErrClosed, syscall.EBADF} {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		f := &failing{Listener: ln, err: want}
		f.left.Store(1)
		if err := new(http.Server).Serve(Listener(f)); !errors.Is(err, want) {
			t.Errorf("the server ended with %v, want %v", err, want)
		}
	}
}
