package sandbox

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/runnel-dev/runnel/internal/proc"
)

// nixRole makes this test program make a sandbox on a system with Nix, and print
// what the sandbox has of it.
const nixRole = "print-nix"

// The system is that of the machine, apart from /nix. Nix serves all users
// through one socket, as root.
func printNix(home, project, socket string) {
	ln, err := net.Listen("unix", "/nix/var/nix/daemon-socket/socket")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer ln.Close()
	b := Box{
		Dir: project, Program: "/bin/sh", Args: []string{"-c", "find /nix -mindepth 1 | sort"}, Env: []string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}, Socket: socket,
	}
	path, args, env, err := b.Command()
	if err != nil {
		fmt.Println(err)
		return
	}
	p, err := proc.Start(context.Background(), proc.Command{Path: path, Args: args, Env: env, Dir: project, Boxed: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	p.CloseStdin()
	out, err := io.ReadAll(p.Stdout())
	if _, ended := p.Wait(context.Background()); err == nil {
		err = ended
	}
	fmt.Printf("%s", out)
	if tail := p.StderrTail(); err != nil || tail != "" {
		fmt.Println(err, tail)
	}
}

// The daemon of Nix builds for everybody who reaches its socket, partly with
// the network, and as root for some users. A mount that is read-only does not
// prevent that.
func TestSocketOfNixIsNotInTheSandbox(t *testing.T) {
	w := newWorld(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var system []string
	for _, e := range listed("/") {
		path := filepath.Join("/", e.Name())
		if to, err := os.Readlink(path); err == nil {
			system = append(system, "--symlink", to, path)
		} else if e.Name() != "nix" && e.IsDir() {
			system = append(system, "--dev-bind", path, path)
		}
	}
	for _, dir := range []string{"store/program", "var/nix/daemon-socket", "var/nix/profiles/default", "var/nix/db", "var/other"} {
		system = append(system, "--dir", filepath.Join("/nix", dir))
	}
	cmd := exec.Command("bwrap", append(system, self, nixRole, w.home, w.project, w.socket)...)
	out, err := cmd.CombinedOutput()
	want := "/nix/store\n/nix/store/program\n/nix/var\n/nix/var/nix\n/nix/var/nix/profiles\n/nix/var/nix/profiles/default\n"
	if err != nil || string(out) != want {
		t.Errorf("%v, the sandbox has\n%s\nwant\n%s", err, out, want)
	}
}

// Some services have their socket beside their programs, such as in /opt.
func TestSocketBesideProgramsIsNotInTheSandbox(t *testing.T) {
	w := newWorld(t)
	bin := filepath.Join(filepath.Dir(w.home), "service", "bin")
	if err := os.MkdirAll(bin, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(bin, "service.sock")
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if err := os.WriteFile(filepath.Join(bin, "tool"), nil, 0o700); err != nil {
		t.Fatal(err)
	}
	b := w.box("ls " + bin + "; test ! -S " + path + " || echo reached")
	b.Env = []string{"HOME=" + w.home, "PATH=" + bin + ":" + os.Getenv("PATH")}
	if out, code := run(t, b); out != "service.sock\ntool\n" || code != 0 {
		t.Errorf("exit code %d, in the sandbox are:\n%s", code, out)
	}
}
