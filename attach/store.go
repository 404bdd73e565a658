package attach

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/google/uuid"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/nofollow"
	"github.com/runnel-dev/runnel/internal/text"
)

// A Store stores uploads. Each upload has a folder, named by its id, with one
// file in it. Until the upload is complete, the name of its folder ends with
// partSuffix. Folders have mode 0700 and files 0600. A Store is safe for
// concurrent use. Only one Store may be open in a folder.
type Store struct {
	dir  string
	root *os.Root

	mu   sync.Mutex
	kept int64 // bytes that count towards most, including uploads that are being written
	most int64

	check sync.Mutex // held during the check of an upload, so that only one is in memory
}

// MaxKept is the maximum size of all uploads of a Store, in bytes. Each upload
// counts as its file plus PerUpload bytes for its folder and its name.
const (
	MaxKept   = 4 << 30
	PerUpload = 8 << 10
)

// partSuffix ends the name of the folder of an upload that is being written.
const partSuffix = ".part"

// An Upload is a file that a client uploaded.
type Upload struct {
	ID        string `json:"uploadId"`
	Name      string `json:"name"`
	MediaType string `json:"mediaType"`
	Size      int64  `json:"size"` // in bytes
	Path      string `json:"path"`
}

// OpenStore opens the Store in dir, an absolute path, and creates dir if it
// does not exist. It removes the uploads that an earlier process did not
// complete. The caller must close the Store.
func OpenStore(dir string) (*Store, error) {
	if !filepath.IsAbs(dir) {
		return nil, errors.New("attach: the upload folder needs an absolute path")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	st, err := os.Lstat(dir)
	if err != nil {
		return nil, err
	}
	if !st.IsDir() {
		return nil, errors.New("attach: the upload folder is a symbolic link or no folder")
	}
	if st.Mode().Perm() != 0o700 {
		if err := os.Chmod(dir, 0o700); err != nil {
			return nil, err
		}
	}
	root, err := nofollow.Root(dir)
	if err != nil {
		return nil, err
	}
	s := &Store{dir: filepath.Clean(dir), root: root, most: MaxKept}
	if err = s.removeParts(); err == nil {
		s.kept, err = s.weigh()
	}
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return s, nil
}

// removeParts removes the uploads that are not complete.
func (s *Store) removeParts() error {
	folders, err := fs.ReadDir(s.root.FS(), ".")
	if err != nil {
		return err
	}
	var errs []error
	for _, f := range folders {
		if id, ok := strings.CutSuffix(f.Name(), partSuffix); ok && validID(id) {
			errs = append(errs, s.root.RemoveAll(f.Name()))
		}
	}
	return errors.Join(errs...)
}

// weigh returns the size of all uploads, as counted towards MaxKept.
func (s *Store) weigh() (bytes int64, err error) {
	err = fs.WalkDir(s.root.FS(), ".", func(_ string, f fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || f.IsDir() {
			return err
		}
		if st, err := f.Info(); err == nil {
			bytes += st.Size() + PerUpload
		}
		return nil
	})
	return bytes, err
}

// reserve counts a new file of this size. It returns false if the Store has no
// room.
func (s *Store) reserve(size int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kept+size+PerUpload > s.most {
		return false
	}
	s.kept += size + PerUpload
	return true
}

// extend counts size further bytes of a file. It returns false if the Store has
// no room.
func (s *Store) extend(size int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kept+size > s.most {
		return false
	}
	s.kept += size
	return true
}

func (s *Store) release(size int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept = max(0, s.kept-size-PerUpload)
}

// Close closes the folder. The uploads stay.
func (s *Store) Close() error { return s.root.Close() }

// Save stores the content of r. name only labels the upload, but its extension
// determines the type that the content must have. A file with another extension,
// such as code or a log, must be text. A rejected upload leaves no file. The
// error is a *[runnel.Error].
func (s *Store) Save(r io.Reader, name string) (Upload, error) {
	name = fileName(name)
	up := Upload{ID: uuid.NewString(), Name: name, MediaType: cmp.Or(mediaType(strings.ToLower(filepath.Ext(name))), plainText)}
	up.Path = filepath.Join(s.dir, up.ID, name)
	if err := s.write(&up, r); err != nil {
		return Upload{}, err
	}
	return up, nil
}

// write writes the content of r to a file and then checks it. It does not
// buffer the content, so many slow uploads use little memory. After an error it
// leaves no file.
func (s *Store) write(up *Upload, r io.Reader) (err error) {
	part := up.ID + partSuffix
	defer func() {
		if err != nil {
			_ = s.root.RemoveAll(part)
		}
	}()
	rel := filepath.Join(part, up.Name)
	f, err := s.create(part, rel)
	if err != nil {
		return notStored(err)
	}
	in := &incoming{s: s, r: io.LimitReader(r, MaxFile+1)}
	if !s.reserve(0) {
		err = errTooMany
	} else {
		defer func() {
			if err != nil {
				s.release(in.size)
			}
		}()
		_, err = io.Copy(f, in)
	}
	err = errors.Join(err, f.Close())
	switch {
	case errors.Is(err, errTooMany):
		return runnel.Fail(runnel.RateLimited, "the server has stored as many uploads as allowed; upload again later: each upload is removed after a day")
	case in.err != nil:
		return runnel.Fail(runnel.InvalidRequest, "the upload was interrupted; send it again", in.err)
	case err != nil:
		return notStored(err)
	case in.size > MaxFile:
		return runnel.Fail(runnel.PayloadTooLarge, "a file may have at most 10 MiB")
	}
	up.Size = in.size
	s.check.Lock()
	defer s.check.Unlock()
	data, err := s.root.ReadFile(rel)
	if err != nil {
		return notStored(err)
	}
	why := matches(up.MediaType, data)
	if why != nil && why.category == mismatch && len(data) > 0 && mediaType(strings.ToLower(filepath.Ext(up.Name))) == "" {
		why = refuse(badExtension, why.text+", and the extension is not one of "+strings.Join(extensions(), " "))
	}
	if why != nil {
		return rejected(up.Name, why)
	}
	if err := s.root.Rename(part, up.ID); err != nil {
		return notStored(err)
	}
	return nil
}

func (s *Store) create(id, rel string) (*os.File, error) {
	if err := s.root.Mkdir(id, 0o700); err != nil {
		return nil, err
	}
	return s.root.OpenFile(rel, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
}

func notStored(cause error) error {
	return runnel.Fail(runnel.StoreUnavailable, "the upload cannot be stored; check the free disk space of the server", cause)
}

var errTooMany = errors.New("attach: too many uploads")

// incoming is the content of an upload. It counts each read towards the size of
// the Store.
type incoming struct {
	s    *Store
	r    io.Reader
	size int64
	err  error // error of r
}

func (in *incoming) Read(p []byte) (int, error) {
	n, err := in.r.Read(p)
	if !in.s.extend(int64(n)) {
		return 0, errTooMany
	}
	in.size += int64(n)
	if err != nil && err != io.EOF {
		in.err = err
	}
	return n, err
}

// Prune removes the uploads that were made before this time.
func (s *Store) Prune(before time.Time) error {
	folders, err := fs.ReadDir(s.root.FS(), ".")
	if err != nil {
		return err
	}
	var errs []error
	for _, f := range folders {
		st, err := f.Info()
		if err == nil && f.IsDir() && validID(f.Name()) && st.ModTime().Before(before) {
			err = s.remove(f.Name())
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// IDOf returns the id of the upload that a client named, by its id or by its
// path; "" if ref names none. The upload may not exist.
func (s *Store) IDOf(ref Ref) string {
	id := ref.Upload
	if rel, ok := strings.CutPrefix(ref.Path, s.dir+string(filepath.Separator)); ok {
		id, _, _ = strings.Cut(rel, string(filepath.Separator))
	}
	if !validID(id) {
		return ""
	}
	return id
}

// Size returns the size of an upload in bytes, and whether it exists.
func (s *Store) Size(id string) (size int64, exists bool) {
	root, rel, why := s.locate(id)
	if why != nil {
		return 0, false
	}
	st, err := root.Lstat(rel)
	if err != nil {
		return 0, false
	}
	return st.Size(), true
}

// Remove removes an upload. A missing upload is not an error.
func (s *Store) Remove(id string) error {
	if _, err := s.root.Lstat(id); !validID(id) || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return s.remove(id)
}

func (s *Store) remove(id string) error {
	size := int64(0)
	if files, err := s.files(id); err == nil && len(files) == 1 {
		if st, err := files[0].Info(); err == nil {
			size = st.Size()
		}
	}
	err := s.root.RemoveAll(id)
	if err == nil {
		s.release(size)
	}
	return err
}

// locate returns the file of the upload with this id, relative to a root.
func (s *Store) locate(id string) (*os.Root, string, *refusal) {
	unknown := refuse(unreadable, "there is no such upload; it may have expired")
	if s == nil || !validID(id) {
		return nil, "", unknown
	}
	files, err := s.files(id)
	if err != nil || len(files) != 1 {
		return nil, "", unknown
	}
	return s.root, filepath.Join(id, files[0].Name()), nil
}

// files returns the files of an upload. It fails at once if a pipe has replaced
// the upload's folder: see [nofollow.Root].
func (s *Store) files(id string) ([]fs.DirEntry, error) {
	f, err := s.root.Open(id + string(filepath.Separator) + ".")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.ReadDir(-1)
}

func validID(id string) bool {
	u, err := uuid.Parse(id)
	return err == nil && u.String() == id
}

func rejected(name string, why *refusal) error {
	return &runnel.Error{
		Code: runnel.AttachmentFailure, Message: name + ": " + why.text,
		Details: runnel.AttachmentErrors{Category: string(why.category), Errors: []runnel.Rejection{{Path: name, Reason: why.text}}, Count: 1},
	}
}

// maxExt is the length, in bytes, beyond which the end of a name is not an
// extension.
const maxExt = 20

// fileName converts a name from a client to one that every file system accepts.
// It keeps the extension.
func fileName(label string) string {
	base := strings.TrimRight(label[strings.LastIndexAny(label, `/\`)+1:], " .")
	base = base[max(0, len(base)-maxPath):]
	base = strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune(" -_.()+,@", r) {
			return r
		}
		return '_'
	}, strings.ToValidUTF8(base, "_"))
	ext := filepath.Ext(base)
	if len(ext) > maxExt {
		ext = ""
	}
	stem, _ := text.Cut(strings.TrimSuffix(base, ext), maxName/2)
	stem = strings.Trim(stem, " .")
	if stem == "" || !filepath.IsLocal(stem+ext) { // for example CON on Windows
		stem = "file"
	}
	return stem + ext
}
