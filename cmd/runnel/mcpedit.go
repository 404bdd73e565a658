package main

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/termtext"
)

// mcpAddFlags are the flags of `mcp add`.
type mcpAddFlags struct {
	env, headers                         []string
	url, transport, tokenVar, headerFile string
}

func (a *app) mcpAdd() *cobra.Command {
	var f mcpAddFlags
	cmd := &cobra.Command{
		Use:   "add SERVER --agent NAME {[--env KEY=VALUE] -- COMMAND [ARGUMENT...] | --url URL}",
		Short: "Add an MCP server to the configuration of an agent",
		Long: `Add an MCP server to the user's configuration of an agent, through the running
server, whose setting mcp-writes must be true.

With COMMAND, the agent starts the MCP server as a program in each later session.
No shell reads the command and its arguments.

With --url, the agent reaches the MCP server at the URL, over streamable HTTP or,
with --transport sse, over SSE. Not every agent can do both. Headers can contain
secrets. Other users of this machine can see the arguments of 'runnel mcp add'
in the list of processes, so write such headers to a file and give it with
--headers-from, or keep the token in a variable of the agent and name the
variable with --bearer-token-env.

While the agent's own command runs, other users can see the values of --env in
the list of processes, and those of --url and of headers if the agent takes them
only as arguments.`,
		Example: `  runnel mcp add context7 --agent ` + a.example() + ` -- npx -y @upstash/context7-mcp
  runnel mcp add tickets --agent ` + a.example() + ` --env TICKETS_TOKEN=secret -- /opt/tickets/mcp --stdio
  runnel mcp add docs --agent ` + a.example() + ` --url https://example.com/mcp
  runnel mcp add docs --agent ` + a.example() + ` --url https://example.com/mcp --bearer-token-env DOCS_TOKEN
  printf 'Authorization: Bearer %s\n' "$TOKEN" | runnel mcp add docs --agent ` + a.example() + ` --url https://example.com/mcp --headers-from -`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
				return usage("give a name for the MCP server")
			case len(args) > 1 && f.url != "":
				return usage("give either --url or a command, not both")
			case len(args) < 2 && f.url == "":
				return usage("give a name for the MCP server and, after --, its command; or its URL with --url")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			d, err := a.mcpDefinition(f, args)
			if err != nil {
				return err
			}
			if err := d.Check(); err != nil {
				return failure(err)
			}
			return a.editMCP(cmd, func(ad *admin, path string) error {
				var made struct {
					Server runnel.MCPServer `json:"server"`
				}
				if err := ad.post(cmd.Context(), path, d, &made); err != nil {
					return err
				}
				return a.printMCP([]runnel.MCPServer{made.Server})
			})
		},
	}
	fl := cmd.Flags()
	fl.StringArrayVar(&f.env, "env", nil, "environment variable of the MCP server, as `KEY=VALUE`; repeatable")
	fl.StringVar(&f.url, "url", "", "`URL` of an MCP server that is not a program")
	fl.StringVar(&f.transport, "transport", "", "with --url: http or sse (default http)")
	fl.StringArrayVar(&f.headers, "header", nil, "with --url: header of each request, as `NAME: VALUE`; repeatable")
	fl.StringVar(&f.headerFile, "headers-from", "", "with --url: `FILE` with a header in each line; - is standard input")
	fl.StringVar(&f.tokenVar, "bearer-token-env", "", "with --url: `NAME` of the agent's variable with a token for the header Authorization")
	mcpEditFlags(cmd)
	return cmd
}

// mcpDefinition returns the MCP server that the arguments describe. The result
// is not checked.
func (a *app) mcpDefinition(f mcpAddFlags, args []string) (runnel.MCPDefinition, error) {
	d := runnel.MCPDefinition{
		Name: args[0], URL: f.url, Transport: runnel.MCPTransport(f.transport), BearerTokenEnv: f.tokenVar,
		Env: make(map[string]string), Headers: make(map[string]string),
	}
	if len(args) > 1 {
		d.Command, d.Args = args[1], args[2:]
	}
	for _, e := range f.env {
		name, value, ok := strings.Cut(e, "=")
		if !ok {
			return d, usage("--env: want KEY=VALUE")
		}
		a.secrets.Add(value)
		d.Env[name] = value
	}
	lines, err := a.headerLines(f)
	if err != nil {
		return d, err
	}
	for _, line := range lines {
		name, value, ok := strings.Cut(line, ":")
		if name, value = strings.TrimSpace(name), strings.TrimSpace(value); !ok || name == "" {
			return d, usage("--header: want 'NAME: VALUE'")
		}
		if _, twice := d.Headers[name]; twice {
			return d, usage("--header: %s is there twice", termtext.Clean(name))
		}
		a.secrets.Add(value)
		d.Headers[name] = value
	}
	return d, nil
}

// maxHeaderFile bounds the file of --headers-from, in bytes.
const maxHeaderFile = 1 << 20

// headerLines returns the headers of --header and --headers-from.
func (a *app) headerLines(f mcpAddFlags) ([]string, error) {
	if f.headerFile == "" {
		return f.headers, nil
	}
	in := a.in
	if f.headerFile != "-" {
		file, err := os.Open(f.headerFile)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		in = file
	}
	text, err := io.ReadAll(io.LimitReader(in, maxHeaderFile+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxHeaderFile {
		return nil, usage("--headers-from: the file is larger than 1 MiB")
	}
	lines := slices.Clone(f.headers)
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimRight(line, "\r\n"); strings.TrimSpace(line) != "" {
			lines = append(lines, line)
		}
	}
	return lines, nil
}

func (a *app) mcpRemove() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "remove SERVER --agent NAME",
		Short: "Remove an MCP server from the configuration of an agent",
		Long: `Remove an MCP server from the user's configuration of an agent, through the
running server, whose setting mcp-writes must be true.`,
		Example: `  runnel mcp remove context7 --agent ` + a.example(),
		Args:    exactly(1, "give the name of one MCP server; 'runnel mcp list' prints the names"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := runnel.CheckMCPName(args[0]); err != nil {
				return failure(err)
			}
			return a.editMCP(cmd, func(ad *admin, path string) error {
				return ad.do(cmd.Context(), http.MethodDelete, path+"/"+url.PathEscape(args[0]), nil, nil)
			})
		},
	}
	mcpEditFlags(cmd)
	return cmd
}

func mcpEditFlags(cmd *cobra.Command) {
	cmd.Flags().String("agent", "", "`NAME` of the agent")
	placeFlags(cmd.Flags())
}

// editMCP calls f with the running server and the path of the MCP servers of the
// agent that --agent names.
func (a *app) editMCP(cmd *cobra.Command, f func(ad *admin, path string) error) error {
	agent, err := cmd.Flags().GetString("agent")
	if err != nil {
		return err
	}
	if agent == "" {
		return usage("give the agent with --agent NAME")
	}
	c, err := loadConfig(cmd.Flags())
	if err != nil {
		return err
	}
	ad, err := connect(cmd.Context(), c)
	if errors.Is(err, errNoServer) {
		return errors.New("no server is running; start one with 'runnel serve --mcp-writes', or use the agent's own command line")
	}
	if err != nil {
		return err
	}
	return f(ad, "/api/agents/"+url.PathEscape(agent)+"/mcp")
}
