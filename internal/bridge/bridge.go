// Package bridge is the first process in an agent's sandbox.
//
// A sandbox has a network of its own, in which nothing can be reached. The
// bridge listens on the loopback address of that network, and passes every
// connection to the unix socket of the egress proxy outside of the sandbox. It
// starts the agent, passes on the signals that end an agent, and reaps the
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
	// bridge sends first on every connection to the proxy. The agent does not
	// inherit it.
	SecretVariable = "RUNNEL_BRIDGE_SECRET"

	// Port is the loopback port inside of the sandbox at which programs reach
	// the proxy.
	Port = 17318
)

// Args returns the arguments of a bridge that starts a program. ports are
// loopback ports of the machine: a connection to the same port inside of the
// sandbox goes to the port of the machine, if the proxy allows it.
func Args(socket string, ports []int, program string, args []string) []string {
	out := []string{Command, socket, strconv.Itoa(len(ports))}
	for _, p := range ports {
		out = append(out, strconv.Itoa(p))
	}
	return append(append(out, program), args...)
}

// parse is the reverse of Args, without Command.
func parse(args []string) (socket string, ports []int, program []string, ok bool) {
	if len(args) < 3 {
		return "", nil, nil, false
	}
	n, err := strconv.Atoi(args[1])
	if err != nil || n < 0 || len(args) < n+3 {
		return "", nil, nil, false
	}
	for _, a := range args[2 : n+2] {
		p, err := strconv.Atoi(a)
		if err != nil || p < 1 || p > 65535 {
			return "", nil, nil, false
		}
		ports = append(ports, p)
	}
	return args[0], ports, args[n+2:], true
}
