package attach

import (
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/runnel-dev/runnel/internal/nofollow"
)

// read returns the content of rel in dir if it is a regular file of at most
// left bytes.
func (c Checker) read(dir *os.Root, rel string, left int64) ([]byte, *refusal) {
	f, err := nofollow.Open(dir, rel)
	if err != nil {
		return nil, refusalOf(err)
	}
	defer f.Close()
	st, err := f.Stat()
	switch {
	case err != nil:
		return nil, cannotRead()
	case !st.Mode().IsRegular():
		return nil, refuse(notRegular, "it is not a regular file")
	case !c.HardLinks && nofollow.Links(f, st) != 1:
		return nil, refuse(notRegular, "it has more than one name (hard links), one of which may be elsewhere")
	case st.Size() > MaxFile:
		return nil, refuse(tooLarge, "it is larger than 10 MiB")
	case st.Size() > left:
		return nil, refuse(overBudget, "with it the attachments would be larger than 18 MiB in total")
	}
	return c.content(f, st)
}

// content reads f and rejects it if its size is not st.Size() or it changes
// during the read.
func (c Checker) content(f *os.File, st fs.FileInfo) ([]byte, *refusal) {
	changed := refuse(unreadable, "it changed while it was read")
	data := make([]byte, st.Size()+1)
	n, err := io.ReadFull(f, data)
	switch {
	case err == nil, int64(n) < st.Size(): // the file grew or shrank
		return nil, changed
	case !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF):
		return nil, cannotRead()
	}
	now, err := f.Stat()
	if err != nil || now.Size() != st.Size() || !now.ModTime().Equal(st.ModTime()) || !c.HardLinks && nofollow.Links(f, now) != 1 {
		return nil, changed
	}
	return data[:n:n], nil
}

func cannotRead() *refusal { return refuse(unreadable, nofollow.ErrUnreadable.Error()) }

// refusalOf converts an error of package nofollow.
func refusalOf(err error) *refusal {
	switch {
	case errors.Is(err, nofollow.ErrLink):
		return refuse(linked, err.Error())
	case errors.Is(err, nofollow.ErrNotRegular):
		return refuse(notRegular, err.Error())
	}
	return cannotRead()
}
