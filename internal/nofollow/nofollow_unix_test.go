//go:build unix

package nofollow

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// If another file or folder replaces the checked one, the replacement is not
// opened, even if it lies within the root. A pipe as the replacement does not
// block the reader.
func TestSwappedFileOrFolderIsNotOpened(t *testing.T) {
	base := t.TempDir()
	in := func(name string) string { return filepath.Join(base, name) }
	root, err := os.OpenRoot(base)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := os.Mkdir(in("other"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(in("other/f.txt"), []byte("SECRET"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, put := range map[string]func(path string) error{
		"nothing":       func(string) error { return nil },
		"link":          func(path string) error { return os.Symlink("other/f.txt", path) },
		"link to dir":   func(path string) error { return os.Symlink("other", path) },
		"other file":    func(path string) error { return os.WriteFile(path, []byte("SECRET"), 0o600) },
		"other folder":  func(path string) error { return os.Mkdir(path, 0o700) },
		"pipe":          func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"outside link":  func(path string) error { return os.Symlink("/", path) },
		"hidden behind": func(path string) error { return os.Symlink("../"+filepath.Base(base)+"/other", path) },
	} {
		for _, folder := range []bool{false, true} {
			path := in("it")
			if folder {
				err = os.Mkdir(path, 0o700)
			} else {
				err = os.WriteFile(path, []byte("fine"), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			seen, err := root.Lstat("it")
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(path, in("away")); err != nil { // the renamed directory keeps its identity
				t.Fatal(err)
			}
			if err := put(path); err != nil {
				t.Fatal(err)
			}
			if folder {
				sub, err := enterSeen(root, "it", seen)
				if err == nil {
					sub.Close()
					t.Errorf("%s in place of a folder is entered", name)
				}
			} else {
				f, err := openSeen(root, "it", seen)
				if err == nil {
					f.Close()
					t.Errorf("%s in place of a file is opened", name)
				}
			}
			if err := errors.Join(os.RemoveAll(path), os.RemoveAll(in("away"))); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestOpenFollowsNoLink(t *testing.T) {
	base := t.TempDir()
	in := func(name string) string { return filepath.Join(base, name) }
	if err := errors.Join(
		os.MkdirAll(in("dir/sub"), 0o700), os.WriteFile(in("dir/sub/f.txt"), []byte("fine"), 0o600),
		os.Symlink("dir", in("linked")), os.Symlink("dir/sub/f.txt", in("f.txt")), syscall.Mkfifo(in("pipe"), 0o600),
	); err != nil {
		t.Fatal(err)
	}
	root, err := Root(base)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for rel, want := range map[string]error{
		"dir/sub/f.txt": nil, "linked/sub/f.txt": ErrLink, "f.txt": ErrLink, "pipe": ErrNotRegular, "dir": ErrNotRegular,
		"dir/none": ErrUnreadable, "none/f.txt": ErrUnreadable, "f.txt/x": ErrLink, "dir/sub/f.txt/x": ErrUnreadable,
		"../" + filepath.Base(base) + "/dir/sub/f.txt": ErrUnreadable, "": ErrUnreadable,
	} {
		f, err := Open(root, rel)
		if !errors.Is(err, want) {
			t.Errorf("open %q: got %v, want %v", rel, err, want)
		}
		if err == nil {
			f.Close()
		}
	}
	for rel, want := range map[string]error{".": nil, "dir": nil, "dir/sub": nil, "linked": ErrLink, "linked/sub": ErrLink, "pipe": ErrUnreadable, "dir/none": ErrUnreadable, "..": ErrUnreadable} {
		sub, err := OpenDir(root, rel)
		if !errors.Is(err, want) {
			t.Errorf("open the directory %q: got %v, want %v", rel, err, want)
		}
		if err == nil {
			sub.Close()
		}
	}
}

func TestRootInPlaceFollowsNoLink(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	in := func(name string) string { return filepath.Join(base, name) }
	if err := os.MkdirAll(in("a/b"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("a", in("link")); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]error{"a/b": nil, "link": ErrLink, "link/b": ErrLink, "none": ErrUnreadable} {
		root, err := RootInPlace(in(path))
		if !errors.Is(err, want) {
			t.Errorf("%s: got %v, want %v", path, err, want)
		}
		if err == nil {
			root.Close()
		}
	}
}
