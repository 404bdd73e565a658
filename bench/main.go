// Command bench measures a build of Runnel and compares it with other programs
// that run agents.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
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

  go -C bench run . -small                    # two minutes: does everything work?
  go -C bench run . -only latency,crash       # some of it
  go -C bench run . -o RESULTS.md             # all of it, into the page and RESULTS.json
  go -C bench run . -only counts -renew -o RESULTS.md   # these rows anew, the others as they are
  go -C bench run . -gate -o RESULTS.md       # fail if a count got worse; writes nothing
  go -C bench run . -gate -ratios -o RESULTS.md         # the same with all ratios: a whole run
  go -C bench run . -render RESULTS.md        # write the page from RESULTS.json

Flags:
`

// options are the flags of a run.
type options struct {
	only    string
	program string
	file    string
	renew   bool
	gate    bool
	ratios  bool
	render  string
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	fl := flag.NewFlagSet("bench", flag.ContinueOnError)
	fl.SetOutput(stderr)
	fl.Usage = func() {
		fmt.Fprint(stderr, usage)
		fl.PrintDefaults()
	}
	var o options
	small := fl.Bool("small", false, "a little of everything, for a check that it works")
	fl.StringVar(&o.only, "only", "", "some of: "+strings.Join(names(), ","))
	fl.StringVar(&o.program, "runnel", "", "the program to measure; built from here if empty, then without the small supervisor")
	before := fl.String("before", "", "an older build to measure beside this one, in the part \"before\"")
	fl.StringVar(&o.file, "o", "", "the page of results to write, and its table with .json instead of .md; with -gate the page to compare with")
	fl.BoolVar(&o.renew, "renew", false, "replace only the rows of the measured parts in the page")
	fl.BoolVar(&o.gate, "gate", false, "compare with the page and fail if a number got worse by more than its margin; alone, it measures the part \"counts\"")
	fl.BoolVar(&o.ratios, "ratios", false, "with -gate: measure everything, and compare all numbers that have a margin")
	fl.StringVar(&o.render, "render", "", "only write this page from its table")
	if err := fl.Parse(args); err != nil {
		return err
	}
	if o.render != "" {
		t, err := readTable(jsonFile(o.render))
		if err != nil {
			return err
		}
		return t.write(o.render)
	}
	if (o.gate || o.renew) && o.file == "" {
		return errors.New("-gate and -renew need the page: -o RESULTS.md")
	}
	size := full
	if *small {
		size = little
	}
	b := &bench{size: size, before: *before, report: &report{started: time.Now()}}
	b.report.Command = strings.Join(append([]string{"go -C bench run ."}, args...), " ")
	return b.run(ctx, o, stdout, stderr)
}

// run measures and then prints, writes or compares the table.
func (b *bench) run(ctx context.Context, o options, stdout, stderr io.Writer) error {
	if o.file != "" {
		var err error
		if b.report.committed, err = readTable(jsonFile(o.file)); err != nil && (o.gate || o.renew || !errors.Is(err, fs.ErrNotExist)) {
			return err
		}
	}
	if o.gate && o.only == "" && !o.ratios {
		o.only = noiseFreePart
	}
	b.pressure = startPressure()
	err := b.measure(ctx, o.only, o.program, stderr)
	if _, writeErr := io.WriteString(stdout, b.report.text()); writeErr != nil {
		return errors.Join(err, writeErr)
	}
	switch {
	case err != nil && (o.gate || o.renew): // a failed run compares and replaces nothing
		return err
	case o.gate:
		return b.pass(ctx, o, stdout, stderr)
	case o.renew:
		return b.report.renewed(o.only).write(o.file)
	case o.file != "":
		return errors.Join(err, b.report.write(o.file))
	}
	return err
}
