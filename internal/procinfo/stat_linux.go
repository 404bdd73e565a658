package procinfo

import (
	"bytes"
	"errors"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A Stat is the part of /proc/PID/stat that is used. Every user can read it.
type Stat struct {
	Pid        int
	Parent     int
	Group      int    // process group id
	Session    int    // session id of the operating system
	Start      uint64 // start time, in clock ticks since the system's start
	Dead       bool   // has ended; may not be reaped yet
	Ending     bool   // has no memory any more, or never had (a thread of the kernel)
	HasEnviron bool   // the kernel has set up its environment
}

// statSize exceeds the size of every /proc/PID/stat: 52 numbers and a short
// name.
const statSize = 2048

// ReadStat returns the stat of a process. The error is that of the system, such
// as fs.ErrNotExist, or reports a malformed stat.
func ReadStat(pid int) (Stat, error) {
	var buf [statSize]byte
	data, err := ReadFile(pid, "stat", buf[:])
	if err != nil {
		return Stat{}, err
	}
	return ParseStat(data)
}

// The fields of proc(5) that are read.
const (
	fieldState   = 3
	fieldParent  = 4
	fieldGroup   = 5
	fieldSession = 6
	fieldThreads = 20
	fieldStart   = 22
	fieldMemory  = 23
	fieldEnvEnd  = 51
)

var errMalformed = errors.New("malformed stat of a process")

// ParseStat parses the contents of a /proc/PID/stat. The second field, the
// program name in parentheses, may contain any characters. The kernel reports
// group and session -1 for a process that is being removed; ParseStat returns 0
// for them.
func ParseStat(data []byte) (Stat, error) {
	head, _, _ := bytes.Cut(data, []byte(" "))
	fields := bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:])
	if len(fields) <= fieldStart-fieldState {
		return Stat{}, errMalformed
	}
	field := func(i int) (uint64, error) { return strconv.ParseUint(string(fields[i-fieldState]), 10, 64) }
	pid, err1 := strconv.Atoi(string(head))
	parent, err2 := field(fieldParent)
	start, err3 := field(fieldStart)
	if err1 != nil || err2 != nil || err3 != nil {
		return Stat{}, errMalformed
	}
	group, _ := field(fieldGroup)
	session, _ := field(fieldSession)
	threads, _ := field(fieldThreads)
	// A first thread that ended looks like a zombie while other threads run.
	state := fields[0][0]
	return Stat{
		Pid: pid, Parent: int(parent), Group: int(group), Session: int(session), Start: start,
		Dead:       state == 'X' || state == 'Z' && threads <= 1,
		Ending:     len(fields) > fieldMemory-fieldState && string(fields[fieldMemory-fieldState]) == "0",
		HasEnviron: len(fields) > fieldEnvEnd-fieldState && string(fields[fieldEnvEnd-fieldState]) != "0",
	}, nil
}

// ReadFile reads the file name in /proc/PID, up to len(buf) bytes, and returns
// the part of buf that it filled.
func ReadFile(pid int, name string, buf []byte) ([]byte, error) {
	fd, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/"+name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	n := 0
	for n < len(buf) {
		m, err := unix.Read(fd, buf[n:])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if m <= 0 {
			break
		}
		n += m
	}
	return buf[:n], nil
}

// Pids returns the ids of all processes in rising order. If it returns an
// error, the list may be incomplete.
func Pids() ([]int, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	pids := make([]int, 0, len(names))
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids, err
}

// argsSize exceeds the length of the first arguments of a supervisor's command
// line.
const argsSize = 256

// IsSupervisor reports whether a process is a supervisor, by its command line,
// which every user can read. It reads only the beginning, because the rest may
// be megabytes that an agent chose.
func IsSupervisor(pid int) (bool, error) {
	_, ok, err := supervisedBy(pid)
	return ok, err
}

// Supervises reports whether a process is the supervisor of this session.
func Supervises(pid int, session string) bool {
	its, ok, _ := supervisedBy(pid)
	return ok && its == session
}

// SessionOf returns the session that a process supervises, or "".
func SessionOf(pid int) string {
	session, _, _ := supervisedBy(pid)
	return session
}

func supervisedBy(pid int) (session string, ok bool, err error) {
	var buf [argsSize]byte
	line, err := ReadFile(pid, "cmdline", buf[:])
	if err != nil {
		return "", false, err
	}
	session, ok = SupervisedSession(strings.SplitN(string(line), "\x00", 4))
	return session, ok, nil
}

// HasArgument reports whether an argument is in the first argsSize bytes of a
// process's command line.
func HasArgument(pid int, argument string) bool {
	var buf [argsSize]byte
	line, err := ReadFile(pid, "cmdline", buf[:])
	return err == nil && slices.Contains(strings.Split(string(line), "\x00")[1:], argument)
}

// environSize is how much of an environment is searched for marks. A process
// can make the kernel report terabytes as its environment.
const environSize = 256 << 10

// Marks returns the marks, as NAME=value, in the first environSize bytes of the
// initial environment of a process. It returns none if this process may not
// read that environment.
func Marks(pid int) (marks []string) {
	f, err := os.Open("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return nil
	}
	defer f.Close()
	env, _ := io.ReadAll(io.LimitReader(f, environSize))
	for entry := range bytes.SplitSeq(env, []byte{0}) {
		if IsMark(entry) {
			marks = append(marks, string(entry))
		}
	}
	return marks
}

// IsInner reports whether a process is in a pid namespace below that of this
// process, such as in a container.
//
// An agent can enter the namespaces of a container that its user has started.
// If the process that entered them ends, its child in the container gets the
// first process of the container as its parent, and not the agent's supervisor.
// The ancestors of a process in a container therefore do not prove that no
// agent started the process.
func IsInner(pid int) (bool, error) {
	its, err := levels(pid)
	if err != nil {
		return false, err
	}
	ours, err := levels(os.Getpid())
	return its > ours, err
}

// levels returns the number of pid namespaces in which a process has a pid, as
// far as they can be seen from /proc.
func levels(pid int) (int, error) {
	data, err := ReadFile(pid, "status", make([]byte, wholeStatus))
	if err != nil {
		return 0, err
	}
	return parseLevels(data)
}

// wholeStatus exceeds the size of /proc/PID/status, which has the groups of the
// user, unless there are thousands of them.
const wholeStatus = 64 << 10

// parseLevels returns the number of pids in a status.
func parseLevels(status []byte) (int, error) {
	for line := range bytes.Lines(status) {
		if rest, ok := bytes.CutPrefix(line, []byte("NSpid:")); ok && bytes.HasSuffix(rest, []byte("\n")) {
			return len(bytes.Fields(rest)), nil
		}
	}
	return 0, errMalformed
}

// HasPidfds reports whether the system supports waiting for pidfds (Linux since
// 5.4). Supervisors require them.
func HasPidfds() bool {
	fd, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	err = unix.Waitid(unix.P_PIDFD, fd, nil, unix.WEXITED|unix.WNOHANG, nil)
	return errors.Is(err, unix.ECHILD) // this process is not its own child
}

// parseOwner returns the effective user in a /proc/PID/status, or -1. The owner
// of the file itself cannot be used: it is root if the process hides itself.
func parseOwner(status []byte) int {
	for line := range bytes.Lines(status) {
		if rest, ok := bytes.CutPrefix(line, []byte("Uid:")); ok {
			if ids := bytes.Fields(rest); len(ids) > 1 { // ids of the user: real, effective, saved, file system
				if uid, err := strconv.Atoi(string(ids[1])); err == nil {
					return uid
				}
			}
		}
	}
	return -1
}
