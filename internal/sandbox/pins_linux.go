package sandbox

import (
	"strings"

	"golang.org/x/sys/unix"

	"github.com/runnel-dev/runnel/internal/bridge"
)

// pins returns what the pinned paths are now. It follows no link, so none of
// them leads out of the directories that were checked.
func (m *mounts) pins() (out []bridge.Pin, err error) {
	for _, e := range m.list {
		if !e.pinned {
			continue
		}
		p, err := examine(e.path)
		if err != nil {
			return nil, replaced(e.path, err)
		}
		out = append(out, p)
	}
	return out, nil
}

func replaced(path string, err error) *Error {
	return &Error{Why: path + " was replaced while the sandbox was being made: " + err.Error(), Fix: "Start the session again."}
}

// examine walks an absolute path from the root without following links.
func examine(path string) (bridge.Pin, error) {
	at, err := unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0)
	for name := range strings.SplitSeq(strings.Trim(path, "/"), "/") {
		if err != nil || name == "" {
			break
		}
		var next int
		next, err = unix.Openat(at, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0) // of a link, opens the link itself, which no name below can be opened in
		_ = unix.Close(at)
		at = next
	}
	if err != nil {
		return bridge.Pin{}, err
	}
	defer unix.Close(at)
	var st unix.Stat_t
	if err := unix.Fstat(at, &st); err != nil {
		return bridge.Pin{}, err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFLNK {
		return bridge.Pin{}, unix.ELOOP
	}
	return bridge.Pin{Path: path, Dev: uint64(st.Dev), Ino: st.Ino}, nil //nolint:unconvert // another type on some architectures
}
