// Command supervise is the supervisor as a program of its own. A build of
// runnel embeds it: runnel running as its own supervisor would need more
// memory.
package main

import (
	"os"

	"github.com/runnel-dev/runnel/internal/supervisor"
)

func main() {
	supervisor.Main()
	os.Stderr.WriteString("supervise: this program is started by runnel\n")
	os.Exit(2)
}
