package conversations

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/runnel-dev/runnel/internal/private"
)

// The stored index is a file of JSON lines: a header, one line for each file or
// list of conversations, and a line that marks the end. It contains nothing
// that cannot be read again from the agents' files, so an invalid index is
// ignored.

// version is the version of the stored index. A change of what Summarize
// returns changes it, too.
const version = 2

const (
	maxIndex  = 256 << 20 // bytes of a stored index
	saveEvery = 5 * time.Minute
)

// row is a line of the stored index.
type row struct {
	Version      int           `json:"version,omitempty"` // only in the header
	End          bool          `json:"end,omitempty"`     // only in the last line
	Agent        string        `json:"agent,omitempty"`
	Path         string        `json:"path,omitempty"`
	Size         int64         `json:"size,omitempty"`
	ModTime      int64         `json:"modTime,omitempty"`
	Inode        uint64        `json:"inode,omitempty"`
	Title        string        `json:"title,omitempty"`
	Conversation *Conversation `json:"conversation,omitempty"`

	Listed []Conversation `json:"listed,omitempty"` // the agent's own list
	At     time.Time      `json:"at,omitzero"`      // its time
}

// load reads the stored index. The caller holds mu.
func (x *Index) load() {
	if x.cfg.File == "" {
		return
	}
	data, err := private.ReadFile(x.cfg.File, private.Nothing, maxIndex)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	rows, ok := []row(nil), false
	if err == nil {
		rows, ok = parse(data)
	}
	if !ok {
		x.cfg.Logger.Info("the index of conversations is read again from the agents' files", "error", err)
		return
	}
	sources := make(map[string]*source)
	for _, s := range x.sources {
		sources[s.cliType] = s
	}
	for _, r := range rows {
		s := sources[r.Agent]
		switch {
		case s == nil:
		case r.Conversation != nil && s.files != nil:
			if s.entries == nil {
				s.entries = make(map[string]entry)
			}
			s.entries[r.Path] = entry{state: state{r.Size, r.ModTime, r.Inode, r.Title}, conversation: *r.Conversation}
		case s.files == nil:
			s.listed, s.ended = r.Listed, r.At
		}
	}
	x.saved = time.Now()
}

// parse returns the rows of a complete index of this version.
func parse(data []byte) (rows []row, ok bool) {
	for line := range bytes.Lines(data) {
		var r row
		if json.Unmarshal(line, &r) != nil || rows == nil && r.Version != version {
			return nil, false
		}
		rows = append(rows, r)
	}
	return rows, len(rows) > 0 && rows[len(rows)-1].End
}

// save replaces the stored index if it is outdated. It does not fail: without a
// stored index, the next process reads the agents' files again. The caller
// holds mu.
func (x *Index) save() {
	if x.cfg.File == "" || !x.dirty {
		return
	}
	x.saved = time.Now() // an error is not repeated at once, either
	removeLeftovers(x.cfg.File)
	if err := x.write(); err != nil {
		x.cfg.Logger.Warn("the index of conversations cannot be stored", "error", err)
		return
	}
	x.dirty = false
}

// leftoverAge is the age at which an unfinished index belongs to a process that
// was killed. Writing the largest index takes seconds.
const leftoverAge = 10 * time.Minute

// leftovers returns the paths of the unfinished indexes beside a stored index,
// except those that a running process may still write.
func leftovers(file string, running func(fs.FileInfo) bool) (paths []string) {
	entries, _ := os.ReadDir(filepath.Dir(file)) // without the folder, there are none
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), filepath.Base(file)+".") || !strings.HasSuffix(e.Name(), ".tmp") {
			continue
		}
		if st, err := e.Info(); err == nil && !running(st) {
			paths = append(paths, filepath.Join(filepath.Dir(file), e.Name()))
		}
	}
	return paths
}

// removeLeftovers removes the unfinished indexes of killed processes.
func removeLeftovers(file string) {
	for _, path := range leftovers(file, func(st fs.FileInfo) bool { return time.Since(st.ModTime()) < leftoverAge }) {
		_ = os.Remove(path)
	}
}

// Remove removes a stored index, which no Index uses.
func Remove(file string) error {
	var errs []error
	for _, path := range append(leftovers(file, func(fs.FileInfo) bool { return false }), file) {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (x *Index) write() (err error) {
	f, err := os.CreateTemp(filepath.Dir(x.cfg.File), filepath.Base(x.cfg.File)+".*.tmp") // mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	out := bufio.NewWriter(f)
	enc := json.NewEncoder(out)
	err = enc.Encode(row{Version: version})
	for _, s := range x.sources {
		for path, e := range s.entries {
			if err == nil && !e.none { // the next process tries a file without a conversation again
				err = enc.Encode(row{Agent: s.cliType, Path: path, Size: e.size, ModTime: e.modTime, Inode: e.inode, Title: e.title, Conversation: &e.conversation})
			}
		}
		if err == nil && s.files == nil && !s.ended.IsZero() {
			err = enc.Encode(row{Agent: s.cliType, Listed: s.listed, At: s.ended})
		}
	}
	if err == nil {
		err = enc.Encode(row{End: true})
	}
	if err = errors.Join(err, out.Flush(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), x.cfg.File)
}
