package bridge

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A network namespace separates only some kinds of sockets. Through others, such
// as those to the host of a virtual machine (AF_VSOCK), a program would reach
// the network without the proxy.
var families = []uint32{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK}

// A machine is what the filter must know about the system calls of a processor.
// The other processor is the one whose 32-bit programs it also runs.
type machine struct {
	arch, other uint32
	limit       uint32   // numbers from here on belong to another convention (x32)
	ofOther     []uint32 // system calls of the other processor that make sockets, or that refused has
	socket      uint32
	fcntl       uint32
	refused     []uint32 // io_uring_setup, and the system calls for keys
}

const ioUring = 425 // io_uring_setup on every processor; a queue makes sockets without system calls

// fcntlOfOther are fcntl and fcntl64 on both other processors.
var fcntlOfOther = []uint32{55, 221}

// The kernel limits the keys of a user in all sandboxes together. With as many
// keys, a program in one sandbox could prevent leaveKeyring in the others.
var machines = map[string]machine{
	"amd64": {unix.AUDIT_ARCH_X86_64, unix.AUDIT_ARCH_I386, 0x40000000, []uint32{102, 359, ioUring, 286, 287, 288}, 41, 72, []uint32{ioUring, 248, 249, 250}},
	"arm64": {unix.AUDIT_ARCH_AARCH64, unix.AUDIT_ARCH_ARM, 0x40000000, []uint32{102, 281, ioUring, 309, 310, 311}, 198, 25, []uint32{ioUring, 217, 218, 219}},
}

// limitCalls allows the calling thread, and the programs that it starts, only
// sockets of the listed families, and neither keys of the kernel nor leases: a
// program with a lease on a file that it may only read, such as a program or
// the settings of the user, makes everybody who opens the file wait. limitCalls
// keeps the goroutine on the thread. On other processors than those in machines
// it does nothing.
func limitCalls() error {
	runtime.LockOSThread()
	m, ok := machines[runtime.GOARCH]
	if !ok {
		return nil
	}
	filter := m.filter()
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("limit system calls: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0); err != nil {
		return fmt.Errorf("limit system calls: %w", err)
	}
	return nil
}

// Offsets of the fields of struct seccomp_data, on a processor that stores the
// low half of a number first.
const (
	atNumber   = 0
	atArch     = 4
	atArgument = 16 // the first one
	atSecond   = 24
)

// filter returns the program that the kernel runs for each system call.
func (m machine) filter() (out []unix.SockFilter) {
	load := func(at uint32) {
		out = append(out, unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at})
	}
	end := func(with uint32) { out = append(out, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: with}) }
	// unless skips the next n instructions if the loaded number compares with k.
	unless := func(compare uint16, k uint32, n uint8) {
		out = append(out, unix.SockFilter{Code: unix.BPF_JMP | compare | unix.BPF_K, K: k, Jf: n})
	}
	fail := func(with unix.Errno) uint32 { return unix.SECCOMP_RET_ERRNO | uint32(with) }

	const leaseCheck = 5 // instructions of refuseLease
	refuseLease := func(fcntl uint32) {
		unless(unix.BPF_JEQ, fcntl, leaseCheck-1)
		load(atSecond)
		unless(unix.BPF_JEQ, unix.F_SETLEASE, 1)
		end(fail(unix.EINVAL))
		end(unix.SECCOMP_RET_ALLOW)
	}

	load(atArch)
	unless(unix.BPF_JEQ, m.other, uint8(2*len(m.ofOther)+leaseCheck*len(fcntlOfOther)+2)) // to the check of arch
	load(atNumber)
	for _, number := range m.ofOther {
		unless(unix.BPF_JEQ, number, 1)
		end(fail(unix.EAFNOSUPPORT))
	}
	for _, number := range fcntlOfOther {
		refuseLease(number)
	}
	end(unix.SECCOMP_RET_ALLOW)
	out = append(out, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: m.arch, Jt: 1})
	end(fail(unix.ENOSYS))

	load(atNumber)
	unless(unix.BPF_JGE, m.limit, 1)
	end(fail(unix.ENOSYS))
	for _, number := range m.refused {
		unless(unix.BPF_JEQ, number, 1)
		end(fail(unix.ENOSYS))
	}
	refuseLease(m.fcntl)
	unless(unix.BPF_JEQ, m.socket, uint8(2*len(families)+2)) // to the last instruction
	load(atArgument)
	for _, family := range families {
		unless(unix.BPF_JEQ, family, 1)
		end(unix.SECCOMP_RET_ALLOW)
	}
	end(fail(unix.EAFNOSUPPORT))
	end(unix.SECCOMP_RET_ALLOW)
	return out
}
