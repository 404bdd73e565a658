// Package bridge is the first process in an agent's sandbox.
//
// A sandbox has a network of its own, in which nothing can be reached. The
// bridge listens on the loopback address of that network, and hands every
// connection over to the egress proxy outside of the sandbox, as a descriptor
// through the proxy's unix socket. What a program then sends and receives does
// not pass the bridge. The bridge starts the agent, passes on the signals that end an agent, and reaps the
// processes whose parents have ended. When the agent ends, the bridge ends with
// the agent's exit code, and the system ends all other processes in the
// sandbox.
//
// A sandbox exists on Linux only.
package bridge

import "strconv"

const (
	// Command is the first argument of a bridge.
	Command = "__bridge"

	// SecretVariable is the environment variable that has the secret which the
	// bridge sends to the proxy with every connection. The agent does not inherit
	// it.
	SecretVariable = "RUNNEL_BRIDGE_SECRET"

	// Port is the loopback port inside of the sandbox at which programs reach
	// the proxy.
	Port = 17318
)

// A Pin says which file or directory a path in the sandbox must be. Another
// sandbox of the same project can replace a path by a link while this one is
// being made.
type Pin struct {
	Path     string
	Dev, Ino uint64
}

// Args returns the arguments of a bridge that starts a program if all pins hold.
// ports are loopback ports of the machine: a connection to the same port inside
// of the sandbox goes to the port of the machine, if the proxy allows it.
func Args(socket string, ports []int, pins []Pin, program string, args []string) []string {
	out := []string{Command, socket, strconv.Itoa(len(ports))}
	for _, p := range ports {
		out = append(out, strconv.Itoa(p))
	}
	out = append(out, strconv.Itoa(len(pins)))
	for _, p := range pins {
		out = append(out, p.Path, strconv.FormatUint(p.Dev, 10), strconv.FormatUint(p.Ino, 10))
	}
	return append(append(out, program), args...)
}

// An order is what the arguments of a bridge say.
type order struct {
	socket  string
	ports   []int
	pins    []Pin
	program []string
}

// parse is the reverse of Args, without Command.
func parse(args []string) (o order, ok bool) {
	next := func() (arg string) {
		if ok = ok && len(args) > 0; ok {
			arg, args = args[0], args[1:]
		}
		return arg
	}
	number := func(bits int) uint64 {
		n, err := strconv.ParseUint(next(), 10, bits)
		ok = ok && err == nil
		return n
	}
	ok = true
	o.socket = next()
	for n := number(16); n > 0 && ok; n-- {
		p := int(number(16))
		ok = ok && p > 0
		o.ports = append(o.ports, p)
	}
	for n := number(32); n > 0 && ok; n-- {
		o.pins = append(o.pins, Pin{next(), number(64), number(64)})
	}
	o.program = args
	return o, ok && len(args) > 0
}
