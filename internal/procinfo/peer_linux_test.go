package procinfo

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/runnel-dev/runnel/internal/testload"
)

// connection returns both ends of a connection. This process made the far end.
func connection(t *testing.T) (near, far *net.UnixConn) {
	t.Helper()
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "s"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	far, err = net.DialUnix("unix", nil, ln.Addr().(*net.UnixAddr))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { far.Close() })
	near, err = ln.AcceptUnix()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { near.Close() })
	return near, far
}

func inode(t *testing.T, c *net.UnixConn) uint64 {
	t.Helper()
	rc, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var st syscall.Stat_t
	if cerr := rc.Control(func(fd uintptr) { err = syscall.Fstat(int(fd), &st) }); cerr != nil || err != nil {
		t.Fatal(cerr, err)
	}
	return st.Ino
}

func TestPeerOfLivingProcessIsVerified(t *testing.T) {
	near, far := connection(t)
	for name, of := range map[string]struct {
		get func(*net.UnixConn) (*Peer, error)
		c   *net.UnixConn
	}{"caller": {Caller, near}, "listener": {Listener, far}} {
		p, err := of.get(of.c)
		if err != nil {
			t.Fatal(name, err)
		}
		if p.Pid != os.Getpid() || p.UID != os.Geteuid() {
			t.Errorf("%s: %+v", name, p)
		}
		if err := p.Verify(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		p.Close()
	}
}

func TestSocketOfPeerIsTheOtherEnd(t *testing.T) {
	near, far := connection(t)
	got, err := socketOfPeer(near)
	if want := inode(t, far); err != nil || got != want {
		t.Errorf("got %d, %v; want %d", got, err, want)
	}
	if held, err := HoldsSocket(os.Getpid(), got); !held || err != nil {
		t.Errorf("held by this process: %v, %v", held, err)
	}
	far.Close()
	if got, err := socketOfPeer(near); err == nil {
		t.Errorf("of a closed end: %d", got)
	}
	if held, err := HoldsSocket(os.Getpid(), got); held || err != nil {
		t.Errorf("held after it was closed: %v, %v", held, err)
	}
}

// On a system without peer handles, Verify accepts a caller only if the caller
// has a descriptor of its end of the connection.
func TestCallerWithoutItsSocketIsNotVerified(t *testing.T) {
	near, far := connection(t)
	h, err := OpenHandle(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	p := &Peer{Pid: os.Getpid(), UID: os.Geteuid(), Unsure: true, handle: h, socket: inode(t, far)}
	if err := p.Verify(); err != nil {
		t.Errorf("a caller that holds it: %v", err)
	}
	far.Close()
	for _, mayHide := range []bool{false, true} { // no difference, because this process does not hide its descriptors
		if p.MayHide = mayHide; !errors.Is(p.Verify(), errPeerHides) {
			t.Errorf("a caller that does not hold it: %v", p.Verify())
		}
	}
	near.Close()
}

func TestLineageOfOwnProcess(t *testing.T) {
	line, err := Lineage(os.Getpid())
	if err != nil || len(line) < 2 || line[0].Pid != os.Getpid() || line[1].Pid != os.Getppid() || line[0].Supervisor {
		t.Errorf("%+v, %v", line, err)
	}
	if !connected(line) {
		t.Error("the lineage is not what it was")
	}
	line[1].Pid = 1 << 30
	if connected(line) {
		t.Error("another parent was not noticed")
	}
}

func TestEndedProcessIsReported(t *testing.T) {
	cmd := exec.Command("cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	h, err := OpenHandle(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	if h.Ended() {
		t.Error("it runs")
	}
	in.Close()
	_ = cmd.Wait()
	if !h.Ended() {
		t.Error("it has ended")
	}
	if _, err := Lineage(cmd.Process.Pid); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("lineage: %v", err)
	}
	if !Supervised(cmd.Process.Pid) {
		t.Error("a process that is gone may be an agent's")
	}
}

func TestMalformedAnswersOfTheKernel(t *testing.T) {
	message := func(kind uint16, body ...byte) []byte {
		b := binary.NativeEndian.AppendUint32(nil, uint32(unix.NLMSG_HDRLEN+len(body)))
		b = binary.NativeEndian.AppendUint16(b, kind)
		return append(append(b, make([]byte, unix.NLMSG_HDRLEN-len(b))...), body...)
	}
	attribute := func(size, kind uint16, value uint32) []byte {
		b := binary.NativeEndian.AppendUint16(make([]byte, unixDiagAnswer), size)
		b = binary.NativeEndian.AppendUint16(b, kind)
		return binary.NativeEndian.AppendUint32(b, value)
	}
	if got, err := parsePeer(message(sockDiagByFamily, attribute(8, unixDiagPeer, 77)...)); got != 77 || err != nil {
		t.Errorf("got %d, %v", got, err)
	}
	for name, answer := range map[string][]byte{
		"empty": nil, "header": message(sockDiagByFamily), "no attribute": message(sockDiagByFamily, make([]byte, unixDiagAnswer)...),
		"another attribute": message(sockDiagByFamily, attribute(8, 1, 77)...), "no length": message(sockDiagByFamily, attribute(0, unixDiagPeer, 77)...),
		"too long": message(sockDiagByFamily, attribute(99, unixDiagPeer, 77)...), "too short": message(sockDiagByFamily, attribute(6, unixDiagPeer, 77)...),
		"error": message(unix.NLMSG_ERROR, bytes.Repeat([]byte{0xff}, 4)...),
	} {
		if got, err := parsePeer(answer); err == nil {
			t.Errorf("%s: %d", name, got)
		}
	}
}

func TestParseOwner(t *testing.T) {
	for status, want := range map[string]int{
		"Name:\tx\nUid:\t1000\t1001\t1002\t1003\nGid:\t7\t7\t7\t7\n": 1001, "Uid:\tx\ty\n": -1, "Uid:\t5": -1, "": -1,
	} {
		if got := parseOwner([]byte(status)); got != want {
			t.Errorf("%q: %d, want %d", status, got, want)
		}
	}
	if got := Owner(os.Getpid()); got != os.Geteuid() {
		t.Errorf("own: %d", got)
	}
}

// loseMainThread ends the first thread of this process.
func loseMainThread() {
	for {
		go func() {
			runtime.LockOSThread()
			if unix.Gettid() == os.Getpid() {
				unix.Syscall(unix.SYS_EXIT, 0, 0, 0)
			}
			select {}
		}()
		if st, err := ReadStat(os.Getpid()); err == nil && st.Ending {
			return
		}
	}
}

// The system shows no descriptors of a process whose first thread has ended,
// although its other threads have them.
func TestThreadsMayHoldSocketsAfterTheFirstHasEnded(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	file, err := ln.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var st syscall.Stat_t
	if err := syscall.Fstat(int(file.Fd()), &st); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleVar+"=headless")
	cmd.ExtraFiles = []*os.File{file}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { in.Close(); _ = cmd.Wait() }()
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	pid, begin := cmd.Process.Pid, time.Now()
	for range 20 {
		if !MayHold(pid, st.Ino) {
			t.Fatal("its socket was not found")
		}
		if MayHold(pid, 1) {
			t.Fatal("it may hold a socket that does not exist")
		}
	}
	testload.Within(t, "checking it 40 times", begin, time.Second)
}
