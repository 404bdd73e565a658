package push

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"syscall"
	"time"

	"github.com/runnel-dev/runnel/internal/publicip"
)

// Limits of the connection to a push service.
const (
	maxEndpoint = 2048             // bytes of an address
	sendTimeout = 20 * time.Second // of one attempt
	maxAnswer   = 16 << 10         // bytes of the headers of an answer; its body is not read
)

var errPrivate = errors.New("the push service has a private address")

// checkEndpoint checks the address of a push service. It must have TLS and a
// name, because a client could otherwise make this server send requests into
// the local network. What the name resolves to is checked when a connection is
// made. With loopback, an address of this machine is accepted without TLS, too.
func checkEndpoint(endpoint string, loopback bool) error {
	if len(endpoint) > maxEndpoint {
		return fmt.Errorf("want at most %d bytes", maxEndpoint)
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" || u.Opaque != "" || u.User != nil || u.Fragment != "" || u.String() != endpoint {
		return errors.New("want an absolute https URL without user and fragment")
	}
	addr, err := netip.ParseAddr(u.Hostname())
	literal := err == nil
	if loopback && u.Scheme == "http" && (u.Hostname() == "localhost" || literal && addr.Unmap().IsLoopback()) {
		return nil
	}
	switch {
	case u.Scheme != "https":
		return errors.New("want an https URL")
	case literal:
		return errors.New("want the name of a push service, not an IP address")
	case u.Port() != "" && u.Port() != "443":
		return errors.New("want port 443")
	}
	return nil
}

// newClient returns the client for push services. It connects to public
// addresses only, follows no redirects and uses no proxy, because a proxy would
// connect to any address.
func newClient(loopback bool) *http.Client {
	dialer := &net.Dialer{Timeout: 10 * time.Second, Control: func(_, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return err
		}
		if addr := at.Addr().Unmap(); publicip.Is(addr) || loopback && addr.IsLoopback() {
			return nil
		}
		return errPrivate
	}}
	return &http.Client{
		Timeout:       sendTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DialContext: dialer.DialContext, ForceAttemptHTTP2: true, DisableCompression: true,
			TLSHandshakeTimeout: 10 * time.Second, MaxResponseHeaderBytes: maxAnswer,
			MaxIdleConns: maxSending, MaxConnsPerHost: maxSending, IdleConnTimeout: 30 * time.Second,
		},
	}
}
