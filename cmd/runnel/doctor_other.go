//go:build !linux

package main

import (
	"context"
	"runtime"
)

func system() string { return runtime.GOOS + " " + runtime.GOARCH }

// checkKernel adds findings about the protection that this system lacks, and
// about how agents end.
func checkKernel(_ context.Context, d *diagnosis) {
	d.add(finding{
		"kernel", "agents and users", warning, "on " + runtime.GOOS + ", runnel cannot distinguish agents from you: the unix socket accepts nobody without a token, and an agent can use every token that it finds",
		"run agents that you do not trust in a container or a virtual machine, with the server outside",
	})
	for _, name := range []string{"project", "files"} {
		d.add(finding{Area: "sandbox", Name: name, Status: fine, Detail: "sandbox: " + name + " needs Linux; runnel refuses to start an agent with it"})
	}
	d.add(finding{Area: "kernel", Name: "processes of agents", Status: fine, Detail: cleanupGuarantee()})
}
