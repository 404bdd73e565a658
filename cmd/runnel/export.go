package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/runnel-dev/runnel/internal/termtext"
)

func (a *app) sessionsExport() *cobra.Command {
	var format, file string
	cmd := &cobra.Command{
		Use:   "export [--format jsonl|md|html] [--output FILE] ID",
		Short: "Write a session to a file",
		Long: `Write the whole history of a session to standard output or to a new file.
jsonl has every event, one JSON object per line, for programs. md and html have
the items, for people; html is one file without scripts. Known secrets were
removed when the events were stored. It needs the running server.`,
		Example: `  runnel sessions export 0192f0c1 > session.jsonl
  runnel sessions export --format html --output session.html 0192f0c1`,
		Args: exactly(1, "the id of a session is needed; 'runnel sessions list' shows them"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !slices.Contains([]string{"jsonl", "md", "html"}, format) {
				return usage("--format: unknown format %q; want jsonl, md or html", termtext.Clean(format))
			}
			return a.withSession(cmd, args[0], func(r remoteSessions, id string) error {
				write := func(w io.Writer) error {
					return r.ad.download(cmd.Context(), sessionPath(id, "export")+"?format="+format, w)
				}
				if file != "" {
					return writeNew(file, write)
				}
				return a.show(write)
			})
		},
	}
	placeFlags(cmd.Flags())
	cmd.Flags().StringVar(&format, "format", "jsonl", "jsonl, md or html")
	cmd.Flags().StringVarP(&file, "output", "o", "", "`FILE` to write, which must not exist yet")
	return cmd
}

// writeNew calls write with a new file that only the user can read. After an
// error it leaves no file.
func writeNew(name string, write func(io.Writer) error) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return usage("%s", err)
	}
	err = write(f)
	if closed := f.Close(); err == nil && closed != nil {
		err = fmt.Errorf("write the file: %w", closed)
	}
	if err != nil {
		return errors.Join(err, os.Remove(name))
	}
	return nil
}

// show calls write with a writer for foreign text: standard output, without
// control characters if it is a terminal.
func (a *app) show(write func(io.Writer) error) error {
	if !a.terminal(a.out) {
		return write(a.out)
	}
	clean := &cleanLines{out: bufio.NewWriter(a.out)}
	err := write(clean)
	return errors.Join(err, clean.Close())
}

// cleanLines makes lines safe to print on a terminal.
type cleanLines struct {
	out  *bufio.Writer
	part []byte // beginning of an incomplete line
}

func (c *cleanLines) Write(p []byte) (int, error) {
	c.part = append(c.part, p...)
	end := bytes.LastIndexByte(c.part, '\n') + 1
	for line := range bytes.Lines(c.part[:end]) {
		if _, err := c.out.WriteString(termtext.Clean(string(bytes.TrimSuffix(line, []byte("\n")))) + "\n"); err != nil {
			return 0, err
		}
	}
	c.part = c.part[end:]
	return len(p), c.out.Flush()
}

// Close prints the last line if it has no newline, such as after an interrupted
// download.
func (c *cleanLines) Close() error {
	if _, err := c.out.WriteString(termtext.Clean(string(c.part))); err != nil {
		return err
	}
	c.part = nil
	return c.out.Flush()
}
