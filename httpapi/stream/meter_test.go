package stream

import (
	"bytes"
	"errors"
	"io"
	"net"
	"testing"
	"testing/iotest"
	"time"
)

// A scripted is a connection from which a test's bytes are read.
type scripted struct {
	net.Conn
	io.Reader
}

func (s scripted) Read(p []byte) (int, error) { return s.Reader.Read(p) }

func masked(head byte, payload string) []byte {
	key := []byte{1, 2, 3, 4}
	out := append([]byte{head, 0x80 | byte(len(payload))}, key...)
	for i := range len(payload) {
		out = append(out, payload[i]^key[i%4])
	}
	return out
}

// A meter passes on what precedes a bad frame and nothing of what follows,
// however the bytes are split.
func TestMeterStopsAtTheBadFrame(t *testing.T) {
	good := bytes.Join([][]byte{masked(0x81, "text"), masked(0x89, "ping"), masked(0x01, "a"), masked(0x80, "b")}, nil)
	many := bytes.Repeat(masked(0x00, ""), 3)
	behind := masked(0x81, "behind")
	for name, tt := range map[string]struct {
		frames, want []byte
		err          error
	}{
		"all good":             {good, good, nil},
		"a good close":         {masked(0x88, "\x03\xe8gr\xc3\xbc\xc3\x9fe"), masked(0x88, "\x03\xe8gr\xc3\xbc\xc3\x9fe"), nil},
		"a close with no code": {masked(0x88, ""), masked(0x88, ""), nil},
		"a bad close":          {bytes.Join([][]byte{good, masked(0x88, "\x03\xe8\xff"), behind}, nil), good, errUTF8},
		"too many fragments":   {bytes.Join([][]byte{good, many, behind}, nil), append(bytes.Clone(good), masked(0x00, "")...), errFragments},
	} {
		for how, r := range map[string]io.Reader{
			"at once": bytes.NewReader(tt.frames), "byte by byte": iotest.OneByteReader(bytes.NewReader(tt.frames)), "halves": iotest.HalfReader(bytes.NewReader(tt.frames)),
		} {
			var failed error
			m := &meter{Conn: scripted{Reader: r}, most: 2, since: time.Now().Add(time.Hour), failed: func(err error) { failed = err }}
			got, err := io.ReadAll(m)
			if how != "at once" && tt.err != nil { // the library may have read the beginning of the bad frame
				got = got[:min(len(got), len(tt.want))]
			}
			if err != nil || !bytes.Equal(got, tt.want) || !errors.Is(failed, tt.err) {
				t.Errorf("%s, %s: passed %d bytes of %d, want %d, and %v, want %v", name, how, len(got), len(tt.frames), len(tt.want), failed, tt.err)
			}
		}
	}
}

func TestUnreadCutsTheOldestLargeMessage(t *testing.T) {
	reached := 0
	u := unread{limit: 3 * largeMessage, reached: func() { reached++ }}
	var cut []int
	begin := func(n, size int) func() { return u.begin(size, func() { cut = append(cut, n) }) }
	ends := []func(){begin(0, largeMessage-1), begin(1, largeMessage), begin(2, largeMessage), begin(3, largeMessage)}
	if len(cut) != 0 {
		t.Errorf("cut %v, all of which fit", cut)
	}
	ends = append(ends, begin(4, 2*largeMessage))
	if len(cut) != 2 || cut[0] != 1 || cut[1] != 2 || reached != 2 {
		t.Errorf("cut %v, want the oldest two; reached %d times", cut, reached)
	}
	for _, end := range ends {
		end()
	}
	if u.bytes != 0 || u.writing.Len() != 0 {
		t.Errorf("%d bytes in %d messages are left", u.bytes, u.writing.Len())
	}
}
