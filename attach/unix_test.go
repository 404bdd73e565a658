//go:build unix

package attach

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/runnel-dev/runnel/internal/testload"
)

func write(t testing.TB, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// quickest runs f a few times and returns the shortest duration. A busy machine
// can delay single runs; a file that blocks delays all.
func quickest(f func()) time.Duration {
	best := time.Hour
	for range 5 {
		begin := time.Now()
		f()
		best = min(best, time.Since(begin))
	}
	return best
}

func TestSpecialFilesAreRefusedWithoutBlocking(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	in := func(name string) string { return filepath.Join(dir, name) }
	if err := syscall.Mkfifo(in("fifo.txt"), 0o600); err != nil {
		t.Fatal(err)
	}
	short, err := os.MkdirTemp("", "s") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(short)
	l, err := net.Listen("unix", filepath.Join(short, "sock.txt"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	write(t, in("secret"), "SECRET")
	if err := os.Link(in("secret"), in("hard.txt")); err != nil {
		t.Fatal(err)
	}
	write(t, in("sparse.txt"), "")
	if err := os.Truncate(in("sparse.txt"), 1<<40); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(in("dir.txt"), 0o700); err != nil {
		t.Fatal(err)
	}

	c := Checker{Roots: []string{dir, short}}
	for _, f := range []struct {
		path string
		want string
	}{
		{in("fifo.txt"), "it is not a regular file"},
		{filepath.Join(short, "sock.txt"), "it is not a regular file"},
		{in("hard.txt"), "it has more than one name (hard links), one of which may be elsewhere"},
		{in("sparse.txt"), "it is larger than 10 MiB"},
		{in("dir.txt"), "it is not a regular file"},
		{in("fifo.txt/x.txt"), "it does not exist or cannot be read"},
	} {
		d := quickest(func() {
			got := c.Check([]Ref{{Path: f.path}})
			if len(got.Attachments) != 0 || got.Rejected[0].Reason != f.want {
				t.Errorf("%s: %+v, want %s", f.path, got, f.want)
			}
		})
		if d > testload.Room(100*time.Millisecond) {
			t.Errorf("%s took %v", f.path, d)
		}
	}
	piped := Checker{Roots: []string{in("fifo.txt")}} // a root that was replaced by a pipe
	if got := piped.Check([]Ref{{Path: in("fifo.txt/x.txt")}}); len(got.Rejected) != 1 || got.Rejected[0].Reason != "it cannot be read" {
		t.Errorf("below a pipe: %+v", got)
	}
	c.HardLinks = true
	if got := c.Check([]Ref{{Path: in("hard.txt")}}); len(got.Attachments) != 1 {
		t.Errorf("hard links are allowed, and still: %v", got.Rejected)
	}
	goleak.VerifyNone(t, goleak.IgnoreCurrent())
}

// Check rejects devices and files in /proc by their extension. This test calls
// read directly: it must reject them too, without blocking.
func TestDevicesAreNeverRead(t *testing.T) {
	paths := []string{"/dev/zero", "/dev/null", "/dev/tty"}
	if runtime.GOOS == "linux" {
		paths = append(paths, "/proc/self/maps", "/proc/self/environ", "/proc/kmsg", "/proc/self/mem")
	}
	for _, path := range paths {
		d := quickest(func() {
			root, err := os.OpenRoot(filepath.Dir(path))
			if err != nil {
				t.Fatal(err)
			}
			defer root.Close()
			if data, why := (Checker{}).read(root, filepath.Base(path), MaxTotal); why == nil {
				t.Errorf("%s: read %d bytes", path, len(data))
			}
		})
		if d > testload.Room(100*time.Millisecond) {
			t.Errorf("%s took %v", path, d)
		}
	}
}

// A file that changes between its check and the end of the read is rejected.
func TestFileThatChangesWhileReadIsRefused(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.txt")
	for name, change := range map[string]func() error{
		"grows":   func() error { return os.WriteFile(path, []byte("longer than before"), 0o600) },
		"shrinks": func() error { return os.Truncate(path, 2) },
		"deleted": func() error { return os.Remove(path) },
		"linked":  func() error { return os.Link(path, filepath.Join(dir, "b.txt")) },
		"touched": func() error { return os.Chtimes(path, time.Time{}, time.Unix(1, 0)) },
		"same":    nil,
	} {
		t.Run(name, func(t *testing.T) {
			write(t, path, "content")
			f, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			st, err := f.Stat()
			if err != nil {
				t.Fatal(err)
			}
			if change != nil {
				if err := change(); err != nil {
					t.Fatal(err)
				}
			}
			data, why := (Checker{}).content(f, st)
			if (why == nil) != (change == nil) {
				t.Errorf("got %q, %+v", data, why)
			}
			os.Remove(path)
		})
	}
}

// One goroutine keeps replacing a file and a folder with links to a secret,
// while another reads through both. The reader must never get the secret.
func TestSwappingLinksNeverRevealsAFileOutside(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	in := func(name string) string { return filepath.Join(base, name) }
	for _, d := range []string{"root", "root/dir", "root/.inside", "outside"} {
		if err := os.Mkdir(in(d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{"outside/f.txt", "root/.inside/f.txt"} {
		write(t, in(f), "SECRET")
	}
	write(t, in("root/f.txt"), "fine")
	write(t, in("root/dir/f.txt"), "fine")

	stop := make(chan struct{})
	var swapper sync.WaitGroup
	swapper.Go(func() {
		targets := []string{in("outside"), ".inside"} // outside and inside of the root
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			to := targets[i%2]
			os.Symlink(filepath.Join(to, "f.txt"), in("root/link"))
			os.Rename(in("root/f.txt"), in("root/.f"))
			os.Rename(in("root/link"), in("root/f.txt"))
			os.Rename(in("root/.f"), in("root/f.txt"))
			os.Rename(in("root/dir"), in("root/.d"))
			os.Symlink(to, in("root/dir"))
			os.Remove(in("root/dir"))
			os.Rename(in("root/.d"), in("root/dir"))
		}
	})
	c := Checker{Roots: []string{in("root")}}
	fine, refused, begin := 0, 0, time.Now()
	enough := func() bool {
		return time.Since(begin) >= 2*time.Second && fine > 0 && refused > 0 || time.Since(begin) >= time.Minute
	}
	if os.Getenv("RUNNEL_LONG") != "" {
		enough = func() bool { return fine+refused >= 200_000 }
	}
	for !enough() {
		got := c.Check([]Ref{{Path: in("root/f.txt")}, {Path: in("root/dir/f.txt")}})
		for _, a := range got.Attachments {
			if a.Text != "fine" {
				t.Errorf("read %q", a.Text)
			}
			fine++
		}
		refused += len(got.Rejected)
	}
	close(stop)
	swapper.Wait()
	if fine == 0 || refused == 0 {
		t.Errorf("%d read and %d refused: the race was not run", fine, refused)
	}
	t.Logf("%d read, %d refused", fine, refused)
}

func TestPipeInPlaceOfAnUploadDoesNotBlock(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "uploads")
	s, err := OpenStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	const id = "0192f0c1-7d5e-4c3a-9d0e-2b1f6f0f6a11"
	if err := syscall.Mkfifo(filepath.Join(dir, id), 0o600); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if _, _, why := s.locate(id); why == nil {
			t.Error("a pipe is an upload")
		}
	}()
	select {
	case <-done:
	case <-time.After(testload.Room(5 * time.Second)):
		t.Fatal("it waits for the other end of the pipe")
	}
}

func TestStoreKeepsToItself(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data", "uploads")
	s, err := OpenStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	up, err := s.Save(strings.NewReader("text"), "a.txt")
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]os.FileMode{dir: 0o700, filepath.Dir(up.Path): 0o700, up.Path: 0o600} {
		st, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if st.Mode().Perm() != want {
			t.Errorf("%s is %v, want %v", path, st.Mode().Perm(), want)
		}
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	again, err := OpenStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if st, _ := os.Stat(dir); st.Mode().Perm() != 0o700 {
		t.Errorf("an open folder stays %v", st.Mode().Perm())
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	if s, err := OpenStore(link); err == nil {
		s.Close()
		t.Error("a symbolic link is taken for the folder")
	}
}

// A full disk or a deleted folder leaves no part of an upload.
func TestStoreLeavesNothingBehind(t *testing.T) {
	dir := t.TempDir()
	s, err := OpenStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.write(&Upload{ID: "id", Name: strings.Repeat("n", 300)}, strings.NewReader("x")); err == nil { // no file system accepts this name
		t.Fatal("written")
	}
	broken := io.MultiReader(strings.NewReader("half"), iotestErr{})
	if _, err := s.Save(broken, "a.txt"); err == nil {
		t.Fatal("a broken upload is kept")
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

type iotestErr struct{}

func (iotestErr) Read([]byte) (int, error) { return 0, io.ErrClosedPipe }
