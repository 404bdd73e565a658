//go:build !unix

package procinfo

// A Running describes a process that runs.
type Running struct {
	Start   string
	Session string
	Child   bool
	Ends    bool
}

// RunningProcess reports false: processes cannot be checked on this system.
func RunningProcess(int, string) (r Running, ok bool) { return r, false }
