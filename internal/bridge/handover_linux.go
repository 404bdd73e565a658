package bridge

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// A handover is one message on the proxy's unix socket, to which a program's
// connection is attached: the secret, and in five digits the loopback port of
// the machine to which the program connects. Port 0 means that the program
// connects to no port, but sends a request to the proxy.
const portDigits = 5

// Hand sends a program's connection to the proxy. The caller then closes both
// connections; that of the program stays open in the proxy.
func Hand(proxy *net.UnixConn, secret string, port int, program *net.TCPConn) error {
	raw, err := program.SyscallConn()
	if err != nil {
		return err
	}
	message := fmt.Appendf(nil, "%s%0*d", secret, portDigits, port)
	inner := raw.Control(func(fd uintptr) {
		_, _, err = proxy.WriteMsgUnix(message, unix.UnixRights(int(fd)), nil)
	})
	return errors.Join(err, inner)
}

var (
	errSecret   = errors.New("bridge: the secret is wrong")
	errHandover = errors.New("bridge: the message has no connection of a program")
)

// Receive is the reverse of Hand, at the proxy.
func Receive(from *net.UnixConn, secret string) (program *net.TCPConn, port int, err error) {
	message, files, err := receive(from, len(secret)+portDigits)
	defer func() {
		for _, f := range files {
			_ = f.Close() // program is a duplicate
		}
	}()
	if err != nil {
		return nil, 0, err
	}
	if subtle.ConstantTimeCompare(message[:len(secret)], []byte(secret)) != 1 {
		return nil, 0, errSecret
	}
	if port, err = strconv.Atoi(string(message[len(secret):])); err != nil || port < 0 || len(files) != 1 {
		return nil, 0, errHandover
	}
	c, err := net.FileConn(files[0])
	if err != nil {
		return nil, 0, err
	}
	program, ok := c.(*net.TCPConn)
	if !ok {
		_ = c.Close()
		return nil, 0, errHandover
	}
	return program, port, nil
}

// receive reads a message of size bytes and the files that are attached to it.
// The bridge sends both at once, and the kernel does not divide them. A program
// in the sandbox can connect, too: further messages could attach further files
// before the secret is known to be wrong. The caller closes the files, also
// those that come with an error.
func receive(from *net.UnixConn, size int) (message []byte, files []*os.File, err error) {
	message = make([]byte, size)
	room := make([]byte, unix.CmsgSpace(4)) // for one descriptor; the kernel closes further ones
	n, attached, _, _, err := from.ReadMsgUnix(message, room)
	files = filesIn(room[:attached])
	if err == nil && n < size {
		err = errHandover
	}
	return message, files, err
}

func filesIn(attached []byte) (files []*os.File) {
	messages, err := syscall.ParseSocketControlMessage(attached)
	if err != nil {
		return nil
	}
	for _, m := range messages {
		fds, err := syscall.ParseUnixRights(&m)
		if err != nil {
			continue
		}
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "program"))
		}
	}
	return files
}
