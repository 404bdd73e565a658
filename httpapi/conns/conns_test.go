package conns

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// A listener accepts the connections that a test puts into its channel in.
type listener struct{ in chan net.Conn }

func (l *listener) Accept() (net.Conn, error) {
	c, ok := <-l.in
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}
func (l *listener) Close() error   { close(l.in); return nil }
func (l *listener) Addr() net.Addr { return &net.TCPAddr{} }

// A conn records that it was closed, and what was written to it.
type conn struct {
	net.Conn
	from   string
	closed bool
	got    strings.Builder
}

func (c *conn) RemoteAddr() net.Addr        { return &net.TCPAddr{IP: net.ParseIP(c.from), Port: 1} }
func (c *conn) Close() error                { c.closed = true; return nil }
func (c *conn) Write(p []byte) (int, error) { return c.got.Write(p) }

// A door is a Listener with its connections, in the order in which they were
// accepted.
type door struct {
	t       *testing.T
	l       *Listener
	in      chan net.Conn
	raw     []*conn
	conns   []net.Conn
	reached []string
}

func open(t *testing.T, limits Limits) *door {
	d := &door{t: t, in: make(chan net.Conn, 1)}
	d.l = Limit(&listener{d.in}, limits, func(setting string) { d.reached = append(d.reached, setting) })
	return d
}

// come connects from an address. It returns the number of the connection.
func (d *door) come(from string) int {
	d.t.Helper()
	c := &conn{from: from}
	d.raw = append(d.raw, c)
	d.in <- c
	accepted, err := d.l.Accept()
	if err != nil {
		d.t.Fatal(err)
	}
	d.conns = append(d.conns, accepted)
	return len(d.conns) - 1
}

// knock connects from an address. It fails the test unless the Listener rejects
// the connection.
func (d *door) knock(from string) *conn {
	d.t.Helper()
	c := &conn{from: from}
	d.in <- c
	close(d.in)
	if _, err := d.l.Accept(); err == nil {
		d.t.Fatal("let in")
	}
	return c
}

func (d *door) closed() (numbers []int) {
	for i, c := range d.raw {
		if c.closed {
			numbers = append(numbers, i)
		}
	}
	return numbers
}

func request(c net.Conn) *http.Request {
	return (&http.Request{}).WithContext(WithConn(context.Background(), c))
}

func TestOldestStrangerOfTheMostFrequentAddressMakesRoom(t *testing.T) {
	d := open(t, Limits{Open: 100, Unauthenticated: 4})
	d.come("192.0.2.1")
	d.come("192.0.2.2")
	d.come("192.0.2.2")
	Authenticated(request(d.conns[d.come("192.0.2.2")])) // does not count as unauthenticated any more
	d.come("192.0.2.2")
	d.come("192.0.2.3")
	if got := d.closed(); len(got) != 1 || got[0] != 1 {
		t.Errorf("closed %v, want the first of the address with the most", got)
	}
	if open, unauthenticated := d.l.Counts(); open != 5 || unauthenticated != 4 {
		t.Errorf("%d open, %d without a credential", open, unauthenticated)
	}
	if len(d.reached) != 1 || d.reached[0] != MaxUnauthenticatedConnections {
		t.Errorf("reached %v", d.reached)
	}
}

func TestIdleConnectionMakesRoomAndABusyOneDoesNot(t *testing.T) {
	d := open(t, Limits{Open: 2, Unauthenticated: 2})
	for range 2 {
		c := d.conns[d.come("192.0.2.1")]
		State(c, http.StateActive)
		Authenticated(request(c))
	}
	State(d.conns[1], http.StateIdle)
	c := d.conns[d.come("192.0.2.2")]
	if got := d.closed(); len(got) != 1 || got[0] != 1 {
		t.Errorf("closed %v, want the idle one", got)
	}
	Authenticated(request(c))
	refused := d.knock("192.0.2.3")
	res, err := http.ReadResponse(bufio.NewReader(strings.NewReader(refused.got.String())), nil)
	if err != nil || res.StatusCode != http.StatusServiceUnavailable || !refused.closed {
		t.Errorf("got %v %q", err, refused.got.String())
	}
	_ = d.conns[0].Close()
	_ = d.conns[0].Close() // closing twice counts once
	if open, unauthenticated := d.l.Counts(); open != 1 || unauthenticated != 0 {
		t.Errorf("%d open, %d without a credential", open, unauthenticated)
	}
}

// A limit that admits nobody closes the new connection itself.
func TestLimitOfZeroAdmitsNobody(t *testing.T) {
	for setting, limits := range map[string]Limits{
		MaxUnauthenticatedConnections: {Open: 2},
		MaxConnections:                {Unauthenticated: 2},
	} {
		d := open(t, limits)
		refused := d.knock("192.0.2.1")
		if !refused.closed || !strings.Contains(refused.got.String(), setting+": 0") {
			t.Errorf("%s: closed: %v, got %q", setting, refused.closed, refused.got.String())
		}
		if open, unauthenticated := d.l.Counts(); open != 0 || unauthenticated != 0 || len(d.reached) != 1 || d.reached[0] != setting {
			t.Errorf("%s: %d open, %d without a credential; reached %v", setting, open, unauthenticated, d.reached)
		}
	}
}

// Only answers of net/http itself are converted, and never an answer that a
// handler has begun, whatever it contains.
func TestOnlyAnswersOfTheTransportChangeTheirForm(t *testing.T) {
	const plain = "HTTP/1.1 400 Bad Request" + plainHead + "400 Bad Request"
	d := open(t, Limits{Open: 2, Unauthenticated: 2})
	c := d.conns[d.come("192.0.2.1")]
	Answering(request(c))
	_, _ = io.WriteString(c, plain)
	State(c, http.StateIdle)
	_, _ = io.WriteString(c, plain)
	changed, ok := strings.CutPrefix(d.raw[0].got.String(), plain)
	if !ok || strings.Contains(changed, "text/plain") || !strings.HasSuffix(changed, "}}\n") {
		t.Errorf("got %q", d.raw[0].got.String())
	}
}
