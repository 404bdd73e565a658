package procinfo

import (
	"os"
	"strconv"
)

// A Running describes a process that runs.
type Running struct {
	Start   string // start time; with the pid, it identifies the process
	Session string // session of the nearest supervisor above the process; "" if there is none
	Child   bool   // this process started it, directly or under a supervisor without a session
	Ends    bool   // it is ending, or belongs to an agent whose supervisor was killed
}

// RunningProcess returns facts about the process pid. ok is false if no such
// process runs, or if start is not empty and the process started at another
// time.
func RunningProcess(pid int, start string) (r Running, ok bool) {
	if pid <= 0 {
		return r, false
	}
	st, err := ReadStat(pid)
	if err != nil || st.Dead {
		return r, false
	}
	r.Start = strconv.FormatUint(st.Start, 10)
	if start != "" && start != r.Start {
		return r, false
	}
	r.Child, r.Ends = st.Parent == os.Getpid(), st.Ending
	line, err := Lineage(pid)
	if err != nil {
		r.Ends = true // one of its parents has just ended
		return r, !IsGone(err)
	}
	r.Ends = r.Ends || !belowSupervisor(line) && len(Marks(pid)) > 0
	for i, p := range line {
		if i > 0 && p.Supervisor {
			r.Session = SessionOf(p.Pid)
			r.Child = r.Session == "" && i+1 < len(line) && line[i+1].Pid == os.Getpid()
			break
		}
	}
	return r, true
}
