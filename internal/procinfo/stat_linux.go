package procinfo

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A Stat is what /proc/PID/stat shows everyone of a process.
type Stat struct {
	Pid        int
	Parent     int
	Group      int    // of processes
	Session    int    // of the system, not of ours
	Start      uint64 // when it started, in clock ticks since the system did
	Dead       bool   // it has ended, and may wait to be reaped
	HasEnviron bool   // the kernel has set up its environment
}

// statSize is more than any /proc/PID/stat needs: 52 numbers and a short name.
const statSize = 2048

// ReadStat returns the stat of a process. The error is that of the system, such
// as fs.ErrNotExist, or says that the stat is malformed.
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
	fieldEnvEnd  = 51
)

var errMalformed = errors.New("malformed stat of a process")

// ParseStat parses a /proc/PID/stat. The program's name, its second field in
// parentheses, may hold anything. Of a process that is being removed the kernel
// reports group and session -1, which become 0.
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
	// A first thread that ended looks like a zombie while other threads go on.
	state := fields[0][0]
	return Stat{
		Pid: pid, Parent: int(parent), Group: int(group), Session: int(session), Start: start,
		Dead:       state == 'X' || state == 'Z' && threads <= 1,
		HasEnviron: len(fields) > fieldEnvEnd-fieldState && string(fields[fieldEnvEnd-fieldState]) != "0",
	}, nil
}

// ReadFile reads as much of a file of /proc/PID as buf holds, and returns that
// part of buf.
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

// Pids returns the numbers of all processes, in the order in which the kernel
// lists them: rising. With an error the list may be incomplete.
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

// argsSize is more than the first two words of a supervisor's command line need.
const argsSize = 256

// IsSupervisor reports whether a process is a supervisor, by its command line,
// which everyone can read of every process. It reads no more of it than the
// beginning: the rest may be megabytes that an agent chose.
func IsSupervisor(pid int) (bool, error) {
	_, ok, err := supervisedBy(pid)
	return ok, err
}

// Supervises reports whether a process is the supervisor of this session.
func Supervises(pid int, session string) bool {
	its, ok, _ := supervisedBy(pid)
	return ok && its == session
}

// SessionOf returns the session that a process supervises; "" if it does not.
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

// HasArgument reports whether an argument is at the beginning of the command
// line of a process.
func HasArgument(pid int, argument string) bool {
	var buf [argsSize]byte
	line, err := ReadFile(pid, "cmdline", buf[:])
	return err == nil && slices.Contains(strings.Split(string(line), "\x00")[1:], argument)
}

// Marks returns the marks, as NAME=value, in the environment that a process
// began with. It returns none of a process that it may not look into.
func Marks(pid int) (marks []string) {
	env, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	for entry := range bytes.SplitSeq(env, []byte{0}) {
		if IsMark(entry) {
			marks = append(marks, string(entry))
		}
	}
	return marks
}

// HasPidfds reports whether the system has pidfds that can be waited for (Linux
// since 5.4). Without them there are no supervisors.
func HasPidfds() bool {
	fd, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	err = unix.Waitid(unix.P_PIDFD, fd, nil, unix.WEXITED|unix.WNOHANG, nil)
	return errors.Is(err, unix.ECHILD) // this process is not its own child
}

// parseOwner returns the effective user in a /proc/PID/status; -1 if there is
// none. The file of the directory belongs to root if the process hides itself.
func parseOwner(status []byte) int {
	for line := range bytes.Lines(status) {
		if rest, ok := bytes.CutPrefix(line, []byte("Uid:")); ok {
			if ids := bytes.Fields(rest); len(ids) > 1 { // real, effective, saved, of the file system
				if uid, err := strconv.Atoi(string(ids[1])); err == nil {
					return uid
				}
			}
		}
	}
	return -1
}
