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
  headers: string[]; // names
}

/** What the page shows of the MCP servers of an agent. */
export interface MCPServers {
  servers: MCPServer[];
  writes: boolean; // the server permits changes
}

/**
 * An MCP server to add: a program, which the agent starts without a shell, or a
 * server at a URL.
 */
export type MCPDefinition =
  | { name: string; command: string; args: string[]; env: Record<string, string> }
  | {
      name: string;
      url: string;
      transport: "http" | "sse";
      headers: Record<string, string>;
      bearerTokenEnv?: string; // name of a variable of the agent
    };

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
            headers: list(s.headers, (name) => str(name) || undefined),
          }
        : undefined,
    ),
  };
}

/** Returns the variables in lines of KEY=VALUE, or the first line that is none. */
export function parseVariables(text: string): { env: Record<string, string>; wrong?: string } {
  const { values, wrong } = parseLines(text, "=");
  return { env: values, wrong };
}

/** Returns the headers in lines of NAME: VALUE, or the first line that is none. */
export function parseHeaders(text: string): { headers: Record<string, string>; wrong?: string } {
  const { values, wrong } = parseLines(text, ":");
  const headers: Record<string, string> = {};
  for (const [name, value] of Object.entries(values)) headers[name] = value.trim();
  return { headers, wrong };
}

function parseLines(text: string, separator: string): { values: Record<string, string>; wrong?: string } {
  const values: Record<string, string> = {};
  for (const line of text.split("\n")) {
    if (line.trim() === "") continue;
    const at = line.indexOf(separator);
    if (at < 1) return { values, wrong: line.trim() };
    values[line.slice(0, at).trim()] = line.slice(at + 1);
  }
  return { values };
}
