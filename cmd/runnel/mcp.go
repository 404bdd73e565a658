package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/termtext"
)

func (a *app) mcpCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "List, add and remove the MCP servers of an agent",
		Long: `List, add and remove MCP servers in the user's configuration of an agent on this
machine. The commands start no MCP server and do not read the configuration of
projects. They print no arguments, no values of variables and headers, and no
paths of URLs, because these can be secrets.

'list' and 'get' read the configuration. 'add' and 'remove' need a running server
whose setting mcp-writes is true. Not every agent is supported.`,
		Example: `  runnel mcp list --agent ` + a.example() + `
  runnel mcp get context7 --agent ` + a.example() + `
  runnel mcp add context7 --agent ` + a.example() + ` -- npx -y @upstash/context7-mcp
  runnel mcp remove context7 --agent ` + a.example(),
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage("unknown command %q; use list, get, add or remove", termtext.Clean(args[0]))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.mcpList(), a.mcpGet(), a.mcpAdd(), a.mcpRemove())
	return cmd
}

func (a *app) mcpList() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "list --agent NAME",
		Short:   "List the MCP servers of an agent",
		Example: `  runnel mcp list --agent ` + a.example(),
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage("give no arguments; --agent selects the agent")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := a.mcpAgent(cmd)
			if err != nil {
				return err
			}
			list, err := runnel.ListMCP(cmd.Context(), p)
			if err != nil {
				return err
			}
			if asJSON {
				return a.encoder().Encode(list)
			}
			return a.printMCP(list)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON array")
	mcpFlags(cmd)
	return cmd
}

func (a *app) mcpGet() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "get SERVER --agent NAME",
		Short:   "Show one MCP server of an agent",
		Example: `  runnel mcp get context7 --agent ` + a.example(),
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usage("give the name of one MCP server; 'runnel mcp list' prints the names")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := a.mcpAgent(cmd)
			if err != nil {
				return err
			}
			s, err := runnel.GetMCP(cmd.Context(), p, args[0])
			if err != nil {
				return err
			}
			if asJSON {
				return a.encoder().Encode(s)
			}
			return a.printMCP([]runnel.MCPServer{s})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object")
	mcpFlags(cmd)
	return cmd
}

func mcpFlags(cmd *cobra.Command) {
	cmd.Flags().String("agent", "", "`NAME` of the agent")
	configFlag(cmd)
}

// mcpAgent returns the provider that --agent names.
func (a *app) mcpAgent(cmd *cobra.Command) (runnel.Provider, error) {
	a.hide()
	if err := a.knowAgents(cmd.Flags()); err != nil {
		return nil, err
	}
	name, err := cmd.Flags().GetString("agent")
	if err != nil {
		return nil, err
	}
	if name == "" {
		return nil, usage("give the agent with --agent NAME")
	}
	return a.named(name)
}

func (a *app) printMCP(list []runnel.MCPServer) error {
	if len(list) == 0 {
		_, err := fmt.Fprintln(a.out, "The agent's configuration has no MCP servers.")
		return err
	}
	t := table{columns: []column{{"SERVER", whole}, {"TRANSPORT", whole}, {"ENABLED", whole}, {"COMMAND OR HOST", cutEnd}, {"VARIABLES AND HEADERS", cutEnd}}}
	for _, s := range list {
		enabled, runs := "yes", s.Command+s.URL
		if !s.Enabled {
			enabled = "no"
		}
		if s.Arguments > 0 {
			runs += fmt.Sprintf(" (%d arguments)", s.Arguments)
		}
		t.add(cell(s.Name), cell(s.Transport), enabled, cell(runs), cell(strings.Join(append(s.Env, s.Headers...), " ")))
	}
	return t.write(a.out, a.width())
}
