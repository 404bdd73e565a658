// Package attach turns the paths and uploads that a client names into checked
// content.
//
// The server decides everything: whether a file may be read, what it is and
// how large. A client's name, media type or kind of attachment is a label at
// most. A file is opened without following any symbolic link, judged by its
// open handle and read within a bound, so that swapping it meanwhile gains
// nothing.
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
)

// The bounds of what is attached, in bytes and pixels. Reaching one is fine.
const (
	MaxFile  = 10 << 20 // one file
	MaxTotal = 18 << 20 // all accepted files of one prompt
	MaxSide  = 8000     // width and height of an image
)

const maxPath = 4096 // bytes

// A Ref is how a client names an attachment: a path, or the id of an upload.
// As JSON it is an object with one of the two, or just the path. Whatever else
// the object says is ignored; a key that is nearly one of the two is refused,
// since readers differ in what they take it for.
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
	type plain Ref // without this method
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

// label returns the path or the id of the upload, safe to show.
func (r Ref) label() string { return printable(cmp.Or(r.Upload, r.Path), maxPath) }

// A Checker says what may be attached. The zero value refuses everything.
type Checker struct {
	// Roots are the absolute directories that paths must lie in, such as the
	// project's. Default: none
	Roots []string

	// Uploads holds what clients uploaded; paths may lie in there too.
	// Default: none
	Uploads *Store

	// Accepts says why the agent does not take an attachment, "" if it does.
	// Default: it takes all
	Accepts func(runnel.Attachment) (reason string)

	// HardLinks admits files that have more than one name. One of them may be
	// a secret outside the roots. Default: they are refused
	HardLinks bool
}

// Checked is what became of a prompt's attachments.
type Checked struct {
	Attachments []runnel.Attachment // in the order of the request
	Rejected    []runnel.Rejection  // likewise
}

// Check reads what refs name. Each is judged in this order: absolute path,
// allowed root, extension, readable, no symbolic link, regular file, its size,
// the total, its content, what the agent takes. What is refused does not count
// towards the total, and later ones are still tried.
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

// load checks one attachment, for which there are left bytes of the total. The
// path of an upload that exists ends with the name of its file.
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

// locate finds the root that ref lies in, and its place there.
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

// hasParent reports whether an element of path is "..": with symbolic links
// about, what that means depends on more than the path.
func hasParent(path string) bool {
	for e := range strings.SplitSeq(filepath.ToSlash(path), "/") {
		if e == ".." {
			return true
		}
	}
	return false
}

// folders are the allowed roots of one Check, opened when first needed.
type folders struct{ all []*folder }

type folder struct {
	path string
	root *os.Root
	err  error
}

// folders lists the roots under the name they were given and under the one
// they really have, so that a client may use either.
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
		add(r)
	}
	if c.Uploads != nil {
		add(c.Uploads.dir)
	}
	return fs
}

func (f *folder) open() (*os.Root, error) {
	if f.root == nil && f.err == nil {
		f.root, f.err = openRoot(os.OpenRoot, f.path)
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
