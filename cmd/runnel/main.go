// Command runnel runs coding agents. It is a server with a web page and an API,
// and a command line.
package main

import (
	"context"
	"os"

	"github.com/runnel-dev/runnel/internal/redact"
	"github.com/runnel-dev/runnel/provider/all"
	"github.com/runnel-dev/runnel/supervise"
)

func main() {
	supervise.Main()
	os.Exit(run(os.Args[1:]))
}

// run is main without os.Exit: it returns the exit code.
func run(args []string) int {
	issued := redact.New()
	a := &app{in: os.Stdin, out: os.Stdout, err: os.Stderr, providers: all.Providers(), issued: issued, secrets: knownSecrets(issued, os.Environ())}
	return a.run(context.Background(), args)
}
