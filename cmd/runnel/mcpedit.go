package main

import (
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/runnel-dev/runnel"
)

func (a *app) mcpAdd() *cobra.Command {
	var env []string
	cmd := &cobra.Command{
		Use:   "add SERVER --agent NAME [--env KEY=VALUE] -- COMMAND [ARGUMENT...]",
		Short: "Add an MCP server to the configuration of an agent",
		Long: `Add an MCP server to the user's configuration of an agent, through the running
server, whose setting mcp-writes must be true. The agent starts COMMAND with the
arguments in each later session. No shell reads them. While the command runs,
other users of this machine can see the values of --env in the list of
processes.`,
		Example: `  runnel mcp add context7 --agent ` + a.example() + ` -- npx -y @upstash/context7-mcp
  runnel mcp add tickets --agent ` + a.example() + ` --env TICKETS_TOKEN=secret -- /opt/tickets/mcp --stdio`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 {
				return usage("give a name for the MCP server and, after --, its command")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			d := runnel.MCPDefinition{Name: args[0], Command: args[1], Args: args[2:], Env: make(map[string]string)}
			for _, e := range env {
				name, value, ok := strings.Cut(e, "=")
				if !ok {
					return usage("--env: want KEY=VALUE")
				}
				a.secrets.Add(value)
				d.Env[name] = value
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
	cmd.Flags().StringArrayVar(&env, "env", nil, "environment variable of the MCP server, as `KEY=VALUE`; repeatable")
	mcpEditFlags(cmd)
	return cmd
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
