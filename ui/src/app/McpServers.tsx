import { useEffect, useId, useState } from "react";
import { readiness, scripted } from "../model/agents";
import { useStore } from "../model/store";
import { plural } from "../text/format";
import { Visible } from "../text/Shown";
import { plain } from "../text/visible";
import { api } from "../wire/http";
import {
  type MCPDefinition,
  type MCPServer,
  type MCPServers,
  parseHeaders,
  parseVariables,
} from "../wire/mcp";
import { useAdmin } from "./admin";
import { Dialog } from "./Dialog";

/** The MCP servers in the user's configuration of an agent on the server's machine. */
export function McpServers({ onClose }: { onClose: () => void }) {
  const all = useStore((s) => s.agents) ?? [];
  const agents = all.filter((a) => !scripted(a.cliType) && readiness(a) !== "missing");
  const [chosen, setChosen] = useState<string>();
  const agent = chosen ?? agents[0]?.cliType;
  const [found, setFound] = useState<MCPServers>();
  const [problem, setProblem] = useState<string>();
  const admin = useAdmin();
  const id = useId();

  /** Returns whether f succeeded. Then the list is loaded again. */
  const attempt = async (f: () => Promise<unknown>) => {
    setProblem(undefined);
    try {
      await f();
      if (agent) setFound(await api.mcpServers(agent));
      return true;
    } catch (e) {
      setProblem(e instanceof Error ? e.message : String(e));
      return false;
    }
  };
  useEffect(() => {
    let over = false;
    setFound(undefined);
    setProblem(undefined);
    if (agent)
      api.mcpServers(agent).then(
        (list) => !over && setFound(list),
        (e) => !over && setProblem(e instanceof Error ? e.message : String(e)),
      );
    return () => {
      over = true;
    };
  }, [agent]);

  return (
    <Dialog title="MCP servers" onClose={onClose} sheet>
      <p className="mb-3 text-sm text-muted">
        An agent starts these servers, or connects to them, in every session, on the server’s machine.
      </p>
      {agents.length === 0 && <p className="text-sm text-muted">No agent is installed.</p>}
      {agents.length > 0 && (
        <>
          <label htmlFor={id} className="text-sm">
            Agent
          </label>
          <select id={id} className="field mb-3" value={agent} onChange={(e) => setChosen(e.target.value)}>
            {agents.map((a) => (
              <option key={a.cliType} value={a.cliType}>
                {plain(a.displayName, 60)}
              </option>
            ))}
          </select>
        </>
      )}
      {problem && (
        <p role="alert" className="isolate-text mb-3 text-sm text-del">
          {problem}
        </p>
      )}
      {agent && !found && !problem && (
        <p role="status" className="text-sm text-muted">
          Loading the MCP servers…
        </p>
      )}
      {found?.servers.length === 0 && <p className="text-sm text-muted">This agent has no MCP servers.</p>}
      <ul className="flex flex-col gap-2">
        {found?.servers.map((s) => (
          <Server
            key={s.name}
            s={s}
            onRemove={
              admin && found.writes
                ? () => void attempt(() => api.removeMCPServer(agent ?? "", s.name))
                : undefined
            }
          />
        ))}
      </ul>
      {found && !found.writes && (
        <p className="mt-3 text-xs text-muted">
          To change them here, start the server with <code className="font-mono">mcp-writes: true</code>.
        </p>
      )}
      {found?.writes && admin && agent && (
        <Add key={agent} onAdd={(d) => attempt(() => api.addMCPServer(agent, d))} />
      )}
    </Dialog>
  );
}

function Server({ s, onRemove }: { s: MCPServer; onRemove?: () => void }) {
  const more = [
    s.arguments > 0 && plural(s.arguments, "argument"),
    s.url && s.transport !== "" && `over ${plain(s.transport.toUpperCase(), 20)}`,
    s.env.length > 0 && `sets ${s.env.map((name) => plain(name, 60)).join(", ")}`,
    s.headers.length > 0 && `sends ${s.headers.map((name) => plain(name, 60)).join(", ")}`,
    !s.enabled && "switched off",
  ].filter((x) => x !== false && x !== "");
  return (
    <li className="border-t pt-2">
      <div className="flex items-center gap-2">
        <span className="isolate-text min-w-0 truncate font-medium">{plain(s.name, 100)}</span>
        {onRemove && (
          <button
            type="button"
            className="quiet -mr-1.5 ml-auto shrink-0"
            aria-label={`Remove ${plain(s.name, 100)}`}
            onClick={onRemove}
          >
            Remove
          </button>
        )}
      </div>
      <p className="isolate-text text-xs text-muted">
        <code className="font-mono break-words">
          <Visible text={s.command || s.url} />
        </code>
        {more.length > 0 && ` · ${more.join(" · ")}`}
      </p>
    </li>
  );
}

/** What a form has in a field, with line feeds only. */
const text = (form: HTMLFormElement, name: string) =>
  String(new FormData(form).get(name) ?? "").replaceAll("\r\n", "\n");

/** Returns the server that a form describes, or what is wrong with it. */
function definition(form: HTMLFormElement, atURL: boolean): MCPDefinition | string {
  const given = (name: string) => text(form, name);
  const name = given("name").trim();
  if (!atURL) {
    const { env, wrong } = parseVariables(given("env"));
    if (wrong !== undefined) return "Write each variable as KEY=VALUE.";
    const args = given("args").split("\n");
    return { name, command: given("command").trim(), args: args.filter((a) => a !== ""), env };
  }
  const { headers, wrong } = parseHeaders(given("headers"));
  if (wrong !== undefined) return "Write each header as NAME: VALUE.";
  const bearerTokenEnv = given("bearerTokenEnv").trim();
  return {
    name,
    url: given("url").trim(),
    transport: given("transport") === "sse" ? "sse" : "http",
    headers,
    ...(bearerTokenEnv !== "" && { bearerTokenEnv }),
  };
}

function Add({ onAdd }: { onAdd: (d: MCPDefinition) => Promise<boolean> }) {
  const [atURL, setAtURL] = useState(false);
  const [wrong, setWrong] = useState<string>();
  const [busy, setBusy] = useState(false);
  const id = useId();
  return (
    <details className="mt-3 border-t pt-3">
      <summary className="quiet -ml-1.5 justify-start text-accent">Add an MCP server</summary>
      <form
        className="mt-2 flex flex-col gap-2 text-sm"
        autoComplete="off"
        onSubmit={async (e) => {
          e.preventDefault();
          const form = e.currentTarget;
          const d = definition(form, atURL);
          setWrong(typeof d === "string" ? d : undefined);
          if (typeof d === "string") return;
          setBusy(true);
          const added = await onAdd(d);
          setBusy(false);
          if (!added) return;
          form.reset();
          setAtURL(false);
        }}
      >
        <fieldset className="flex flex-wrap gap-x-4">
          <legend className="sr-only">Kind of the server</legend>
          <label className="flex min-h-8 items-center gap-2">
            <input type="radio" name="kind" checked={!atURL} onChange={() => setAtURL(false)} /> A program
          </label>
          <label className="flex min-h-8 items-center gap-2">
            <input type="radio" name="kind" checked={atURL} onChange={() => setAtURL(true)} /> A URL
          </label>
        </fieldset>
        <label htmlFor={`${id}name`}>Name</label>
        <input id={`${id}name`} name="name" className="field" required maxLength={64} />
        {atURL ? <AtURL id={id} /> : <Program id={id} />}
        {wrong && (
          <p role="alert" className="text-del">
            {wrong}
          </p>
        )}
        <button type="submit" className="button self-start" disabled={busy}>
          {busy ? "Adding…" : "Add"}
        </button>
      </form>
    </details>
  );
}

function Program({ id }: { id: string }) {
  return (
    <>
      <label htmlFor={`${id}command`}>Program, by its path or its name</label>
      <input id={`${id}command`} name="command" className="field font-mono" required />
      <label htmlFor={`${id}args`}>Arguments, one in each line</label>
      <textarea id={`${id}args`} name="args" className="field font-mono" rows={2} spellCheck={false} />
      <label htmlFor={`${id}env`}>Variables, KEY=VALUE in each line</label>
      <textarea id={`${id}env`} name="env" className="field font-mono" rows={2} spellCheck={false} />
    </>
  );
}

function AtURL({ id }: { id: string }) {
  return (
    <>
      <label htmlFor={`${id}url`}>URL</label>
      <input
        id={`${id}url`}
        name="url"
        type="url"
        className="field font-mono"
        required
        maxLength={2048}
        placeholder="https://example.com/mcp"
      />
      <label htmlFor={`${id}transport`}>Transport</label>
      <select id={`${id}transport`} name="transport" className="field">
        <option value="http">Streamable HTTP</option>
        <option value="sse">SSE</option>
      </select>
      <label htmlFor={`${id}headers`}>Headers, NAME: VALUE in each line</label>
      <textarea id={`${id}headers`} name="headers" className="field font-mono" rows={2} spellCheck={false} />
      <label htmlFor={`${id}token`}>Variable of the agent that has a bearer token</label>
      <input
        id={`${id}token`}
        name="bearerTokenEnv"
        className="field font-mono"
        aria-describedby={`${id}about`}
        placeholder="API_TOKEN"
      />
      <p id={`${id}about`} className="text-xs text-muted">
        The agent’s configuration file has headers as plain text, but of a variable only the name.
      </p>
    </>
  );
}
