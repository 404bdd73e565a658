package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/gateway/detect"
	"github.com/runnel-dev/runnel/internal/private"
	"github.com/runnel-dev/runnel/internal/seal"
	"github.com/runnel-dev/runnel/provider/script"
)

func checkVersion(d *diagnosis) {
	d.add(finding{Area: "version", Name: "runnel", Status: fine, Detail: fmt.Sprintf("%s, built with %s", version(), runtime.Version())})
	d.add(finding{Area: "version", Name: "system", Status: fine, Detail: system()})
}

// agentFindings returns a finding for each installed agent, and the names of
// the others.
func (a *app) agentFindings(ctx context.Context) (installed []finding, missing []string) {
	for _, ag := range detect.All(ctx, a.providers) {
		switch {
		case ag.CLIType == script.Name: // plays a file; drives no agent
		case !ag.Installed && ag.Path == "":
			missing = append(missing, ag.CLIType)
		default:
			f := finding{Area: "agents", Name: ag.CLIType, Status: fine, Detail: strings.TrimSpace(ag.Version + " " + ag.Path)}
			if f.Fix = todo(ag.Installation); f.Fix != "" {
				f.Status = warning
			}
			installed = append(installed, f)
		}
	}
	return installed, missing
}

// configuration returns the finding about the settings. err is the error of
// loading them.
func configuration(c config, err error) finding {
	f := finding{Area: "files", Name: "configuration", Status: fine, Detail: shown(c.file)}
	switch _, missing := os.Stat(c.file); {
	case err != nil:
		return unusable(f.Name, err)
	case errors.Is(missing, fs.ErrNotExist):
		f.Detail += " does not exist; the defaults apply"
	}
	return f
}

// unusable returns the finding for a file that the server would reject.
func unusable(name string, err error) finding {
	if unsafe, ok := errors.AsType[*private.Error](err); ok {
		return finding{"files", name, problem, unsafe.Path + " " + unsafe.Problem, unsafe.Fix}
	}
	what, fix, _ := strings.Cut(err.Error(), "; ")
	return finding{"files", name, problem, what, fix}
}

func checkFiles(d *diagnosis, c config) {
	for _, f := range []struct {
		name, path string
		check      func(path string) error
		later      string // explains a missing file; "" if the file is required
	}{
		{"data directory", c.Data, private.CheckDir, "the first start creates it"},
		{"key of the data directory", c.KeyFile, checkKey(c), "the first start creates it"},
		{"folder of the socket", socketFolder(c), private.CheckDir, "the first start creates it"},
		{"certificate", c.TLSCert, readable, ""},
		{"key of the certificate", c.TLSKey, secret, ""},
	} {
		if f.path == "" {
			continue
		}
		err := f.check(f.path)
		switch {
		case errors.Is(err, fs.ErrNotExist) && f.later != "":
			d.add(finding{Area: "files", Name: f.name, Status: fine, Detail: f.path + " does not exist; " + f.later})
		case err != nil:
			d.add(unusable(f.name, err))
		default:
			d.add(finding{Area: "files", Name: f.name, Status: fine, Detail: f.path})
		}
	}
}

func readable(path string) error { return private.CheckFile(path, private.Read) }

func secret(path string) error { return private.CheckFile(path, private.Nothing) }

// checkKey returns a check of the key file. Unlike the server, the check never
// creates the file.
func checkKey(c config) func(path string) error {
	return func(path string) error {
		if within(path, c.Data) {
			return errKeyInData(path)
		}
		if _, err := os.Stat(path); err != nil {
			return err
		}
		_, err := seal.Load(path)
		return err
	}
}

// socketFolder returns the folder of the unix socket, or "" if there is no
// socket or the folder is the data directory.
func socketFolder(c config) string {
	if dir := filepath.Dir(c.Socket); c.Socket != "" && dir != c.Data {
		return dir
	}
	return ""
}

func checkNetwork(ctx context.Context, d *diagnosis, c config) {
	add := func(name string, status severity, detail, fix string) {
		d.add(finding{"network", name, status, detail, fix})
	}
	loopback, err := auth.CheckListen(c.Listen, auth.Exposure{TLS: c.TLSCert != "", Proxied: c.Proxied, Tokens: 1})
	if err != nil {
		add("address", problem, err.Error(), "set listen, tls-cert and tls-key, or proxied; see 'runnel serve --help'")
	}
	server, down := connect(ctx, c)
	if down == nil {
		down = server.get(ctx, "/api/health", nil)
	}
	switch {
	case down == nil:
		add("server", fine, "running; for a link to its page, run: runnel login", "")
	case !errors.Is(down, errNoServer):
		add("server", problem, "does not answer: "+down.Error(), "restart it with --log-level info, and read its log")
	default:
		add("server", fine, "no server is running with this data directory", "")
		checkPort(ctx, add, c.Listen, loopback)
	}
	checkOrigin(add, c, loopback)
	checkLocalhost(ctx, add)
}

// checkOrigin adds the finding about the addresses at which browsers can use
// the page.
func checkOrigin(add func(string, severity, string, string), c config, loopback bool) {
	file := filepath.Join(c.Data, pageHostFile)
	switch _, err := os.Lstat(file); {
	case len(c.Origins) > 0:
		add("origin", fine, "the page is at "+strings.Join(c.Origins, " and at "), "")
	case !loopback:
		add("origin", warning, "browsers cannot use the page, because its URL on other machines is unknown", "set it with --origin https://HOST")
	case errors.Is(err, fs.ErrNotExist):
		add("origin", fine, "the first start creates a host name for the page that no other program has used", "")
	default:
		host, err := auth.OpenPageHost(file)
		if err != nil {
			add("origin", problem, err.Error(), "remove the file, restart the server and log in again in each browser")
			return
		}
		add("origin", fine, "the page is at "+host.Name()+", a name that no other program has used", "")
	}
}

// checkPort adds the finding about whether the server could listen on an
// address.
func checkPort(ctx context.Context, add func(string, severity, string, string), address string, loopback bool) {
	ln, err := bind(ctx, address, loopback)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		if taken, ok := errors.AsType[takenError](err); ok { // loopback has two addresses, and the other one may be taken
			address = taken.address
		}
		add("port", problem, address+" is in use by another program", "stop that program, or choose another port with --listen")
	case errors.Is(err, syscall.EACCES):
		add("port", problem, "this user may not listen on "+address, "choose a port above 1023 with --listen")
	case err != nil:
		add("port", problem, fmt.Sprintf("%s cannot be used: %s", address, err), "choose another address with --listen")
	default:
		_ = ln.Close()
		add("port", fine, address+" is free", "")
	}
}

// checkLocalhost adds the finding about the addresses of the name localhost.
// Browsers treat that name as this machine.
func checkLocalhost(ctx context.Context, add func(string, severity, string, string)) {
	found, err := net.DefaultResolver.LookupHost(ctx, "localhost")
	if err != nil {
		add("localhost", warning, "the name does not resolve to an address", "add '127.0.0.1 localhost' to the hosts file")
		return
	}
	for _, text := range found {
		if ip, err := netip.ParseAddr(text); err != nil || !ip.IsLoopback() {
			add("localhost", problem, "the name resolves to "+text+", which is another machine", "correct it in the hosts file")
			return
		}
	}
	add("localhost", fine, "resolves to "+strings.Join(found, ", "), "")
}

// Less free space than leastSpace is a problem; less than littleSpace is a
// warning.
const (
	leastSpace  = 100 << 20 // in bytes
	littleSpace = 1 << 30
)

// checkDisk adds findings about the free space for the data directory, which
// may not exist yet, and the size of the database.
func checkDisk(d *diagnosis, data string) {
	dir := data
	for {
		if _, err := os.Stat(dir); err == nil || dir == filepath.Dir(dir) {
			break
		}
		dir = filepath.Dir(dir)
	}
	room, err := spaceOf(dir)
	if err != nil {
		d.add(finding{"disk", "space", warning, fmt.Sprintf("the free space for %s cannot be determined: %s", data, err), ""})
		return
	}
	f := finding{"disk", "space", fine, fmt.Sprintf("%s free for %s", megabytes(room.free), data), ""}
	switch {
	case room.readOnly:
		f.Status, f.Detail, f.Fix = problem, data+" lies on a file system that is mounted read-only", "choose another directory with --data"
	case room.free < leastSpace:
		f.Status, f.Fix = problem, "free some space: on a full disk, the server accepts no prompts"
	case room.free < littleSpace:
		f.Status, f.Fix = warning, "free some space: transcripts grow with every prompt"
	}
	d.add(f)
	used := uint64(0)
	for _, name := range []string{"runnel.db", "runnel.db-wal", "runnel.journal"} {
		if info, err := os.Stat(filepath.Join(data, name)); err == nil {
			used += uint64(info.Size())
		}
	}
	d.add(finding{Area: "disk", Name: "database", Status: fine, Detail: megabytes(used)})
}

func megabytes(n uint64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }
