package supervisor

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/runnel-dev/runnel/internal/proc"
	"github.com/runnel-dev/runnel/internal/procinfo"
)

// Record describes a running supervisor. The supervisor writes it to
// Takeover.Dir, so that a later server can find it. It contains no secrets: an
// agent that reads it cannot take over, because checkCaller rejects it.
type Record struct {
	Version    int           `json:"version"`
	Supervisor proc.Identity `json:"supervisor"`
	Boot       string        `json:"boot"` // boot id of the system; process ids of another boot are invalid
	Nonce      string        `json:"nonce"`
	Mark       string        `json:"mark"`            // mark of the agent; see proc.Command.Mark
	Fence      string        `json:"fence,omitempty"` // fence around the agent; see proc.Process.Fence
	Place      place         `json:"place,omitzero"`  // directory into which the supervisor wrote the record
}

// A place is a directory.
type place struct {
	Dir string `json:"dir"`
	Dev uint64 `json:"dev"`
	Ino uint64 `json:"ino"`
}

// placeOf returns the directory that has this path now; the zero value if there
// is none.
func placeOf(dir string) place {
	var st unix.Stat_t
	dir, err := filepath.Abs(dir)
	if err != nil || unix.Stat(dir, &st) != nil {
		return place{}
	}
	return place{dir, uint64(st.Dev), st.Ino} //nolint:unconvert // another type on some architectures
}

// isCopy reports whether the record r in k.Dir is a copy: its supervisor wrote it
// into another directory, which still has it. The agent belongs to the server of
// that directory. A directory that was only moved is no copy.
func (k Takeover) isCopy(r Record) bool {
	if here := placeOf(k.Dir); here.Dev == r.Place.Dev && here.Ino == r.Place.Ino || r.Place == (place{}) || placeOf(r.Place.Dir) != r.Place {
		return false
	}
	original, err := Takeover{Dir: r.Place.Dir, Name: k.Name}.read()
	return err == nil && original.Nonce == r.Nonce
}

const maxRecord = 4 << 10

func (k Takeover) record() string { return filepath.Join(k.Dir, k.Name+".json") }
func (k Takeover) socket() string { return k.Name + ".sock" }

// check rejects names that are not plain file names.
func (k Takeover) check() error {
	if k.Name == "" || strings.Trim(k.Name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-") != "" || len(k.Name) > 100 {
		return errors.New("supervisor: not a name")
	}
	return nil
}

// within calls f with a short path of the directory, because the path of a unix
// socket has a small maximum length.
func (k Takeover) within(f func(dir string) error) error {
	if err := k.check(); err != nil {
		return err
	}
	fd, err := unix.Open(k.Dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &fs.PathError{Op: "open", Path: k.Dir, Err: err}
	}
	defer unix.Close(fd)
	return f("/proc/self/fd/" + strconv.Itoa(fd))
}

func (k Takeover) listen() (ln *net.UnixListener, err error) {
	err = k.within(func(dir string) error {
		path := filepath.Join(dir, k.socket())
		_ = os.Remove(path) // left by a killed predecessor; launch has called End for it
		ln, err = net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
		if err != nil {
			return err
		}
		ln.SetUnlinkOnClose(false) // the short path is invalid by then
		return os.Chmod(path, 0o600)
	})
	return ln, err
}

func (k Takeover) dial() (c *net.UnixConn, err error) {
	err = k.within(func(dir string) error {
		c, err = net.DialUnix("unix", nil, &net.UnixAddr{Name: filepath.Join(dir, k.socket()), Net: "unix"})
		return err
	})
	return c, err
}

// write writes the record atomically.
func (k Takeover) write(r Record) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	half := k.record() + ".new"
	if err := os.WriteFile(half, b, 0o600); err != nil {
		return err
	}
	return os.Rename(half, k.record())
}

// read returns the record, or fs.ErrNotExist if there is none.
func (k Takeover) read() (Record, error) {
	var r Record
	if err := k.check(); err != nil {
		return r, err
	}
	f, err := os.OpenFile(k.record(), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return r, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return r, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxRecord {
		return r, errors.New("supervisor: not a record")
	}
	b := make([]byte, info.Size())
	if _, err := f.ReadAt(b, 0); err != nil {
		return r, err
	}
	err = json.Unmarshal(b, &r)
	if _, damaged := errors.AsType[*json.SyntaxError](err); damaged {
		return r, fmt.Errorf("%w: %w", errDamaged, err)
	}
	if err != nil {
		return r, fmt.Errorf("supervisor: record: %w", err)
	}
	return r, nil
}

// errDamaged reports a record that is empty or cut off. write does not flush the
// record, so a power loss can leave it so. If its supervisor still runs, that ends
// when its takeover window has passed.
var errDamaged = errors.New("supervisor: damaged record")

// remove removes the record and the socket, unless another supervisor has
// replaced the record.
func (k Takeover) remove(nonce string) {
	if r, err := k.read(); err == nil && r.Nonce != nonce {
		return
	}
	_ = os.Remove(k.record())
	_ = os.Remove(filepath.Join(k.Dir, k.socket()))
}

// alive reports whether the supervisor of the record is running: in this boot,
// with the same id and start time.
func (r Record) alive() bool {
	now, ok := proc.Identify(r.Supervisor.Pid)
	return ok && r.Boot == procinfo.BootID() && now == r.Supervisor
}

// Names returns the names of the sessions that have a record in dir.
func Names(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var names []string
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".json")
		if ok && (Takeover{Name: name}).check() == nil {
			names = append(names, name)
		}
	}
	return names, err
}
