//go:build linux

package hostile

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// serveOnce starts a server with these flags and stops it once it is ready. It
// returns the server's standard error, and whether the server started.
func (w *world) serveOnce(flags ...string) (said string, started bool) {
	w.t.Helper()
	cmd := w.command(append([]string{"serve", "--listen", "127.0.0.1:0", "--data", w.data}, flags...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	stuck := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
	defer stuck.Stop()
	if n, _ := out.Read(make([]byte, 1)); n > 0 {
		_ = cmd.Process.Signal(syscall.SIGINT)
		_, _ = io.Copy(io.Discard, out)
		if err := cmd.Wait(); err != nil {
			w.t.Errorf("the server ends with %v: %s", err, &stderr)
		}
		return stderr.String(), true
	}
	if err := cmd.Wait(); err == nil {
		w.t.Error("a server that printed nothing succeeded")
	}
	return stderr.String(), false
}

// mendAsTold runs the command at the end of an error message, as the world's
// user.
func (w *world) mendAsTold(said string) {
	w.t.Helper()
	_, command, ok := strings.Cut(said, "; run: ")
	if !ok {
		w.t.Fatalf("no command in %q", said)
	}
	command, _, _ = strings.Cut(command, "\n")
	command = strings.TrimSuffix(command, " (STORE_UNAVAILABLE)")
	cmd := exec.Command("sh", "-c", command)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: w.user}
	if out, err := cmd.CombinedOutput(); err != nil {
		w.t.Errorf("%s: %s", command, words(out, err))
	}
}

// put writes a file that belongs to the world's user, with exactly this mode.
func (w *world) put(path, content string, mode os.FileMode) {
	w.t.Helper()
	if err := errors.Join(os.WriteFile(path, []byte(content), mode), os.Chmod(path, mode)); err != nil {
		w.t.Fatal(err)
	}
	w.own(path)
}

// folder makes a folder that belongs to the world's user, with exactly this
// mode, and returns its path.
func (w *world) folder(path string, mode os.FileMode) string {
	w.t.Helper()
	if err := os.Mkdir(path, 0o700); err != nil && !os.IsExist(err) {
		w.t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		w.t.Fatal(err)
	}
	w.own(path)
	return path
}

// TestFilesOfOthersAreRefused gives the server files that other users can
// change, or secrets that other users can read. The server must not start until
// the command that it prints has been run.
func TestFilesOfOthersAreRefused(t *testing.T) {
	const plain, secret = "log-level: warn\n", "agents:\n  claude: {env: {MY_API_KEY: 6f1ed002ab5595859014ebf0951522d9}}\n"
	in := func(w *world, parts ...string) string { return filepath.Join(append([]string{w.dir}, parts...)...) }
	link := func(w *world, target, at string) {
		if err := os.Symlink(target, at); err != nil {
			w.t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		make  func(w *world) []string // returns the server's flags
		wants string
	}{
		"configuration": {func(w *world) []string {
			w.put(in(w, "c.yaml"), plain, 0o666)
			return []string{"--config", in(w, "c.yaml")}
		}, "can be changed by others (mode 0666)"},
		"configuration of a group": {func(w *world) []string {
			w.put(in(w, "c.yaml"), plain, 0o620)
			return []string{"--config", in(w, "c.yaml")}
		}, "can be changed by others (mode 0620)"},
		"folder of the configuration": {func(w *world) []string {
			w.put(filepath.Join(w.folder(in(w, "etc"), 0o777), "c.yaml"), plain, 0o600)
			return []string{"--config", in(w, "etc", "c.yaml")}
		}, "can be changed by others (mode 0777)"},
		"folder far above the configuration": {func(w *world) []string {
			w.put(filepath.Join(w.folder(filepath.Join(w.folder(in(w, "etc"), 0o777), "runnel"), 0o700), "c.yaml"), plain, 0o600)
			return []string{"--config", in(w, "etc", "runnel", "c.yaml")}
		}, "can be changed by others (mode 0777)"},
		"folder that a link leads to": {func(w *world) []string {
			w.put(filepath.Join(w.folder(in(w, "o'ther"), 0o772), "c.yaml"), plain, 0o600)
			link(w, in(w, "o'ther", "c.yaml"), in(w, "c.yaml"))
			return []string{"--config", in(w, "c.yaml")}
		}, "can be changed by others (mode 0772)"},
		"folder of a link in the middle": {func(w *world) []string {
			w.put(in(w, "c.yaml"), plain, 0o600)
			link(w, in(w, "c.yaml"), filepath.Join(w.folder(in(w, "open"), 0o777), "link"))
			link(w, in(w, "open", "link"), in(w, "d.yaml"))
			return []string{"--config", in(w, "d.yaml")}
		}, "can be changed by others (mode 0777)"},
		"secrets in the configuration": {func(w *world) []string {
			w.put(in(w, "c.yaml"), secret, 0o644)
			return []string{"--config", in(w, "c.yaml")}
		}, "can be read by others (mode 0644)"},
		"data directory": {func(w *world) []string {
			w.folder(w.data, 0o755)
			return nil
		}, "can be used by others (mode 0755)"},
		"parent of the data directory": {func(w *world) []string {
			w.data = w.folder(filepath.Join(w.folder(in(w, "open"), 0o777), "data"), 0o700)
			return nil
		}, "can be changed by others (mode 0777)"},
		"folder far above a new data directory": {func(w *world) []string {
			w.data = filepath.Join(w.folder(in(w, "open"), 0o777), "new", "data")
			return nil
		}, "can be changed by others (mode 0777)"},
		"key of the certificate": {func(w *world) []string {
			cert, key := certificate(w)
			w.put(in(w, "cert.pem"), cert, 0o644)
			w.put(in(w, "key.pem"), key, 0o644)
			return []string{"--tls-cert", in(w, "cert.pem"), "--tls-key", in(w, "key.pem")}
		}, "can be read by others (mode 0644)"},
		"certificate": {func(w *world) []string {
			cert, key := certificate(w)
			w.put(in(w, "cert.pem"), cert, 0o666)
			w.put(in(w, "key.pem"), key, 0o600)
			return []string{"--tls-cert", in(w, "cert.pem"), "--tls-key", in(w, "key.pem")}
		}, "can be changed by others (mode 0666)"},
	} {
		t.Run(name, func(t *testing.T) {
			users(t, func(t *testing.T, user *syscall.Credential) {
				w := newWorld(t, user, "60s")
				flags := c.make(w)
				said, started := w.serveOnce(flags...)
				if started || !strings.Contains(said, c.wants) {
					t.Fatalf("started: %v; said %q, want %q", started, said, c.wants)
				}
				w.mendAsTold(said)
				if said, started := w.serveOnce(flags...); !started {
					t.Errorf("mended as told, it does not start: %s", said)
				}
			})
		})
	}
}

// TestFilesOfAnotherUserAreRefused gives the server files and folders that
// belong to another user. The server must not start.
func TestFilesOfAnotherUserAreRefused(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to be two users")
	}
	const nobody = 65534
	for name, make := range map[string]func(w *world) (other string, flags []string){
		"configuration": func(w *world) (string, []string) {
			path := filepath.Join(w.dir, "c.yaml")
			w.put(path, "log-level: warn\n", 0o644)
			return path, []string{"--config", path}
		},
		"folder": func(w *world) (string, []string) {
			dir := w.folder(filepath.Join(w.dir, "other"), 0o755)
			w.put(filepath.Join(dir, "c.yaml"), "log-level: warn\n", 0o644)
			return dir, []string{"--config", filepath.Join(dir, "c.yaml")}
		},
		"data directory": func(w *world) (string, []string) { return w.data, nil },
		"parent of the data directory": func(w *world) (string, []string) {
			dir := w.folder(filepath.Join(w.dir, "other"), 0o755)
			w.data = w.folder(filepath.Join(dir, "data"), 0o700)
			return dir, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			users(t, func(t *testing.T, user *syscall.Credential) {
				w := newWorld(t, user, "60s")
				other, flags := make(w)
				if err := os.Chown(other, nobody, nobody); err != nil {
					t.Fatal(err)
				}
				said, started := w.serveOnce(flags...)
				if started || !strings.Contains(said, "belongs to user 65534") || !strings.Contains(said, "chown") || !strings.Contains(said, other) {
					t.Errorf("started: %v; said %q", started, said)
				}
			})
		})
	}
}

// TestFilesThatOthersMayReadAreTaken checks what the server must accept: a
// configuration without secrets that others can read, and a data directory
// below a sticky folder such as /tmp.
func TestFilesThatOthersMayReadAreTaken(t *testing.T) {
	users(t, func(t *testing.T, user *syscall.Credential) {
		w := newWorld(t, user, "60s")
		w.put(filepath.Join(w.dir, "c.yaml"), "log-level: warn\n", 0o644)
		w.data = filepath.Join(w.folder(filepath.Join(w.dir, "tmp"), 0o777|os.ModeSticky), "new", "data")
		if said, started := w.serveOnce("--config", filepath.Join(w.dir, "c.yaml")); !started || said != "" {
			t.Errorf("started: %v; said %q", started, said)
		}
	})
}
