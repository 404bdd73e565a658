package agentconn

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/bridge"
	"github.com/runnel-dev/runnel/internal/broker"
	"github.com/runnel-dev/runnel/internal/egress"
	"github.com/runnel-dev/runnel/internal/sandbox"
	"github.com/runnel-dev/runnel/internal/supervisor"
)

// An Enclosure is what an agent needs in a sandbox, besides its folders and its
// program. All paths are absolute.
type Enclosure struct {
	State   []string // directories in which it stores conversations and the like; writable
	Files   []string // single files that it writes; writable if they exist
	Logins  []string // single files with its login; writable if they exist, and not in the sandbox if a broker has the API key
	Copies  []string // single files of which it writes a copy, which is dropped when it ends, because they could name programs
	Read    []string // its settings
	Private []string // directories in which everything else is hidden, and what it writes is dropped
	Hosts   []string // hosts that it needs itself
	Env     []string // further variables
	Quiet   []string // variables by which it sends no telemetry and searches for no updates
	Temp    []string // variables that name its directory for temporary files, besides TMPDIR

	// Edit returns what a copy has instead of the content of its file; nil: there
	// is no copy. If brokered is set, a broker has the API key, and the copy must
	// not have a login. Default: the copy has the same content.
	Edit func(content []byte, brokered bool) []byte
}

// surroundings are what this process serves to one agent: the proxy of its
// sandbox, which is its only way to the network, and the broker of its API key.
// Both belong to the connection of this process; the directory belongs to the
// agent, so that a later server process can continue.
type surroundings struct {
	dir    string        // "" without a sandbox, for an agent that cannot be taken over
	note   string        // hash of what keptFile has; see noteOf
	proxy  *egress.Proxy // nil without a sandbox
	ask    asking
	broker *broker.Broker // nil if the agent has its key itself
	left   chan struct{}  // closed by leave
	gone   chan struct{}  // closed by watch when the agent and all of this have ended
	once   sync.Once
}

// kept is what a server process that takes over needs to know about the
// surroundings of an agent.
type kept struct {
	Secret string        `json:"secret,omitzero"` // "" without a sandbox
	Policy egress.Policy `json:"policy,omitzero"`
	Broker *keptBroker   `json:"broker,omitzero"`
}

const (
	boxSuffix = ".box"        // of the directory of an agent with surroundings; see boxDir
	keptFile  = "egress.json" // in that directory: kept
	socketDir = "s"           // in that directory: the part that is in the sandbox
	copyDir   = "c"           // in that directory: copies of files, which are in the sandbox in their place
	ownDir    = "o"           // in that directory: the agent's home directory and temporary files in a sandbox of files
)

// boxDir returns the directory of an agent with surroundings, or "" if the agent
// cannot be taken over.
func boxDir(t runnel.Takeover) string {
	if t.Dir == "" || t.Name == "" {
		return ""
	}
	return filepath.Join(t.Dir, t.Name+boxSuffix)
}

// surround prepares what the agent of cmd needs of this process. It returns nil
// if the agent needs nothing. In a sandbox it replaces cmd by the command that
// runs the agent there, and starts the proxy if the sandbox needs one. The caller
// starts the broker once the agent runs; until then connections wait.
func surround(ctx context.Context, cmd *Command, agent Agent, opt runnel.Options) (*surroundings, error) {
	s := &surroundings{dir: boxDir(opt.Takeover), left: make(chan struct{}), gone: make(chan struct{})}
	if !opt.Sandbox.IsOn() && cmd.Broker == nil {
		if s.dir != "" {
			_ = os.RemoveAll(s.dir) // of an earlier agent, which must not look like that of this one
		}
		return nil, nil
	}
	var k kept
	if opt.Sandbox.IsOn() {
		if err := canEnclose(ctx, cmd, agent, opt); err != nil {
			return nil, err
		}
	}
	if opt.Sandbox == runnel.SandboxProject {
		var err error
		if k.Policy, err = enclosedPolicy(cmd, opt); err != nil {
			return nil, err
		}
		k.Secret = rand.Text()
	}
	if cmd.Broker != nil {
		k.Broker = cmd.Broker.kept()
	}
	err := s.create(k, opt.Sandbox)
	if err == nil {
		err = s.serveProxy(k, opt)
	}
	if err != nil {
		s.end()
		return nil, runnel.Fail(runnel.SessionCreateFailed, "what the agent needs of runnel cannot be prepared; see the server's log", err)
	}
	if opt.Sandbox.IsOn() {
		if err := s.rewrite(cmd, k, opt); err != nil {
			s.end()
			return nil, err
		}
	}
	return s, nil
}

// canEnclose fails if the sandbox cannot be made.
func canEnclose(ctx context.Context, cmd *Command, agent Agent, opt runnel.Options) error {
	if cmd.Enclosure == nil {
		return runnel.Fail(runnel.UnsupportedCapability, "sandbox: "+agent.Name+" does not support this option; leave it out")
	}
	if !supervisor.Enabled() {
		return cannotEnclose(&sandbox.Error{Why: "sandbox: " + string(opt.Sandbox) + " needs Linux 5.4 or newer, and a program whose main calls supervise.Main"})
	}
	if opt.Sandbox == runnel.SandboxFiles {
		if err := opt.Sandbox.CheckEgress(opt.Egress); err != nil {
			return err
		}
		if err := sandbox.CheckFiles(); err != nil {
			return cannotEnclose(err)
		}
		return nil
	}
	dir, err := startDir(opt)
	if err != nil {
		return err
	}
	if err := sandbox.Check(ctx, append([]string{dir}, opt.AddDirs...)...); err != nil {
		return cannotEnclose(err)
	}
	return nil
}

// enclosedPolicy returns what the agent may reach from its sandbox. With a
// broker, the agent reaches its model only through the broker: at the API itself
// it could use an account of another owner.
func enclosedPolicy(cmd *Command, opt runnel.Options) (p egress.Policy, err error) {
	hosts := cmd.Enclosure.Hosts
	if cmd.Broker != nil {
		hosts = nil
	}
	if p, err = egress.New(hosts, opt.Egress.Allow, opt.Egress.Sets); err != nil {
		return p, runnel.Fail(runnel.InvalidRequest, err.Error())
	}
	if cmd.Broker != nil {
		p.Entries = append(p.Entries, egress.Entry{Loopback: cmd.Broker.port(), By: "keys: broker"})
		if u, err := cmd.Broker.target.URL(); err == nil { // it was parsed before
			p.Unasked = u.Hostname()
		}
	}
	p.Ask, p.Refused = opt.Egress.Mode == runnel.EgressAsk, opt.RefusedPorts
	return p, nil
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

// rewrite replaces cmd by the command that runs it in its sandbox. With a
// broker, the agent's own login is not in the sandbox.
func (e *surroundings) rewrite(cmd *Command, k kept, opt runnel.Options) error {
	dir, err := startDir(opt)
	if err != nil {
		return err
	}
	files := cmd.Enclosure.Files
	if cmd.Broker == nil {
		files = slices.Concat(files, cmd.Enclosure.Logins)
	}
	var edit func([]byte) []byte
	if cmd.Enclosure.Edit != nil {
		edit = func(content []byte) []byte { return cmd.Enclosure.Edit(content, cmd.Broker != nil) }
	}
	box := sandbox.Box{
		Dir: dir, Dirs: opt.AddDirs, InPlace: opt.InPlace, State: cmd.Enclosure.State, Files: files,
		Copies: cmd.Enclosure.Copies, Edit: edit, Scratch: filepath.Join(e.dir, copyDir), Read: cmd.Enclosure.Read, Private: cmd.Enclosure.Private,
		Allowed: allowances(opt.Allowed), Protected: opt.Protected, Withheld: opt.Withheld, Program: cmd.Path, Args: cmd.Args, Env: overridden(cmd.Env, slices.Concat(cmd.Enclosure.Env, cmd.Enclosure.Quiet)), Start: cmd.dir,
		Socket: filepath.Join(e.dir, socketDir), Ports: k.Policy.Ports(),
		Own: filepath.Join(e.dir, ownDir), TempVars: cmd.Enclosure.Temp,
	}
	command := box.Command
	if opt.Sandbox == runnel.SandboxFiles {
		command = box.Confined
	}
	path, args, env, err := command()
	if err != nil {
		return cannotEnclose(err)
	}
	if k.Secret != "" {
		env = append(env, bridge.SecretVariable+"="+k.Secret)
	}
	cmd.Path, cmd.Args, cmd.Env = path, args, env
	return nil
}

func allowances(paths []runnel.AllowedPath) []sandbox.Allowance {
	out := make([]sandbox.Allowance, len(paths))
	for i, p := range paths {
		out[i] = sandbox.Allowance(p)
	}
	return out
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
func (e *surroundings) create(k kept, box runnel.Sandbox) (err error) {
	switch {
	case e.dir == "" && !box.IsOn():
		return nil // nobody takes over
	case e.dir == "":
		if e.dir, err = os.MkdirTemp("", "runnel-*"+boxSuffix); err != nil {
			return err
		}
	default:
		if err := os.RemoveAll(e.dir); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Join(e.dir, socketDir), 0o700); err != nil {
		return err
	}
	data, err := json.Marshal(k)
	if err != nil {
		return err
	}
	e.note = noteOf(data)
	return os.WriteFile(filepath.Join(e.dir, keptFile), data, 0o600)
}

// noteOf returns what a supervisor keeps about the content of keptFile. Other
// processes of the user can write to the file, an agent without a sandbox, too.
// In a changed file they could name any variable of the next server's
// environment, and a host of their own to which its broker would send the
// variable as the API key.
func noteOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// noted returns the note for the supervisor of the agent; "" if e is nil.
func (e *surroundings) noted() string {
	if e == nil {
		return ""
	}
	return e.note
}

var errKeptChanged = errors.New(keptFile + " is not as an earlier process wrote it")

// reopen starts again what an earlier process served to an agent. c finds the
// API key for a broker, and held is the broker's listener, if the supervisor has
// kept it. note is what the supervisor has kept about keptFile; see noteOf.
// reopen returns nil if the agent needs nothing of this process.
func reopen(opt runnel.Options, c Credential, held *os.File, note string) (*surroundings, error) {
	e := &surroundings{dir: boxDir(opt.Takeover), left: make(chan struct{}), gone: make(chan struct{})}
	if e.dir == "" {
		return nil, nil
	}
	e.ask.bound = make(chan struct{})
	data, err := e.readKept()
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err == nil && noteOf(data) != note {
		err = errKeptChanged
	}
	var k kept
	if err == nil {
		err = json.Unmarshal(data, &k)
	}
	var b *Broker
	if err == nil && k.Broker != nil {
		if b, err = k.Broker.reopen(c, held, opt); err != nil {
			return nil, fmt.Errorf("the broker of the API key: %w", err)
		}
	}
	k.Policy.Refused = append(k.Policy.Refused, opt.RefusedPorts...) // this process may listen on another port
	if err == nil {
		err = e.serveBroker(b)
	}
	if err == nil {
		err = e.serveProxy(k, opt)
	}
	if err != nil {
		e.leave()
		return nil, fmt.Errorf("the proxy of the sandbox: %w", err)
	}
	return e, nil
}

// maxKept bounds keptFile, in bytes.
const maxKept = 1 << 20

func (e *surroundings) readKept() ([]byte, error) {
	f, _, err := OpenPlain(os.OpenFile, filepath.Join(e.dir, keptFile))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxKept))
}

// serveBroker starts the broker, if b is not nil.
func (e *surroundings) serveBroker(b *Broker) (err error) {
	if b != nil {
		e.broker, err = b.serve()
	}
	return err
}

// serveProxy starts the proxy of a sandbox, if k is of one.
func (e *surroundings) serveProxy(k kept, opt runnel.Options) error {
	if k.Secret == "" {
		return nil
	}
	ln, err := listenIn(filepath.Join(e.dir, socketDir))
	if err != nil {
		return fmt.Errorf("socket of the proxy: %w", err)
	}
	report := func(egress.Attempt) {}
	if opt.Reached != nil {
		report = func(a egress.Attempt) { opt.Reached(runnel.EgressAttempt(a)) }
	}
	e.proxy = egress.Serve(ln, egress.Config{Policy: k.Policy, Secret: k.Secret, Report: report, Ask: e.ask.decide})
	return nil
}

// asking is the function that decides about hosts which the policy does not
// list. The agent is started, and may reach for hosts, before it has a session.
type asking struct {
	set   atomic.Pointer[egressDecider]
	first sync.Once
	bound chan struct{} // closed by OnEgress; nil: decide does not wait for it
}

// bindTime is how long a connection of an agent that was taken over waits for
// the agent's session, which first reads its log.
const bindTime = 10 * time.Second

type egressDecider func(ctx context.Context, host string, port int) runnel.EgressAnswer

func (a *asking) decide(ctx context.Context, host string, port int) egress.Answer {
	if a.bound != nil {
		late := time.NewTimer(bindTime)
		defer late.Stop()
		select {
		case <-a.bound:
		case <-ctx.Done():
		case <-late.C:
		}
	}
	f := a.set.Load()
	if f == nil {
		return egress.Answer{Why: "denied: no turn"}
	}
	return egress.Answer((*f)(ctx, host, port))
}

// OnEgress implements [runnel.EgressAsker].
func (c *Conn) OnEgress(decide func(ctx context.Context, host string, port int) runnel.EgressAnswer) {
	if c.box == nil {
		return
	}
	a := &c.box.ask
	a.set.Store((*egressDecider)(&decide))
	a.first.Do(func() {
		if a.bound != nil {
			close(a.bound)
		}
	})
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
func (e *surroundings) watch(agent supervisor.Agent) {
	if e == nil {
		return
	}
	go func() {
		select {
		case <-agent.Done():
			e.end()
			close(e.gone)
		case <-e.left:
		}
	}()
}

// wait waits until watch has ended e. The agent has ended, or leave was called.
func (e *surroundings) wait() {
	if e == nil {
		return
	}
	select {
	case <-e.gone:
	case <-e.left:
	}
}

// end closes the proxy and the broker, and removes the directory.
func (e *surroundings) end() {
	e.close()
	if e.dir != "" {
		_ = os.RemoveAll(e.dir)
	}
}

func (e *surroundings) close() {
	if e.proxy != nil {
		e.proxy.Close()
	}
	if e.broker != nil {
		e.broker.Close()
	}
}

// leave closes the proxy and the broker of this process. The agent and the
// directory stay.
func (e *surroundings) leave() {
	if e == nil {
		return
	}
	e.once.Do(func() {
		e.close()
		close(e.left)
	})
}
