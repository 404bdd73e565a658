// Package pictures stores the images of prompts. Each image is stored once, by
// its content, as long as a session uses it.
package pictures

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/google/uuid"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/nofollow"
)

// Bounds of a Store.
const (
	MaxSession = 1000    // pictures of one session
	MaxBytes   = 4 << 30 // bytes of all pictures
)

// Names in the folder of a Store. A picture is a file named by its id. A
// session that uses pictures has a file in the folder sessions, named by the
// session's id, with a line for each picture: its id, a space, its size in
// bytes. A file that is being written has a name that ends with partSuffix.
const (
	sessionsName = "sessions"
	partSuffix   = ".part"
)

// Errors of this package.
var (
	ErrNotFound = errors.New("pictures: the session has no such picture")
	ErrLimit    = errors.New("pictures: too many pictures are stored")
)

// A Store is a folder of pictures. A picture is stored before the session that
// uses it is listed, and removed after the last session that lists it, so that
// after a crash [Store.Sweep] finds everything that nothing uses. A Store is
// safe for concurrent use. Only one Store may be open in a folder.
type Store struct {
	root *os.Root

	mu       sync.Mutex
	sessions map[string][]picture // by the session's id
	users    map[string]int       // number of sessions, by the picture's id
	bytes    int64                // size of all pictures
	most     int64                // maximum of bytes
	number   int                  // maximum number of pictures of a session
}

// A picture is one that a session uses.
type picture struct {
	id   string
	size int64 // in bytes
}

// Open opens the Store in dir, an absolute path, and creates dir if it does not
// exist. The caller must close the Store.
func Open(dir string) (*Store, error) {
	for _, d := range []string{dir, filepath.Join(dir, sessionsName)} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, err
		}
		if st, err := os.Lstat(d); err != nil || !st.IsDir() {
			return nil, errors.Join(err, fmt.Errorf("pictures: %s is not a folder", d))
		}
		if err := os.Chmod(d, 0o700); err != nil {
			return nil, err
		}
	}
	root, err := nofollow.Root(dir)
	if err != nil {
		return nil, err
	}
	s := &Store{root: root, sessions: make(map[string][]picture), users: make(map[string]int), most: MaxBytes, number: MaxSession}
	if err := s.load(); err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return s, nil
}

// Close closes the folder. The pictures stay.
func (s *Store) Close() error { return s.root.Close() }

// load reads the lists of all sessions.
func (s *Store) load() error {
	files, err := fs.ReadDir(s.root.FS(), sessionsName)
	if err != nil {
		return err
	}
	for _, f := range files {
		if !isSession(f.Name()) || !f.Type().IsRegular() {
			continue
		}
		data, err := s.root.ReadFile(filepath.Join(sessionsName, f.Name()))
		if err != nil {
			return err
		}
		s.setList(f.Name(), parse(data))
	}
	return nil
}

// parse returns the pictures in the file of a session. It skips a line that it
// cannot read.
func parse(data []byte) (list []picture) {
	for line := range bytes.Lines(data) {
		id, size, _ := strings.Cut(strings.TrimSuffix(string(line), "\n"), " ")
		n, err := strconv.ParseInt(size, 10, 64)
		if err == nil && n > 0 && event.IsPictureID(id) && len(list) < MaxSession {
			list = append(list, picture{id, n})
		}
	}
	return list
}

// setList replaces the list of a session in memory; s.mu is held, or nobody
// else has the Store.
func (s *Store) setList(session string, list []picture) {
	for _, p := range s.sessions[session] {
		if s.users[p.id]--; s.users[p.id] == 0 {
			delete(s.users, p.id)
			s.bytes -= p.size
		}
	}
	delete(s.sessions, session)
	if len(list) > 0 {
		s.sessions[session] = list
	}
	for _, p := range list {
		if s.users[p.id]++; s.users[p.id] == 1 {
			s.bytes += p.size
		}
	}
}

// Keep stores images for a session. It ignores data that is no picture; see
// [event.PictureID]. It returns the ids of the pictures that the session did
// not have before. After an error the session has the pictures that it had
// before. The error is ErrLimit beyond the bounds of a Store.
func (s *Store) Keep(session string, images ...[]byte) (fresh []string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list, total := slices.Clone(s.sessions[session]), s.bytes
	add := make(map[string][]byte)
	for _, data := range images {
		id := event.PictureID(data)
		if id == "" || slices.ContainsFunc(list, func(p picture) bool { return p.id == id }) {
			continue
		}
		if s.users[id] == 0 {
			total += int64(len(data))
		}
		if len(list) >= s.number || total > s.most {
			return nil, ErrLimit
		}
		list, fresh, add[id] = append(list, picture{id, int64(len(data))}), append(fresh, id), data
	}
	if len(fresh) == 0 {
		return nil, nil
	}
	for _, id := range fresh {
		if s.users[id] == 0 || !s.has(id, int64(len(add[id]))) {
			err = s.write(id, add[id])
		}
		if err != nil {
			break
		}
	}
	if err == nil {
		err = s.replace(session, list)
	}
	if err != nil {
		return nil, errors.Join(err, s.removeUnused(fresh))
	}
	return fresh, nil
}

// has reports whether the content of a picture is stored.
func (s *Store) has(id string, size int64) bool {
	st, err := s.root.Lstat(id)
	return err == nil && st.Mode().IsRegular() && st.Size() == size
}

// Drop removes pictures from the list of a session, and those that no session
// uses any more.
func (s *Store) Drop(session string, ids ...string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := slices.DeleteFunc(slices.Clone(s.sessions[session]), func(p picture) bool { return slices.Contains(ids, p.id) })
	if err := s.replace(session, list); err != nil {
		return err
	}
	return s.removeUnused(ids)
}

// Remove removes the list of a session, and the pictures that no other session
// uses.
func (s *Store) Remove(session string) error {
	return s.Drop(session, s.List(session)...)
}

// Share lists the pictures of a session for another session, too.
func (s *Store) Share(from, to string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.sessions[from]) == 0 {
		return nil
	}
	return s.replace(to, slices.Clone(s.sessions[from]))
}

// List returns the ids of the pictures of a session.
func (s *Store) List(session string) (ids []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.sessions[session] {
		ids = append(ids, p.id)
	}
	return ids
}

// Own returns the number of pictures that only this session uses, and their
// size in bytes.
func (s *Store) Own(session string) (n int, size int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.sessions[session] {
		if s.users[p.id] == 1 {
			n++
			size += p.size
		}
	}
	return n, size
}

// Portion returns the size of the pictures of a session, in bytes. The size of
// a picture is divided among the sessions that use it.
func (s *Store) Portion(session string) (size int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.sessions[session] {
		size += p.size / int64(s.users[p.id])
	}
	return size
}

// Read returns a picture of a session. It returns ErrNotFound if the session
// does not use it, or if its content is missing or damaged.
func (s *Store) Read(session, id string) ([]byte, error) {
	s.mu.Lock()
	known := slices.ContainsFunc(s.sessions[session], func(p picture) bool { return p.id == id })
	s.mu.Unlock()
	if !known {
		return nil, ErrNotFound
	}
	f, err := nofollow.Open(s.root, id)
	if err != nil {
		return nil, ErrNotFound
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil || st.Size() > event.MaxPicture {
		return nil, ErrNotFound
	}
	data := make([]byte, st.Size())
	if _, err := f.ReadAt(data, 0); err != nil || event.PictureID(data) != id {
		return nil, ErrNotFound
	}
	return data, nil
}

// Sweep removes the lists of sessions that do not exist, pictures that no
// session uses, and files that were not written completely.
func (s *Store) Sweep(exists func(session string) bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for session := range s.sessions {
		if !exists(session) {
			errs = append(errs, s.replace(session, nil))
		}
	}
	for _, dir := range []string{".", sessionsName} {
		files, err := fs.ReadDir(s.root.FS(), dir)
		errs = append(errs, err)
		for _, f := range files {
			name := f.Name()
			if strings.HasSuffix(name, partSuffix) || dir == "." && event.IsPictureID(name) && s.users[name] == 0 {
				errs = append(errs, s.root.RemoveAll(filepath.Join(dir, name)))
			}
		}
	}
	return errors.Join(errs...)
}

// removeUnused removes those of the pictures that no session uses; s.mu is
// held.
func (s *Store) removeUnused(ids []string) error {
	var errs []error
	for _, id := range ids {
		if s.users[id] == 0 {
			if err := s.root.Remove(id); !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}

// replace replaces the list of a session; s.mu is held.
func (s *Store) replace(session string, list []picture) error {
	if !isSession(session) {
		return fmt.Errorf("pictures: %q is not the id of a session", session)
	}
	name := filepath.Join(sessionsName, session)
	if len(list) == 0 {
		if err := s.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		s.setList(session, nil)
		return nil
	}
	var b bytes.Buffer
	for _, p := range list {
		fmt.Fprintf(&b, "%s %d\n", p.id, p.size)
	}
	if err := s.write(name, b.Bytes()); err != nil {
		return err
	}
	s.setList(session, list)
	return nil
}

// write writes a file so that after a crash it is whole or missing.
func (s *Store) write(name string, data []byte) (err error) {
	part := name + partSuffix
	f, err := s.root.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = s.root.Rename(part, name)
	}
	if err != nil {
		return errors.Join(err, s.root.Remove(part))
	}
	return s.syncDir(filepath.Dir(name))
}

// Files calls each with the name of each file of the Store in the folder root,
// which another process may use. A name has slashes.
func Files(root *os.Root, each func(name string) error) error {
	for _, dir := range []string{".", sessionsName} { // a list is never older than its pictures
		files, err := fs.ReadDir(root.FS(), dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for _, f := range files {
			if name := path.Join(dir, f.Name()); f.Type().IsRegular() && IsFile(name) {
				if err := each(name); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// IsFile reports whether name can be the name of a file of a Store: of a
// picture, or of the list of a session.
func IsFile(name string) bool {
	session, isList := strings.CutPrefix(name, sessionsName+"/")
	return isList && isSession(session) || event.IsPictureID(name)
}

// isSession reports whether name has the form of a session's id.
func isSession(name string) bool {
	id, err := uuid.Parse(name)
	return err == nil && id.String() == name
}
