package pictures

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/runnel-dev/runnel/event"
)

const (
	one = "0192f0c1-7d5e-7c3a-9d0e-2b1f6f0f6a11"
	two = "0192f0c1-7d5e-7c3a-9d0e-2b1f6f0f6a12"
)

// gif returns an image that differs for each n.
func gif(n int) []byte { return fmt.Appendf(nil, "GIF89a%d", n) }

func open(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// keep stores images for a session, and returns their ids.
func keep(t *testing.T, s *Store, session string, images ...[]byte) (ids []string) {
	t.Helper()
	if _, err := s.Keep(session, images...); err != nil {
		t.Fatal(err)
	}
	for _, data := range images {
		ids = append(ids, event.PictureID(data))
	}
	return ids
}

func files(t *testing.T, dir string) (names []string) {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := Files(root, func(name string) error { names = append(names, name); return nil }); err != nil {
		t.Fatal(err)
	}
	return names
}

func TestPictureIsRemovedWithItsLastSession(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	ids := keep(t, s, one, gif(1), gif(2), []byte("no image"))
	keep(t, s, two, gif(2))
	if err := s.Share(one, two); err != nil {
		t.Fatal(err)
	}
	for i := range 2 { // the second time, as after a restart
		if n, size := s.Own(one); n != 0 || size != 0 {
			t.Errorf("%d: %d own pictures, %d bytes", i, n, size)
		}
		if got := s.Portion(one); got != 6 { // half of two pictures of 7 bytes, rounded down
			t.Errorf("%d: portion %d", i, got)
		}
		s = open(t, dir)
	}
	if err := s.Remove(one); err != nil {
		t.Fatal(err)
	}
	if data, err := s.Read(two, ids[1]); err != nil || string(data) != string(gif(2)) {
		t.Errorf("the other session: %q, %v", data, err)
	}
	if _, err := s.Read(one, ids[1]); !errors.Is(err, ErrNotFound) {
		t.Errorf("the removed session: %v", err)
	}
	if n, size := s.Own(two); n != 2 || size != 14 {
		t.Errorf("%d own pictures, %d bytes", n, size)
	}
	if err := s.Remove(two); err != nil {
		t.Fatal(err)
	}
	if got := files(t, dir); len(got) != 0 || s.bytes != 0 {
		t.Errorf("left: %v, %d bytes", got, s.bytes)
	}
}

// Sweep removes what a crash left at any point of a change.
func TestSweepRemovesWhatCrashesLeave(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	ids := keep(t, s, one, gif(1))
	gone := keep(t, s, two, gif(2))
	write := func(name, content string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(event.PictureID(gif(3)), string(gif(3))) // the list was not written
	write(event.PictureID(gif(4))+partSuffix, "GIF8")
	write("sessions/"+one+partSuffix, "half")
	write("note", "not ours")
	s = open(t, dir)
	if err := s.Sweep(func(session string) bool { return session == one }); err != nil {
		t.Fatal(err)
	}
	if got, want := files(t, dir), []string{ids[0], "sessions/" + one}; !slices.Equal(got, want) {
		t.Errorf("left %v, want %v", got, want)
	}
	for _, name := range []string{event.PictureID(gif(4)) + partSuffix, "sessions/" + one + partSuffix} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			t.Errorf("%s is left", name)
		}
	}
	if _, err := os.Lstat(filepath.Join(dir, "note")); err != nil {
		t.Error("a foreign file was removed")
	}
	if _, err := s.Read(two, gone[0]); !errors.Is(err, ErrNotFound) {
		t.Errorf("a session that does not exist: %v", err)
	}
	if n, _ := s.Own(one); n != 1 {
		t.Errorf("%d own pictures", n)
	}
}

func TestDamagedPictureIsNotFoundAndIsReplaced(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	id := keep(t, s, one, gif(1))[0]
	if err := os.WriteFile(filepath.Join(dir, id), []byte("<svg onload=x>"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Read(one, id); !errors.Is(err, ErrNotFound) {
		t.Errorf("other content: %v", err)
	}
	if err := os.Remove(filepath.Join(dir, id)); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, id)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Read(one, id); !errors.Is(err, ErrNotFound) {
		t.Errorf("a link: %v", err)
	}
	keep(t, s, two, gif(1))
	if _, err := s.Read(two, id); err != nil {
		t.Errorf("stored again: %v", err)
	}
}

func TestStoreIsBounded(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	s.most = 20
	keep(t, s, one, gif(1), gif(2))
	if _, err := s.Keep(one, gif(3)); !errors.Is(err, ErrLimit) {
		t.Errorf("beyond the bytes: %v", err)
	}
	keep(t, s, two, gif(1)) // stored already
	s.most = MaxBytes
	s.number = 3
	keep(t, s, one, gif(5))
	if _, err := s.Keep(one, gif(1), gif(3)); !errors.Is(err, ErrLimit) {
		t.Errorf("beyond the number: %v", err)
	}
	if got := len(s.List(one)); got != s.number {
		t.Errorf("%d pictures", got)
	}
	big := append(gif(1), make([]byte, event.MaxPicture)...)
	if fresh, err := s.Keep(two, big); len(fresh) != 0 || err != nil {
		t.Errorf("an image that is too large: %v, %v", fresh, err)
	}
	if err := s.Share(one, "../x"); err == nil {
		t.Error("a name that is no id of a session")
	}
}
