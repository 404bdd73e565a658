// Command supervise is a supervisor and nothing else. It is built into the
// program that needs it, which would be larger in memory as its own supervisor.
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
