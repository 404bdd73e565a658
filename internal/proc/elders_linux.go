package proc

import (
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// elders remembers when processes started. A survey for a tree needs no status
// of a process that is older than the tree's root, because such a process is
// never a descendant. Most processes of a system are, and the kernel takes ten
// times as long to write the status of a process as to find its folder in /proc.
var elders = startTimes{known: make(map[int]startTime)}

// startTimes holds start times by process id.
type startTimes struct {
	mu    sync.Mutex
	known map[int]startTime
}

// startTime is the start time of the process to which a folder in /proc belongs.
type startTime struct {
	folder folder
	start  uint64
}

// folder identifies a folder in /proc permanently. The kernel creates another
// folder for another process with the same id: later, and while the numbers of
// inodes do not wrap around, with another number.
type folder struct {
	inode   uint64
	created unix.Timespec
}

// folderOf returns the folder of the process that has this id now.
func folderOf(pid int) (f folder, ok bool) {
	var st unix.Stat_t
	if err := unix.Stat("/proc/"+strconv.Itoa(pid), &st); err != nil {
		return folder{}, false
	}
	return folder{st.Ino, st.Ctim}, true
}

// older reports whether the process that has this folder is known to have
// started before start.
func (s *startTimes) older(pid int, f folder, start uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	known, ok := s.known[pid]
	return ok && known.folder == f && known.start < start
}

// note remembers the start time of a process. The caller has read f before the
// start time: if the id was reused in between, no process has that folder any
// more.
func (s *startTimes) note(pid int, f folder, start uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known[pid] = startTime{f, start}
}

// keep forgets the processes that are not in pids.
func (s *startTimes) keep(pids []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.known) <= 2*len(pids) {
		return
	}
	known := make(map[int]startTime, len(pids))
	for _, pid := range pids {
		if at, ok := s.known[pid]; ok {
			known[pid] = at
		}
	}
	s.known = known
}
