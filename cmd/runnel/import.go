package main

import (
	"io"
	"net/url"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/internal/termtext"
)

func (a *app) sessionsImport() *cobra.Command {
	var dir, agent string
	cmd := &cobra.Command{
		Use:   "import [--dir DIR] [--agent AGENT] FILE",
		Short: "Make a session of an exported one",
		Long: `Create a session with the items of FILE, which 'runnel sessions export' wrote as
jsonl and which is unchanged since. FILE may be - for standard input. The
session gets a new id, which is printed. The agent does not know the imported
turns: the first prompt begins a new conversation of the agent. A file that no
export can have written is refused, with the number of the line. It needs the
running server.`,
		Example: `  runnel sessions export 0192f0c1 > session.jsonl
  runnel sessions import --dir ~/project session.jsonl`,
		Args: exactly(1, "the file to import is needed; 'runnel sessions export' writes it"),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, err := filepath.Abs(dir)
			if err != nil {
				return usage("--dir: %s", err)
			}
			file, err := a.opened(args[0])
			if err != nil {
				return err
			}
			defer file.Close()
			return a.withSessions(cmd, func(s sessions) error {
				remote, ok := s.(remoteSessions)
				if !ok {
					return errStartServer
				}
				var done gateway.Imported
				path := "/api/session/import?" + url.Values{"projectDir": {dir}, "cliType": {agent}}.Encode()
				if err := remote.ad.upload(cmd.Context(), path, file, &done); err != nil {
					return err
				}
				a.stderrf("Imported the session %s (turns: %d)", termtext.Clean(done.From), done.Turns)
				_, err := io.WriteString(a.out, termtext.Clean(done.SessionID)+"\n")
				return err
			})
		},
	}
	placeFlags(cmd.Flags())
	cmd.Flags().StringVar(&dir, "dir", ".", "directory of the new session")
	cmd.Flags().StringVar(&agent, "agent", "", "agent of the new session (default: the one that the file names)")
	return cmd
}

// opened opens a file for reading; "-" is standard input.
func (a *app) opened(name string) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(a.in), nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, usage("%s", err)
	}
	return f, nil
}
