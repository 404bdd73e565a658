// Command bench measures a build of Runnel and compares it with other programs
// that run agents.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "bench:", err)
		}
		stop()
		os.Exit(1)
	}
}

const usage = `usage: go -C bench run . [flags]

Measures Runnel and prints a table; progress goes to standard error. "make bench"
installs what it needs, runs it and writes bench/RESULTS.md. A full run takes
half an hour and is worth little on a machine that does something else.

  go -C bench run . -small                 # two minutes: does everything work?
  go -C bench run . -only latency,crash    # some of it
  go -C bench run . -o RESULTS.md

Flags:
`

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	fl := flag.NewFlagSet("bench", flag.ContinueOnError)
	fl.SetOutput(stderr)
	fl.Usage = func() {
		fmt.Fprint(stderr, usage)
		fl.PrintDefaults()
	}
	small := fl.Bool("small", false, "a little of everything, for a check that it works")
	only := fl.String("only", "", "some of: "+strings.Join(names(), ","))
	program := fl.String("runnel", "", "the program to measure; built from here if empty, then without the small supervisor")
	before := fl.String("before", "", "an older build to measure beside this one, in the part \"before\"")
	file := fl.String("o", "", "write the results to this file too")
	if err := fl.Parse(args); err != nil {
		return err
	}
	size := full
	if *small {
		size = little
	}
	b := &bench{size: size, before: *before, report: &report{command: strings.Join(append([]string{"go -C bench run ."}, args...), " "), started: time.Now()}}
	err := b.measure(ctx, *only, *program, stderr)
	if _, writeErr := io.WriteString(stdout, b.report.text()); writeErr != nil || *file == "" {
		return errors.Join(err, writeErr)
	}
	return errors.Join(err, os.WriteFile(*file, []byte(b.report.markdown()), 0o644))
}
