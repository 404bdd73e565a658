package codex

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/agentconn"
	"github.com/runnel-dev/runnel/internal/jsonl"
	"github.com/runnel-dev/runnel/internal/jsonrpc"
	"github.com/runnel-dev/runnel/internal/proc"
)

// maxStored bounds the length of one line of a stored conversation, in bytes.
const maxStored = 128 << 20

// errTooLarge is the cause of the error for an answer that is longer than
// maxStored or has more than jsonl.MaxValues values. A decoded value can take a
// hundred times as much memory as its bytes in the answer.
var errTooLarge = errors.New("codex: the answer is too large")

// asker sends requests to an app-server in which no conversation is open.
type asker struct {
	process interface {
		Send(line []byte, after int64) error
	}
	lines *jsonl.Reader
	stop  func() // stops the app-server; may be called more than once
	peer  jsonrpc.Peer
	took  int64 // memory that the decoded answers took in all, in bytes
}

// query starts an app-server, calls do with it, and stops it. The app-server
// does not run in a project, whose settings could run programs. It does not run
// in the folder for temporary files either, where other users can put such
// settings.
func (p *Provider) query(ctx context.Context, opt runnel.Options, do func(a *asker) error) error {
	a, err := p.start(ctx, opt)
	if err != nil {
		return err
	}
	defer a.stop()
	defer context.AfterFunc(ctx, a.stop)()
	if err = a.initialize(); err == nil {
		err = do(a)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// start starts an app-server for requests. The caller stops it.
func (p *Provider) start(ctx context.Context, opt runnel.Options) (*asker, error) {
	opt = p.program.Configured(opt)
	path, args, err := p.executable(opt)
	if err != nil {
		return nil, err
	}
	path, managed := native(path)
	process, err := agentconn.Ask(ctx, path, append(askEnviron(p.credential(), opt), managed...), mark, args...)
	if err != nil {
		return nil, runnel.Fail(runnel.AgentError, "Codex could not be started.", err)
	}
	a := &asker{process: process, lines: jsonl.NewReader(process.Stdout(), maxStored)}
	a.stop = func() { process.Stop(context.WithoutCancel(ctx), proc.Now) }
	return a, nil
}

// askEnviron returns the environment of a process that is asked about the agent
// and runs no turn. key is the agent's; with a broker the process has none.
func askEnviron(key agentconn.Credential, opt runnel.Options) []string {
	env := environ(os.Environ(), opt)
	if key.Brokers(opt) {
		env = withoutKeys(env)
	}
	return env
}

// initialize performs the handshake.
func (a *asker) initialize() error {
	if err := a.ask(methodInitialize, initializeParams(), nil); err != nil {
		return err
	}
	return a.send(jsonrpc.NewNotification(methodInitialized, nil))
}

func (a *asker) send(m jsonrpc.Message, err error) error {
	line, err := outgoing(m, err)
	if err != nil {
		return err
	}
	if line, err = jsonl.Append(nil, line); err != nil {
		return err
	}
	a.peer.Sent(m)
	return a.process.Send(line, 0)
}

// perValue is approximately the memory that a decoded value takes, in bytes. The
// largest is an item, which has more than ten values.
const perValue = 100

func tooLarge() error {
	return runnel.Fail(runnel.AgentError, "The conversation that Codex stored is too large.", errTooLarge)
}

// ask sends a request, waits for its response and decodes the result.
func (a *asker) ask(method string, params, result any) error {
	id, err := a.peer.NextID()
	if err != nil {
		return err
	}
	if err := a.send(jsonrpc.NewRequest(id, method, params)); err != nil {
		return err
	}
	for {
		line, err := a.lines.Next()
		if _, long := errors.AsType[*jsonl.TooLongError](err); long {
			return tooLarge()
		}
		if err != nil {
			return runnel.Fail(runnel.AgentError, "Codex exited before it answered a request.", err)
		}
		m, err := jsonrpc.Decode(jsonl.Shallow(line))
		if err != nil {
			continue
		}
		if verdict, c := a.peer.Got(m); verdict != jsonrpc.Answered || !c.ID.Same(id) {
			continue
		}
		if m.Error != nil {
			return m.Error
		}
		if result == nil {
			return nil
		}
		if jsonl.Crowded(m.Result) {
			return tooLarge()
		}
		a.took += int64(len(m.Result)) + int64(bytes.Count(m.Result, []byte{','}))*perValue
		if err := json.Unmarshal(m.Result, result); err != nil {
			if _, ok := errors.AsType[*json.UnmarshalTypeError](err); !ok {
				return fmt.Errorf("codex: %s: %w", method, err)
			}
		}
		return nil
	}
}
