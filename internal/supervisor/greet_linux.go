package supervisor

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"

	"golang.org/x/sys/unix"
)

// descriptors are those of a welcome, in its order. An entry of -1 belongs to
// another owner.
type descriptors []int

func (d descriptors) close() {
	for _, fd := range d {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}

// take returns a descriptor, which the caller closes.
func (d descriptors) take(i int) int {
	fd := d[i]
	d[i] = -1
	return fd
}

// maxWelcome is the maximum size of a welcome in bytes.
const maxWelcome = 16 << 10

// greet sends a greeting and returns the answer. The caller closes the
// descriptors, also after an error. The answer to a greeting that starts an
// agent may be a failure without descriptors.
func greet(c *net.UnixConn, g greeting) (w welcome, files descriptors, err error) {
	_, unsent := c.Write(appendJSON(nil, kindHello, g)) // the answer contains the reason of a failure
	buf, rights := make([]byte, maxWelcome), make([]byte, unix.CmsgSpace(4*(allFiles+1)))
	n, nr, _, _, err := c.ReadMsgUnix(buf, rights)
	if err != nil {
		return w, nil, errors.Join(err, unsent)
	}
	if messages, err := unix.ParseSocketControlMessage(rights[:nr]); err == nil {
		for _, m := range messages {
			got, _ := unix.ParseUnixRights(&m) // fails for messages without descriptors
			files = append(files, got...)
		}
	}
	if n < headSize || kind(buf[0]) != kindHello {
		return w, files, errors.New("supervisor: no welcome")
	}
	if err := json.Unmarshal(buf[headSize:n], &w); err != nil {
		return w, files, fmt.Errorf("supervisor: welcome: %w", err)
	}
	want := allFiles
	switch {
	case w.Refused != "":
		return w, files, errors.New("supervisor: " + w.Refused)
	case w.Failed != nil:
		want = 0
	case !g.Keeps && g.Start != nil:
		want = spoolFile
	case w.Holds:
		want = heldFile + 1
	}
	if len(files) != want {
		return w, files, fmt.Errorf("supervisor: %d descriptors, not %d", len(files), want)
	}
	return w, files, nil
}

// file reads a descriptor that it does not own.
type file int

// ReadAt implements io.ReaderAt.
func (f file) ReadAt(p []byte, at int64) (n int, err error) {
	for n < len(p) {
		some, err := unix.Pread(int(f), p[n:], at+int64(n))
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return n, err
		case some == 0:
			return n, io.EOF
		default:
			n += some
		}
	}
	return n, nil
}
