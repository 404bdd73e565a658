import { ArrowLeft } from "lucide-react";
import { type FormEvent, useEffect, useId, useState } from "react";
import { Command } from "../app/Copy";
import { load, save } from "../model/keep";
import { go } from "../model/routes";
import { refresh, useStore } from "../model/store";
import { plain } from "../text/visible";
import { modeLabel } from "../text/words";
import { ApiError, api } from "../wire/http";
import type { Agent } from "../wire/types";

interface Last {
  agent?: string;
  dir?: string;
}

/** A new session, and the first thing a newcomer sees: three steps to the first turn. */
export function New({ first }: { first: boolean }) {
  const agents = useStore((s) => s.agents);
  const projects = useStore((s) => s.projects);
  const last = load<Last>("last", {});
  const [chosen, setChosen] = useState<string>();
  const [typed, setTyped] = useState<string>();
  const [model, setModel] = useState("");
  const [mode, setMode] = useState("");
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<ApiError>();
  const id = useId();

  useEffect(() => {
    void refresh(); // an agent may have been installed meanwhile
  }, []);

  const list = sorted(agents ?? []);
  const agent =
    list.find((a) => a.cliType === chosen) ??
    list.find((a) => a.cliType === last.agent && usable(a)) ??
    list.find(usable) ??
    list[0];
  const dir = typed ?? last.dir ?? projects?.[0]?.projectDir ?? "";
  const noneInstalled = agents !== undefined && !list.some((a) => usable(a) && a.cliType !== "script");

  const submit = async (e: FormEvent) => {
    e.preventDefault();
    if (!agent || busy) return;
    setBusy(true);
    setProblem(undefined);
    const options: Record<string, string> = {};
    if (model) options.model = model;
    if (mode) options.permissionMode = mode;
    try {
      const session = await api.create(agent.cliType, dir.trim(), options);
      save("last", { agent: agent.cliType, dir: dir.trim() });
      void refresh();
      go({ at: "session", id: session });
    } catch (err) {
      setProblem(err instanceof ApiError ? err : new ApiError("INTERNAL", String(err), 0));
    } finally {
      setBusy(false);
    }
  };

  return (
    <main className="min-h-0 flex-1 overflow-y-auto" aria-label="New session">
      <form
        onSubmit={submit}
        className="mx-auto flex max-w-2xl flex-col gap-8 px-4 py-6 pb-[max(32px,env(safe-area-inset-bottom))] wide:py-12"
      >
        <div>
          {!first && (
            <button type="button" className="quiet -ml-2 mb-2 wide:hidden" onClick={() => go({ at: "list" })}>
              <ArrowLeft size={16} aria-hidden /> Sessions
            </button>
          )}
          <h1 className="text-xl font-semibold tracking-tight">
            {first ? "Start your first session" : "New session"}
          </h1>
          {first && (
            <p className="mt-1 text-muted">Choose an agent, give it a folder, and tell it what to do.</p>
          )}
        </div>

        <Step n={1} title="Agent">
          {!agents && <div className="shape h-24" role="status" aria-label="Looking for agents" />}
          {noneInstalled && (
            <p className="mb-3 text-muted">
              No agent is installed on this machine yet. Install one with its command, or try the page with
              the scripted one, which needs nothing.
            </p>
          )}
          <div role="radiogroup" aria-label="Agent" className="divide-y rounded-md border">
            {list.map((a) => (
              <AgentRow
                key={a.cliType}
                a={a}
                checked={a === agent}
                onChoose={() => setChosen(a.cliType)}
                name={`${id}agent`}
              />
            ))}
          </div>
        </Step>

        <Step n={2} title="Folder">
          <label htmlFor={`${id}dir`} className="sr-only">
            Folder, as an absolute path
          </label>
          <input
            id={`${id}dir`}
            className="field font-mono text-sm"
            placeholder="/home/you/project"
            autoComplete="off"
            autoCapitalize="off"
            spellCheck={false}
            required
            value={dir}
            onChange={(e) => setTyped(e.target.value)}
          />
          {projects && projects.length > 0 && (
            <ul className="mt-2 flex flex-wrap gap-2" aria-label="Recent folders">
              {projects.slice(0, 6).map((p) => (
                <li key={p.projectId} className="max-w-full">
                  <button
                    type="button"
                    className="button max-w-full font-mono text-xs"
                    aria-pressed={p.projectDir === dir}
                    onClick={() => setTyped(p.projectDir)}
                  >
                    <span className="truncate">{plain(p.projectDir)}</span>
                  </button>
                </li>
              ))}
            </ul>
          )}
        </Step>

        <Step n={3} title="Start">
          <div className="mb-3 grid gap-3 wide:grid-cols-2">
            {agent && agent.models.length > 0 && (
              <Select
                label="Model"
                value={model}
                onChange={setModel}
                options={agent.models.map((m) => [m.id, m.name ?? m.id])}
              />
            )}
            {agent && agent.modes.length > 0 && (
              <Select
                label="Permissions"
                value={mode}
                onChange={setMode}
                options={agent.modes.map((m) => [m, modeLabel(m)])}
              />
            )}
          </div>
          {problem && <Problem e={problem} agent={agent} />}
          <button type="submit" className="button primary" disabled={!agent || busy || !usable(agent)}>
            {busy ? "Starting…" : "Start session"}
          </button>
          {agent && !usable(agent) && (
            <span className="ml-3 text-muted">{plain(agent.displayName)} is not ready: see step 1.</span>
          )}
        </Step>
      </form>
    </main>
  );
}

// What is ready first, the scripted one last.
function sorted(agents: Agent[]): Agent[] {
  const rank = (a: Agent) => (a.cliType === "script" ? 2 : usable(a) ? 0 : 1);
  return [...agents].sort((a, b) => rank(a) - rank(b));
}

const usable = (a: Agent) => a.installed && a.loggedIn !== false;

function Step({ n, title, children }: { n: number; title: string; children: React.ReactNode }) {
  return (
    <section className="grid grid-cols-[24px_minmax(0,1fr)] gap-x-3">
      <span aria-hidden className="text-muted">
        {n}
      </span>
      <div>
        <h2 className="mb-2 font-semibold">{title}</h2>
        {children}
      </div>
    </section>
  );
}

function AgentRow({
  a,
  checked,
  onChoose,
  name,
}: {
  a: Agent;
  checked: boolean;
  onChoose: () => void;
  name: string;
}) {
  const hint = !a.installed ? a.install : a.loggedIn === false ? a.login : undefined;
  const state = !a.installed
    ? "not installed"
    : a.loggedIn === false
      ? "not logged in"
      : a.cliType === "script"
        ? "needs nothing"
        : (a.version ?? "ready");
  return (
    <div className={`px-3 py-2 ${checked ? "bg-tint" : ""}`}>
      <label className="flex min-h-7 cursor-pointer items-center gap-3">
        <input type="radio" name={name} checked={checked} onChange={onChoose} className="accent-accent" />
        <span className="font-medium">{plain(a.displayName)}</span>
        <span className="ml-auto text-sm text-muted">{plain(state)}</span>
      </label>
      {a.cliType === "script" && (
        <p className="pl-6 text-sm text-muted">Plays scripted turns, to try things out. No model is asked.</p>
      )}
      {a.problem && !(hint && a.problem.includes(hint)) && (
        <p className="mt-1 pl-6 text-sm text-muted">{plain(a.problem)}</p>
      )}
      {hint && (
        <div className="mt-1 flex flex-wrap items-center gap-2 pl-6 text-sm">
          <span className="text-muted">{a.installed ? "Log in with" : "Install it with"}</span>
          <Command text={hint} />
        </div>
      )}
    </div>
  );
}

function Select({
  label,
  value,
  onChange,
  options,
}: {
  label: string;
  value: string;
  onChange: (v: string) => void;
  options: [string, string][];
}) {
  return (
    <label className="block text-sm">
      <span className="mb-1 block text-muted">{label}</span>
      <select className="field" value={value} onChange={(e) => onChange(e.target.value)}>
        <option value="">The agent’s default</option>
        {options.map(([v, text]) => (
          <option key={v} value={v}>
            {text}
          </option>
        ))}
      </select>
    </label>
  );
}

function Problem({ e, agent }: { e: ApiError; agent?: Agent }) {
  const text = (v: unknown) => (typeof v === "string" && v !== "" ? v : undefined);
  const command =
    text(e.details.install) ??
    text(e.details.login) ??
    (e.type === "AGENT_NOT_INSTALLED"
      ? agent?.install
      : e.type === "AGENT_NOT_LOGGED_IN"
        ? agent?.login
        : undefined);
  return (
    <div role="alert" className="mb-3 rounded-md bg-del-bg px-3 py-2">
      <p className="text-del">{plain(e.message, 1000)}</p>
      {command && (
        <p className="mt-2">
          <Command text={command} />
        </p>
      )}
    </div>
  );
}
