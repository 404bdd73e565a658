package agentconn

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/bridge"
	"github.com/runnel-dev/runnel/internal/egress"
	"github.com/runnel-dev/runnel/internal/sandbox"
	"github.com/runnel-dev/runnel/internal/supervisor"
)

// An Enclosure is what an agent needs in a sandbox, besides its folders and its
// program. All paths are absolute.
type Enclosure struct {
	State   []string // directories in which it stores conversations and the like; writable
	Files   []string // single files that it writes, such as its login; writable if they exist
	Copies  []string // single files of which it writes a copy, which is dropped when it ends, because they could name programs
	Read    []string // its settings
	Private []string // directories in which everything else is hidden, and what it writes is dropped
	Hosts   []string // hosts that it needs itself
	Env     []string // further variables, such as those that disable telemetry and updates
}

// An enclosed agent has a proxy, which is its only way to the network. The
// proxy belongs to the connection of this process; its directory belongs to the
// agent, so that a later server process can continue.
type enclosed struct {
	dir   string
	proxy *egress.Proxy
	left  chan struct{} // closed by leave
	once  sync.Once
}

// kept is what a server process that takes over needs to know about a proxy.
type kept struct {
	Secret string        `json:"secret"`
	Policy egress.Policy `json:"policy"`
}

const (
	boxSuffix = ".box"        // of the directory of an enclosed agent; see boxDir
	keptFile  = "egress.json" // in that directory: kept
	socketDir = "s"           // in that directory: the part that is in the sandbox
	copyDir   = "c"           // in that directory: copies of files, which are in the sandbox in their place
)

// boxDir returns the directory of an enclosed agent, or "" if the agent cannot
// be taken over.
func boxDir(t runnel.Takeover) string {
	if t.Dir == "" || t.Name == "" {
		return ""
	}
	return filepath.Join(t.Dir, t.Name+boxSuffix)
}

// enclose replaces cmd by the command that runs it in its sandbox, and starts
// the proxy.
func enclose(ctx context.Context, cmd *Command, agent Agent, opt runnel.Options) (*enclosed, error) {
	if cmd.Enclosure == nil {
		return nil, runnel.Fail(runnel.UnsupportedCapability, "sandbox: "+agent.Name+" does not support this option; leave it out")
	}
	if !supervisor.Enabled() {
		return nil, cannotEnclose(&sandbox.Error{Why: "sandbox: project needs Linux 5.4 or newer, and a program whose main calls supervise.Main"})
	}
	dir, err := startDir(opt)
	if err != nil {
		return nil, err
	}
	if err := sandbox.Check(ctx, append([]string{dir}, opt.AddDirs...)...); err != nil {
		return nil, cannotEnclose(err)
	}
	policy, err := egress.New(cmd.Enclosure.Hosts, opt.Egress.Allow, opt.Egress.Sets)
	if err != nil {
		return nil, runnel.Fail(runnel.InvalidRequest, err.Error())
	}
	policy.Refused = opt.RefusedPorts
	e, k := &enclosed{dir: boxDir(opt.Takeover), left: make(chan struct{})}, kept{rand.Text(), policy}
	if err := e.create(k); err != nil {
		return nil, cannotEnclose(err)
	}
	if err := e.serve(k, opt); err != nil {
		e.end()
		return nil, cannotEnclose(err)
	}
	if err := e.rewrite(cmd, k, opt); err != nil {
		e.end()
		return nil, err
	}
	return e, nil
}

func cannotEnclose(err error) error {
	if e, ok := errors.AsType[*sandbox.Error](err); ok {
		return runnel.Fail(runnel.SessionCreateFailed, e.Error())
	}
	if e, ok := errors.AsType[*sandbox.ExposedError](err); ok {
		return runnel.Fail(runnel.WorkingRootConflict, "sandbox: "+e.Error())
	}
	return runnel.Fail(runnel.SessionCreateFailed, "the sandbox cannot be prepared; see the server's log", err)
}

// startDir returns the folder of the session.
func startDir(opt runnel.Options) (string, error) {
	if opt.Dir != "" {
		return opt.Dir, nil
	}
	dir, err := os.Getwd()
	if err != nil {
		return "", badDir(err)
	}
	return dir, nil
}

// rewrite replaces cmd.
func (e *enclosed) rewrite(cmd *Command, k kept, opt runnel.Options) error {
	dir, err := startDir(opt)
	if err != nil {
		return err
	}
	box := sandbox.Box{
		Dir: dir, Dirs: opt.AddDirs, State: cmd.Enclosure.State, Files: cmd.Enclosure.Files,
		Copies: cmd.Enclosure.Copies, Scratch: filepath.Join(e.dir, copyDir), Read: cmd.Enclosure.Read, Private: cmd.Enclosure.Private,
		Protected: opt.Protected, Program: cmd.Path, Args: cmd.Args, Env: overridden(cmd.Env, cmd.Enclosure.Env), Start: cmd.dir,
		Socket: filepath.Join(e.dir, socketDir), Ports: k.Policy.Ports(),
	}
	path, args, env, err := box.Command()
	if err != nil {
		return cannotEnclose(err)
	}
	cmd.Path, cmd.Args, cmd.Env = path, args, append(env, bridge.SecretVariable+"="+k.Secret)
	return nil
}

// overridden returns env with the variables of by, also if env has them.
func overridden(env, by []string) []string {
	kept := slices.DeleteFunc(slices.Clone(env), func(e string) bool {
		name, _, _ := strings.Cut(e, "=")
		return slices.ContainsFunc(by, func(o string) bool { return strings.HasPrefix(o, name+"=") })
	})
	return append(kept, by...)
}

// create creates the directory, without what an earlier agent left there.
func (e *enclosed) create(k kept) (err error) {
	if e.dir == "" {
		if e.dir, err = os.MkdirTemp("", "runnel-*"+boxSuffix); err != nil {
			return err
		}
	} else if err := os.RemoveAll(e.dir); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(e.dir, socketDir), 0o700); err != nil {
		return err
	}
	data, err := json.Marshal(k)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(e.dir, keptFile), data, 0o600)
}

// reopen starts the proxy of an agent that an earlier process enclosed. It
// returns nil if the agent has no sandbox.
func reopen(opt runnel.Options) (*enclosed, error) {
	e := &enclosed{dir: boxDir(opt.Takeover), left: make(chan struct{})}
	if e.dir == "" {
		return nil, nil
	}
	data, err := os.ReadFile(filepath.Join(e.dir, keptFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	var k kept
	if err == nil {
		err = json.Unmarshal(data, &k)
	}
	k.Policy.Refused = append(k.Policy.Refused, opt.RefusedPorts...) // this process may listen on another port
	if err == nil {
		err = e.serve(k, opt)
	}
	if err != nil {
		return nil, fmt.Errorf("the proxy of the sandbox: %w", err)
	}
	return e, nil
}

// serve starts the proxy.
func (e *enclosed) serve(k kept, opt runnel.Options) error {
	ln, err := listenIn(filepath.Join(e.dir, socketDir))
	if err != nil {
		return fmt.Errorf("socket of the proxy: %w", err)
	}
	report := func(egress.Attempt) {}
	if opt.Reached != nil {
		report = func(a egress.Attempt) { opt.Reached(runnel.EgressAttempt(a)) }
	}
	e.proxy = egress.Serve(ln, egress.Config{Policy: k.Policy, Secret: k.Secret, Report: report})
	return nil
}

// listenIn listens on the proxy's socket in a directory, also if the path is
// longer than the path of a socket may be.
func listenIn(dir string) (net.Listener, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	path := shortPath(f, dir, sandbox.SocketName)
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	ln.SetUnlinkOnClose(false) // a later process replaces it
	return ln, nil
}

// watch ends e when the agent has ended. It returns at once if e is nil.
func (e *enclosed) watch(agent supervisor.Agent) {
	if e == nil {
		return
	}
	go func() {
		select {
		case <-agent.Done():
			e.end()
		case <-e.left:
		}
	}()
}

// end closes the proxy and removes its directory.
func (e *enclosed) end() {
	if e.proxy != nil {
		e.proxy.Close()
	}
	_ = os.RemoveAll(e.dir)
}

// leave closes the proxy of this process. The agent and the directory stay.
func (e *enclosed) leave() {
	if e == nil {
		return
	}
	e.once.Do(func() {
		e.proxy.Close()
		close(e.left)
	})
}
