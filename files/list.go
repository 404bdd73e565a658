package files

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	"github.com/runnel-dev/runnel/internal/nofollow"
)

// A Listing is the content of a directory of a project.
type Listing struct {
	Path    string        `json:"path" doc:"Path of the folder from the project's directory. Empty: the project's directory itself."`
	Entries []ListedEntry `json:"entries" doc:"What the folder contains: folders first, then by name. Files that usually hold secrets are left out."`
	More    bool          `json:"more,omitempty" doc:"Whether the folder contains more than the 2,000 entries that are listed."`
}

// A ListedEntry is a file or directory in a [Listing].
type ListedEntry struct {
	Name       string    `json:"name" doc:"Name of the entry in the folder."`
	Kind       EntryKind `json:"kind" doc:"What the entry is."`
	Size       int64     `json:"size,omitempty" doc:"Size of a file, in bytes."`
	ModifiedAt time.Time `json:"modifiedAt" doc:"When the entry was last changed."`
	Ignored    bool      `json:"ignored,omitempty" doc:"Whether git ignores the entry. Absent, too, if the rules of the project take more than 200 ms."`
}

// List returns what a directory of the project contains, without what [Secret]
// reports. An empty path is the project's directory.
func (p Project) List(dir string) (Listing, error) {
	rel, err := local(dir)
	if err != nil {
		return Listing{}, err
	}
	root, err := p.open()
	if err != nil {
		return Listing{}, err
	}
	defer root.Close()
	sub, err := nofollow.OpenDir(root, rel)
	if err != nil {
		return Listing{}, p.folderError(root, rel, err)
	}
	defer sub.Close()
	found, more, err := readDir(sub)
	if err != nil {
		return Listing{}, ErrNotFound
	}
	out := Listing{Path: filepath.ToSlash(rel), Entries: []ListedEntry{}, More: more}
	if rel == "." {
		out.Path = ""
	}
	ignored, deadline := rulesOf(root, out.Path), time.Now().Add(p.service.bounds.first)
	for _, d := range found {
		at := path.Join(out.Path, d.Name())
		if !shown(d.Name()) || Secret(at) {
			continue
		}
		info, err := d.Info()
		if err != nil { // deleted meanwhile
			continue
		}
		e := ListedEntry{Name: d.Name(), Kind: kindOf(d), ModifiedAt: info.ModTime().UTC()}
		e.Ignored = time.Now().Before(deadline) && ignored.ignores(at, d.IsDir())
		if e.Kind == KindFile {
			e.Size = info.Size()
		}
		out.Entries = append(out.Entries, e)
	}
	slices.SortFunc(out.Entries, func(a, b ListedEntry) int {
		return cmp.Or(-compareBool(a.Kind == KindFolder, b.Kind == KindFolder), cmp.Compare(a.Name, b.Name))
	})
	return out, nil
}

// readDir returns at most maxListed entries of a directory, and whether it has
// more.
func readDir(dir *os.Root) (found []fs.DirEntry, more bool, err error) {
	f, err := dir.Open(".")
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	found, err = f.ReadDir(maxListed + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, false, err
	}
	return found[:min(len(found), maxListed)], len(found) > maxListed, nil
}

// folderError returns the reason for which the directory rel was not opened.
func (p Project) folderError(root *os.Root, rel string, err error) error {
	if info, err := root.Lstat(rel); err == nil && info.Mode().IsRegular() {
		return ErrNoFolder
	}
	return errorOf(err, ErrNoFolder)
}

func kindOf(d fs.DirEntry) EntryKind {
	switch {
	case d.IsDir():
		return KindFolder
	case d.Type().IsRegular():
		return KindFile
	case d.Type()&fs.ModeSymlink != 0:
		return KindLink
	}
	return KindOther
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}
