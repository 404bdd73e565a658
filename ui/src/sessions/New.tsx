import { ArrowLeft, RefreshCw } from "lucide-react";
import { type FormEvent, useEffect, useId, useState } from "react";
import { Command } from "../app/Copy";
import { SettingField } from "../composer/Settings";
import { preselected, readiness, scripted, sorted, usable } from "../model/agents";
import { load, save } from "../model/keep";
import { go } from "../model/routes";
import { asOptions, offered } from "../model/settings";
import { lookForAgents, refresh, useStore } from "../model/store";
import { plain } from "../text/visible";
import { ApiError, api } from "../wire/http";
import type { Agent } from "../wire/types";
import { Agents } from "./Agents";
import { ProfileField, useProfiles } from "./Profiles";

const fresh = 5000; // ms in which loaded data counts as current

interface Last {
  agent?: string;
  dir?: string;
}

/**
 * The form of a new session, which is also a newcomer's first view: three steps
 * to the first turn.
 */
export function New({ first }: { first: boolean }) {
  const agents = useStore((s) => s.agents);
  const projects = useStore((s) => s.projects);
  const last = load<Last>("last", {});
  const [chosen, setChosen] = useState<string>();
  const [typed, setTyped] = useState<string>();
  const [values, setValues] = useState<Readonly<Record<string, Readonly<Record<string, string>>>>>({}); // by agent
  const [persona, setPersona] = useState("");
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<ApiError>();
  const id = useId();

  useEffect(() => {
    void refresh(fresh); // an agent may have been installed since the last load
  }, []);

  const checking = agents?.some((a) => a.checking) ?? false;
  const list = sorted(agents ?? []);
  const agent = list.find((a) => a.cliType === chosen) ?? preselected(agents ?? [], last.agent);
  const dir = typed ?? last.dir ?? projects?.[0]?.projectDir ?? "";
  const noneInstalled =
    agents !== undefined && !checking && !list.some((a) => usable(a) && !scripted(a.cliType));
  const settings = agent ? offered(agent) : [];
  const mine = values[agent?.cliType ?? ""] ?? {};
  const profiles = useProfiles(dir.trim());
  const profile = profiles.some((p) => p.name === persona && p.error === undefined) ? persona : ""; // the selected profile may belong to another folder

  const submit = async (e: FormEvent) => {
    e.preventDefault();
    if (!agent || busy) return;
    setBusy(true);
    setProblem(undefined);
    try {
      const session = await api.create(agent.cliType, dir.trim(), {
        ...asOptions(mine),
        ...(profile && { persona: profile }),
      });
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
          {first && <p className="mt-1 text-muted">Choose an agent and a folder, then write a prompt.</p>}
        </div>

        <Step n={1} title="Agent">
          {!agents && <div className="shape h-24" role="status" aria-label="Checking for agents" />}
          {noneInstalled && (
            <p className="mb-3 text-muted">
              No agent is installed on this machine yet. Install one with its command, or try the page with
              the scripted one, which needs nothing.
            </p>
          )}
          <Agents list={list} chosen={agent} onChoose={(a) => setChosen(a.cliType)} />
          {list.some((a) => readiness(a) !== "ready") && <LookAgain />}
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
          <ProfileField profiles={profiles} value={profile} onChange={setPersona} />
          {agent && settings.length > 0 && (
            <div className="mb-4 grid gap-x-4 gap-y-3 wide:grid-cols-2">
              {settings.map((x) => (
                <div key={x.key} data-setting={x.key}>
                  <SettingField
                    id={`${id}${x.key}`}
                    setting={x}
                    value={mine[x.key] ?? x.value}
                    none={x.value === "" ? "The agent’s default" : undefined}
                    onChange={(v) =>
                      setValues((all) => ({
                        ...all,
                        [agent.cliType]: { ...all[agent.cliType], [x.key]: v },
                      }))
                    }
                  />
                </div>
              ))}
            </div>
          )}
          {problem && <Problem e={problem} agent={agent} />}
          <div className="flex flex-wrap items-center gap-x-3 gap-y-1">
            <button type="submit" className="button primary" disabled={!agent || busy || !usable(agent)}>
              {busy ? "Starting…" : "Start session"}
            </button>
            {agent && !usable(agent) && (
              <span className="text-muted">
                {readiness(agent) === "checking"
                  ? `Checking ${plain(agent.displayName)}…`
                  : `${plain(agent.displayName)} is not ready: see step 1.`}
              </span>
            )}
          </div>
        </Step>
      </form>
    </main>
  );
}

/** A button for users who have just installed an agent or logged in to it. */
function LookAgain() {
  const [busy, setBusy] = useState(false);
  const look = async () => {
    setBusy(true);
    await lookForAgents(true);
    setBusy(false);
  };
  return (
    <button type="button" className="quiet mt-1 -ml-1.5" disabled={busy} onClick={() => void look()}>
      <RefreshCw size={14} aria-hidden /> {busy ? "Checking…" : "Check again"}
    </button>
  );
}

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
      <p className="isolate-text text-del">{plain(e.message, 1000)}</p>
      {command && (
        <p className="mt-2">
          <Command text={command} />
        </p>
      )}
    </div>
  );
}
