package agentconn

import (
	"os"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/procinfo"
)

// RunningWriter returns the process pid as a writer of a conversation. start is
// its start time, in the form of [procinfo.Running]; "" if it is not known. ok
// is false if the process has ended, or if another process has its pid now.
func RunningWriter(conversation string, pid int, start string, source runnel.WriterSource) (w runnel.Writer, ok bool) {
	if pid == os.Getpid() {
		return w, false
	}
	r, ok := procinfo.RunningProcess(pid, start)
	return runnel.Writer{
		AgentSessionID: conversation, PID: pid, Source: source, Start: r.Start, Session: r.Session, Own: r.Child, Ends: r.Ends,
	}, ok
}
