package audit

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// The log is a folder of files. The name of a file has the number of its first
// entry, so the names sort in the order of the entries.
const (
	namePrefix = "audit-"
	nameSuffix = ".jsonl"
)

func nameOf(first uint64) string { return fmt.Sprintf("%s%016d%s", namePrefix, first, nameSuffix) }

// firstOf returns the number of the first entry in a file of the log.
func firstOf(name string) (uint64, bool) {
	digits, ok := strings.CutPrefix(name, namePrefix)
	if !ok {
		return 0, false
	}
	if digits, ok = strings.CutSuffix(digits, nameSuffix); !ok || len(digits) != 16 {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	return n, err == nil && n > 0
}

// filesOf returns the numbers of the first entries of all files in dir, in
// order. A missing dir has none.
func filesOf(dir string) (firsts []uint64, err error) {
	found, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, f := range found {
		if first, ok := firstOf(f.Name()); ok && f.Type().IsRegular() {
			firsts = append(firsts, first)
		}
	}
	slices.Sort(firsts)
	return firsts, err
}

// IsFile reports whether name can be the name of a file of a log.
func IsFile(name string) bool {
	_, ok := firstOf(name)
	return ok
}

// Files returns the names of the files of the log in dir, oldest entries first. A
// running server may append entries to the last one, and remove the first ones.
func Files(dir string) (names []string, err error) {
	firsts, err := filesOf(dir)
	for _, first := range firsts {
		names = append(names, nameOf(first))
	}
	return names, err
}

// lines calls each with every line of a file, without its line break, until
// each returns false. The slice is valid during the call. whole is false for a
// last line without line break. A line that is too long to be an entry is passed
// cut.
func lines(path string, each func(line []byte, whole bool) bool) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	r := bufio.NewReaderSize(f, maxLine)
	for {
		line, err := r.ReadSlice('\n')
		for long := err; errors.Is(long, bufio.ErrBufferFull); {
			_, long = r.ReadSlice('\n')
			if !errors.Is(long, bufio.ErrBufferFull) {
				err = long
			}
		}
		switch {
		case err == nil:
			if !each(line[:len(line)-1], true) {
				return nil
			}
		case !errors.Is(err, io.EOF):
			return err
		case len(line) > 0:
			each(line, false)
			return nil
		default:
			return nil
		}
	}
}

// syncDir makes the names in dir survive a power loss.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// A headFile keeps the head of a log in two places in turn, so that a torn write
// leaves the one before.
type headFile struct {
	chain chain
	file  *os.File
}

func openHead(path string, c chain) (*headFile, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(f.Chmod(0o600), syncDir(filepath.Dir(path))); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &headFile{c, f}, nil
}

// readHead returns the newest valid head in a file. ok is false if there is
// none.
func readHead(path string, c chain) (h head, ok bool, err error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return h, false, nil
	}
	for len(b) >= headSize {
		if got, valid := c.decode(b[:headSize]); valid && (!ok || got.n >= h.n) {
			h, ok = got, true
		}
		b = b[headSize:]
	}
	return h, ok, err
}

func (f *headFile) write(h head) error {
	if _, err := f.file.WriteAt(f.chain.encode(h), int64(h.n%2)*headSize); err != nil {
		return err
	}
	return f.file.Sync()
}
