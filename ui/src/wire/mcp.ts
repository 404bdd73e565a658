// The server's answers about the MCP servers in the configurations of agents.

import { isObj, list, str } from "./values";

/** An MCP server in the user's configuration of an agent, without secrets. */
export interface MCPServer {
  name: string;
  transport: string; // stdio, http or sse
  enabled: boolean;
  command: string;
  arguments: number;
  url: string; // scheme and host
  env: string[]; // names of variables
}

/** What the page shows of the MCP servers of an agent. */
export interface MCPServers {
  servers: MCPServer[];
  writes: boolean; // the server permits changes
}

/** An MCP server to add. The agent starts the command without a shell. */
export interface MCPDefinition {
  name: string;
  command: string;
  args: string[];
  env: Record<string, string>;
}

export function parseMCPServers(v: unknown): MCPServers {
  if (!isObj(v)) return { servers: [], writes: false };
  return {
    writes: v.writes === true,
    servers: list(v.servers, (s) =>
      isObj(s) && str(s.name)
        ? {
            name: str(s.name),
            transport: str(s.transport),
            enabled: s.enabled !== false,
            command: str(s.command),
            arguments: typeof s.arguments === "number" ? s.arguments : 0,
            url: str(s.url),
            env: list(s.env, (name) => str(name) || undefined),
          }
        : undefined,
    ),
  };
}

/** Returns the variables in lines of KEY=VALUE, or the first line that is none. */
export function parseVariables(text: string): { env: Record<string, string>; wrong?: string } {
  const env: Record<string, string> = {};
  for (const line of text.split("\n")) {
    if (line.trim() === "") continue;
    const at = line.indexOf("=");
    if (at < 1) return { env, wrong: line.trim() };
    env[line.slice(0, at).trim()] = line.slice(at + 1);
  }
  return { env };
}
