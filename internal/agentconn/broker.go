package agentconn

import (
	"cmp"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/broker"
)

// An Endpoint describes how one kind of agent reaches its model with an API key.
// The zero value means that the agent cannot use a broker.
type Endpoint struct {
	Variable string // variable with the address of the API
	Default  string // address of the API if the variable is not set
	Header   string // header in which the API expects the key, such as broker.Bearer
}

// fromFile is the value of Broker.from for a key that is not in a variable.
const fromFile = "file"

// A Broker is the endpoint through which one agent calls its model without its
// API key. [Start] serves it until the agent ends. The caller of OpenBroker
// closes it with CloseUnused if the agent does not start.
type Broker struct {
	URL         string // address of the API for the agent
	Placeholder string // what the agent has in place of the key

	target broker.Target
	key    string
	from   string // variable with the key, or fromFile
	ln     *net.TCPListener
	used   bool // Start has it
}

// Brokers reports whether an agent that starts with opt gets a placeholder in
// place of its key.
func (c Credential) Brokers(opt runnel.Options) bool {
	return runnel.StricterKeys(c.Source.Keys, opt.Keys) == runnel.KeysBroker
}

// brokerAt returns where the broker of an agent with opt finds its key, and the
// API. env is the server's environment.
func (c Credential) brokerAt(env []string, opt runnel.Options) (key, from string, target broker.Target, err error) {
	e := c.Key.Endpoint
	if e.Header == "" || len(c.Key.Variables) == 0 {
		return "", "", target, runnel.Fail(runnel.UnsupportedCapability, "keys: this agent cannot use a broker; leave keys out")
	}
	if c.auth(opt) == runnel.AuthAgentLogin {
		return "", "", target, runnel.Fail(runnel.InvalidRequest, "keys: a broker is for API keys, and auth: agent-login is the agent's own login; leave one of them out")
	}
	if key, err = c.Find(env, opt); err != nil {
		return "", "", target, err
	}
	base, isSet := lookup(opt.Env, e.Variable)
	if !isSet {
		base, _ = lookup(env, e.Variable)
	}
	target = broker.Target{Base: cmp.Or(base, e.Default), Header: e.Header}
	if _, err := target.URL(); err != nil {
		return "", "", target, runnel.Fail(runnel.InvalidRequest, "keys: "+cmp.Or(e.Variable, "the address of the model")+" "+err.Error())
	}
	return key, c.from(env, opt), target, nil
}

// from returns the name of the variable that has the key, or fromFile.
func (c Credential) from(env []string, opt runnel.Options) string {
	if c.Source.Read != nil {
		return fromFile
	}
	return c.Key.variable(env, opt)
}

// Brokerage implements [runnel.KeyBroker].
func (c Credential) Brokerage(env []string, opt runnel.Options) (runnel.Brokerage, error) {
	opt.Keys = runnel.KeysBroker
	_, from, target, err := c.brokerAt(env, opt)
	if err != nil {
		return runnel.Brokerage{}, err
	}
	u, err := target.URL()
	if err != nil {
		return runnel.Brokerage{}, err
	}
	return runnel.Brokerage{Host: u.Host, From: from}, nil
}

// OpenBroker opens a broker for an agent that starts with opt. It returns nil if
// the agent gets its key itself. env is the server's environment.
func (c Credential) OpenBroker(env []string, opt runnel.Options) (*Broker, error) {
	if !c.Brokers(opt) {
		return nil, nil
	}
	opt.Keys = runnel.KeysBroker
	key, from, target, err := c.brokerAt(env, opt)
	if err != nil {
		return nil, err
	}
	ln, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, runnel.Fail(runnel.SessionCreateFailed, "the broker of the API key cannot listen on a port of this machine; see the server's log", err)
	}
	b := &Broker{Placeholder: broker.NewPlaceholder(), target: target, key: key, from: from, ln: ln}
	u, err := target.URL()
	if err != nil {
		b.CloseUnused()
		return nil, err
	}
	b.URL = "http://" + ln.Addr().String() + strings.TrimSuffix(u.EscapedPath(), "/")
	return b, nil
}

// CloseUnused closes the broker of an agent that did not start.
func (b *Broker) CloseUnused() {
	if b != nil && !b.used {
		_ = b.ln.Close()
	}
}

func (b *Broker) port() int { return b.ln.Addr().(*net.TCPAddr).Port }

// held returns a copy of the listener, which a supervisor keeps open so that no
// other program can listen on the port while no server runs. It returns nil if b
// is nil, or if the system has no copies of listeners.
func (b *Broker) held() *os.File {
	if b == nil {
		return nil
	}
	f, err := b.ln.File()
	if err != nil {
		return nil // a server that takes over listens again
	}
	return f
}

// Environ returns the environment of an agent that uses b: with the placeholder,
// without any other credential, and with the address of b. If b is nil, the
// agent gets the key that c finds. env is the agent's environment so far.
func (c Credential) Environ(env, parent []string, b *Broker, opt runnel.Options) ([]string, error) {
	if b == nil {
		key, err := c.Find(parent, opt)
		if err != nil {
			return nil, err
		}
		return c.Apply(env, key, opt), nil
	}
	env = c.Apply(env, b.Placeholder, opt)
	if name := c.Key.Endpoint.Variable; name != "" {
		env = SetVariable(env, name, b.URL)
	}
	return Direct(env), nil
}

// SetVariable returns env with another value of a variable.
func SetVariable(env []string, name, value string) []string {
	env = slices.DeleteFunc(slices.Clone(env), func(e string) bool { return strings.HasPrefix(e, name+"=") })
	return append(env, name+"="+value)
}

// Direct returns env such that programs connect to this machine directly, even
// if they use a proxy otherwise.
func Direct(env []string) []string {
	const local = "127.0.0.1"
	for _, name := range []string{"NO_PROXY", "no_proxy"} {
		value, _ := lookup(env, name)
		if !slices.Contains(strings.Split(value, ","), local) {
			env = SetVariable(env, name, strings.TrimPrefix(value+","+local, ","))
		}
	}
	return env
}

// keptBroker is what a server process that takes over needs to know about a
// broker. It does not have the key.
type keptBroker struct {
	Target      broker.Target `json:"target"`
	Placeholder string        `json:"placeholder"`
	From        string        `json:"from"` // variable with the key, or fromFile
	Port        int           `json:"port"`
}

func (b *Broker) kept() *keptBroker {
	return &keptBroker{Target: b.target, Placeholder: b.Placeholder, From: b.from, Port: b.port()}
}

// reopen returns the broker of an agent that an earlier process started. held is
// the listener that the supervisor has kept; nil if it has kept none.
func (k keptBroker) reopen(c Credential, held *os.File, opt runnel.Options) (*Broker, error) {
	key, err := c.again(k.From, opt)
	if err != nil {
		return nil, err
	}
	b := &Broker{Placeholder: k.Placeholder, target: k.Target, key: key, from: k.From}
	if held != nil {
		ln, err := net.FileListener(held)
		if err != nil {
			return nil, err
		}
		if tcp, ok := ln.(*net.TCPListener); ok {
			b.ln = tcp
			return b, nil
		}
		_ = ln.Close()
	}
	b.ln, err = net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: k.Port})
	return b, err
}

// again returns the key from the place where an earlier process found it.
func (c Credential) again(from string, opt runnel.Options) (string, error) {
	if from != fromFile {
		c.Source.Read, c.Key.Variables = nil, []string{from}
	}
	opt.Auth, opt.Keys = runnel.AuthAPIKey, ""
	return c.Find(os.Environ(), opt)
}

// serve starts b.
func (b *Broker) serve() (*broker.Broker, error) {
	b.used = true
	nonblocking(b.ln) // it blocks after its copy was passed to a process, and could not be closed
	served, err := broker.Serve(b.ln, broker.Config{Target: b.target, Key: b.key, Placeholder: b.Placeholder})
	if err != nil {
		_ = b.ln.Close()
	}
	return served, err
}
