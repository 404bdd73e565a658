// Package attach checks and reads the files that a client attaches to a prompt,
// by path or as an upload.
//
// The server decides whether a file may be read, what type it has and whether
// it is too large. A client's name, media type or kind of an attachment is only
// a label. The server opens a file without following symbolic links, checks the
// opened file rather than its path, and reads a limited number of bytes.
// Replacing the file during the check therefore gains nothing.
package attach

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/nofollow"
)

// Limits of attachments, in bytes and pixels. A value equal to a limit is
// accepted.
const (
	MaxFile  = 10 << 20 // size of one file
	MaxTotal = 18 << 20 // size of all accepted files of one prompt
	MaxSide  = 8000     // width or height of an image
)

const maxPath = 4096 // bytes

// A Ref names an attachment by its path or by the id of an upload. In JSON it
// is an object with one of the two, or the path as a string. Other keys of the
// object are ignored. A key that differs from one of the two only in case is
// rejected, because JSON decoders disagree on its meaning.
type Ref struct {
	Path   string `json:"path,omitzero"`
	Upload string `json:"uploadId,omitzero"`
}

// UnmarshalJSON implements [json.Unmarshaler].
func (r *Ref) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '"' {
		*r = Ref{}
		return json.Unmarshal(data, &r.Path)
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(data, &members); err != nil {
		return err
	}
	for key := range members {
		for _, name := range []string{"path", "uploadId"} {
			if key != name && strings.EqualFold(key, name) {
				return fmt.Errorf("attachment: write the key %q as %q", key, name)
			}
		}
	}
	type plain Ref // a type without UnmarshalJSON
	var p plain
	if err := json.Unmarshal(data, &p); err != nil {
		return err
	}
	if (p.Path == "") == (p.Upload == "") {
		return errors.New("attachment: needs either path or uploadId")
	}
	*r = Ref(p)
	return nil
}

// label returns the path or the id of the upload in printable form.
func (r Ref) label() string { return printable(cmp.Or(r.Upload, r.Path), maxPath) }

// A Checker checks attachments. The zero value rejects all.
type Checker struct {
	// Roots are absolute directories, such as the project's. An attached path
	// must lie in one of them. Default: none
	Roots []string

	// InPlace means that the Roots have no symbolic links. A root whose path has
	// one by then contains nothing. Default: a root is what its links lead to
	InPlace bool

	// Uploads contains the clients' uploads. An attached path may also lie in
	// its folder. Default: none
	Uploads *Store

	// Accepts returns the reason why the agent rejects an attachment, or "" if
	// the agent accepts it. Default: the agent accepts all.
	Accepts func(runnel.Attachment) (reason string)

	// HardLinks accepts files that have more than one name. Another name of the
	// same file may be a secret outside of the roots. Default: such files are
	// rejected
	HardLinks bool
}

// Checked is the result of [Checker.Check].
type Checked struct {
	Attachments []runnel.Attachment // accepted attachments, in the order of the request
	Rejected    []runnel.Rejection  // rejected attachments, in the same order
}

// Check checks and reads the files that refs name. It checks each in this
// order: absolute path, allowed root, extension, readable, no symbolic link,
// regular file, size, total size, content, accepted by the agent. A rejected
// attachment does not count towards the total size, and the following ones are
// still checked.
func (c Checker) Check(refs []Ref) Checked {
	var out Checked
	total := int64(0)
	folders := c.folders()
	defer folders.close()
	for _, ref := range refs {
		a, size, why := c.load(folders, ref, MaxTotal-total)
		if why != nil {
			out.Rejected = append(out.Rejected, runnel.Rejection{Path: cmp.Or(a.Path, ref.label()), Reason: why.text})
			continue
		}
		total += size
		out.Attachments = append(out.Attachments, a)
	}
	return out
}

// load checks and reads one attachment, which may have at most left bytes.
// a.Path is set as soon as the file is located; for an upload it ends with the
// file's name.
func (c Checker) load(folders *folders, ref Ref, left int64) (a runnel.Attachment, size int64, why *refusal) {
	dir, rel, why := c.locate(folders, ref)
	if why != nil {
		return a, 0, why
	}
	a.Path = ref.label()
	if ref.Upload != "" {
		a.Path = printable(filepath.ToSlash(rel), maxPath)
	}
	ext := strings.ToLower(filepath.Ext(rel))
	media := mediaType(ext)
	if media == "" && c.Uploads != nil && c.Uploads.IDOf(ref) != "" {
		media = plainText
	}
	if media == "" {
		return a, 0, refuse(badExtension, "the extension is not one of "+strings.Join(extensions(), " "))
	}
	data, why := c.read(dir, rel, left)
	if why != nil {
		return a, 0, why
	}
	if why := matches(media, data); why != nil {
		return a, 0, why
	}
	a.Name, a.MediaType = printable(filepath.Base(rel), maxName), media
	if strings.HasPrefix(media, "text/") {
		a.Text = string(data)
	} else {
		a.Data = data
	}
	if c.Accepts != nil {
		if reason := c.Accepts(a); reason != "" {
			return a, 0, refuse(notTaken, reason)
		}
	}
	return a, int64(len(data)), nil
}

// locate returns the root that contains ref, and the path of ref relative to
// it.
func (c Checker) locate(folders *folders, ref Ref) (dir *os.Root, rel string, why *refusal) {
	if ref.Upload != "" {
		return c.Uploads.locate(ref.Upload)
	}
	path := ref.Path
	switch {
	case len(path) > maxPath:
		return nil, "", refuse(notAbsolute, "the path is too long")
	case !filepath.IsAbs(path):
		return nil, "", refuse(notAbsolute, "the path is not absolute")
	}
	outside := refuse(outsideRoots, "it lies outside the folders that may be read")
	if hasParent(path) {
		return nil, "", outside
	}
	for _, f := range folders.all {
		rel, err := filepath.Rel(f.path, filepath.Clean(path))
		if err != nil || rel == "." || !filepath.IsLocal(rel) || runtime.GOOS == "windows" && strings.Contains(rel, ":") {
			continue
		}
		if os.IsPathSeparator(path[len(path)-1]) {
			return nil, "", refuse(notRegular, "it is not a regular file")
		}
		dir, err := f.open()
		if err != nil {
			return nil, "", refuse(unreadable, "it cannot be read")
		}
		return dir, rel, nil
	}
	return nil, "", outside
}

// hasParent reports whether an element of path is "..". What such a path means
// depends on the symbolic links in it.
func hasParent(path string) bool {
	for e := range strings.SplitSeq(filepath.ToSlash(path), "/") {
		if e == ".." {
			return true
		}
	}
	return false
}

// folders are the allowed roots of one Check. Each is opened when it is first
// needed.
type folders struct{ all []*folder }

type folder struct {
	path    string
	inPlace bool // see Checker.InPlace
	root    *os.Root
	err     error
}

// folders returns the roots and the folder of the uploads. A folder whose path
// contains symbolic links is listed under both paths, so that a client may use
// either.
func (c Checker) folders() *folders {
	fs := &folders{}
	add := func(path string) {
		if path == "" || !filepath.IsAbs(path) {
			return
		}
		fs.all = append(fs.all, &folder{path: filepath.Clean(path)})
		if real, err := filepath.EvalSymlinks(path); err == nil && real != filepath.Clean(path) {
			fs.all = append(fs.all, &folder{path: real})
		}
	}
	for _, r := range c.Roots {
		if c.InPlace && filepath.IsAbs(r) {
			fs.all = append(fs.all, &folder{path: filepath.Clean(r), inPlace: true})
			continue
		}
		add(r)
	}
	if c.Uploads != nil {
		add(c.Uploads.dir)
	}
	return fs
}

func (f *folder) open() (*os.Root, error) {
	if f.root == nil && f.err == nil {
		open := nofollow.Root
		if f.inPlace {
			open = nofollow.RootInPlace
		}
		f.root, f.err = open(f.path)
	}
	return f.root, f.err
}

func (fs *folders) close() {
	for _, f := range fs.all {
		if f.root != nil {
			f.root.Close()
		}
	}
}
