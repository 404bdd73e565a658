package agentconn

import (
	"context"

	"github.com/runnel-dev/runnel/internal/procinfo"
)

// StopWriter asks the process pid to exit and waits for that until ctx ends.
// still reports whether pid is still the process to stop; see
// [procinfo.Terminate].
func StopWriter(ctx context.Context, pid int, still func() bool) error {
	return procinfo.Terminate(ctx, pid, still)
}
