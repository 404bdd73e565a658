import {
  ArrowUp,
  ChevronDown,
  Ellipsis,
  Folder,
  GitBranch,
  List as ListIcon,
  Play,
  RefreshCw,
} from "lucide-react";
import { type FormEvent, useEffect, useRef, useState } from "react";
import { Command } from "../app/Copy";
import { Dialog } from "../app/Dialog";
import { Problem } from "../app/Problem";
import { Field } from "../composer/Field";
import { useFiles } from "../composer/files";
import { PillRow } from "../composer/Settings";
import { preselected, readiness, scripted, sorted, usable } from "../model/agents";
import { begin, type Choices, exampleFor, likeliest, noCommands } from "../model/begin";
import { load, save } from "../model/keep";
import { openOver } from "../model/over";
import { go } from "../model/routes";
import { asOptions, offered } from "../model/settings";
import { complain, learn, lookForAgents, refresh, useStore } from "../model/store";
import { folderName } from "../text/format";
import { plain } from "../text/visible";
import { ApiError, api } from "../wire/http";
import type { Agent } from "../wire/types";
import { Agents } from "./Agents";
import { FolderPicker } from "./FolderPicker";
import { Overview } from "./Home";
import { ProfileField, useProfiles } from "./Profiles";

const fresh = 5000; // ms in which loaded data counts as current

type Last = Pick<Choices, "agent" | "dir">;

/** What a person has chosen for the next session, and what follows from it. */
function useChoices(wanted: boolean) {
  const agents = useStore((s) => s.agents);
  const projects = useStore((s) => s.projects);
  const [choices, setChoices] = useState(() => load<Choices>("start", {}));
  const [suggested, setSuggested] = useState<string>();
  const last = load<Last>("last", {});

  useEffect(() => save("start", choices), [choices]);

  const list = sorted(agents ?? []);
  const agent = list.find((a) => a.cliType === choices.agent) ?? preselected(agents ?? [], last.agent);
  const known = choices.dir ?? last.dir ?? projects?.[0]?.projectDir;
  const dir = known ?? suggested ?? "";
  const unknown = projects !== undefined && known === undefined;
  useEffect(() => {
    if (!unknown) return;
    void api.folders("").then(
      (f) => setSuggested(f.suggested),
      () => undefined, // without a suggestion the person chooses
    );
  }, [unknown]);

  const decided = known !== undefined || projects !== undefined; // the folder, as far as the server knows one
  const profiles = useProfiles(dir, decided && (wanted || choices.persona !== undefined));
  // The chosen profile may belong to another folder.
  const profile = profiles.some((p) => p.name === choices.persona && p.error === undefined)
    ? choices.persona
    : undefined;
  const values = choices.values?.[agent?.cliType ?? ""] ?? {};
  const change = (c: Choices) => setChoices((now) => ({ ...now, ...c }));
  return { agents, list, agent, projects: projects ?? [], dir, profiles, profile, values, choices, change };
}

const mostAsked = 5; // sessions whose commands are loaded

/** The commands that a new session will most likely have, once they are wanted. */
function useLikelyCommands(agent: string, dir: string, wanted: boolean) {
  const [empty, setEmpty] = useState<ReadonlySet<string>>(new Set()); // sessions that have no commands
  const like = useStore((s) => likeliest(s.sessions.values(), agent, dir, empty));
  const missing = wanted && empty.size < mostAsked && like && !like.commands ? like.sessionId : undefined;
  useEffect(() => {
    if (!missing) return;
    const skip = () => setEmpty((now) => new Set(now).add(missing));
    void api.status(missing).then((s) => (s?.commands ? learn(s) : skip()), skip);
  }, [missing]);
  return like?.commands ?? noCommands;
}

/**
 * The page without a session: the composer of a new one, and above it what
 * waits and runs, or an invitation for a newcomer.
 */
export function Start({ first, write }: { first: boolean; write: boolean }) {
  const [text, setText] = useState(() => load("draft.new", ""));
  const [used, setUsed] = useState(false); // the form was used
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<ApiError>();
  const [open, setOpen] = useState<"agent" | "folder">();
  const attachments = useFiles("new");
  const c = useChoices(used);
  const { agent, dir } = c;
  const commands = useLikelyCommands(agent?.cliType ?? "", dir, text.startsWith("/"));

  const latest = useRef(text);
  latest.current = text;

  useEffect(() => save("draft.new", text), [text]);
  useEffect(() => {
    void refresh(fresh); // an agent may have been installed since the last load
  }, []);

  const uploads = attachments.files.flatMap((f) => f.uploadId ?? []);
  const waiting = attachments.files.some((f) => !f.uploadId && !f.problem);
  const able = agent !== undefined && usable(agent) && !busy;
  const ready = able && dir !== "" && !waiting && (text.trim() !== "" || uploads.length > 0);

  const run = async (content: string, files: readonly string[]): Promise<string | undefined> => {
    if (!agent) return undefined;
    setBusy(true);
    setProblem(undefined);
    try {
      const options = {
        ...asOptions(c.values),
        ...(c.profile && { persona: c.profile }),
        ...(c.choices.worktree && { worktree: true }),
      };
      const { id, warnings } = await begin({ cliType: agent.cliType, dir, options }, content, files);
      save("last", { agent: agent.cliType, dir });
      save("start", undefined);
      if (warnings.length > 0) complain(warnings.join("\n"));
      void refresh();
      return id;
    } catch (e) {
      setProblem(e instanceof ApiError ? e : new ApiError("INTERNAL", String(e), 0));
      return undefined;
    } finally {
      setBusy(false);
    }
  };

  const send = async () => {
    if (!ready) {
      if (able && dir === "") setOpen("folder");
      return;
    }
    const typed = text;
    const id = await run(typed.trim(), uploads);
    if (!id) return document.getElementById("composer")?.focus();
    // Text typed after sending becomes the draft of the session.
    const now = latest.current;
    if (now.startsWith(typed)) save(`draft.${id}`, now.slice(typed.length));
    save("draft.new", undefined);
    save("files.new", undefined);
    go({ at: "session", id });
  };

  // An example needs a folder, too. It starts once there is one.
  const [example, setExample] = useState<string>();
  const startExample = useRef(() => {});
  startExample.current = async () => {
    if (example === undefined) return;
    const id = await run(example, []);
    setExample(undefined);
    if (id) go({ at: "session", id });
  };
  const chosen = example !== undefined && dir !== "";
  useEffect(() => {
    if (chosen) startExample.current();
  }, [chosen]);

  return (
    <main id="main" className="flex min-h-0 flex-1 flex-col" aria-label="New session">
      <PhoneHeader />
      <div className="min-h-0 flex-1 overflow-y-auto">
        <div className="mx-auto flex min-h-full w-full max-w-[52rem] flex-col px-4">
          {first ? (
            <Invitation
              agents={c.agents}
              agent={agent}
              able={able}
              busy={busy && example !== undefined}
              onExample={(p) => {
                setExample(p);
                if (dir === "") setOpen("folder");
              }}
            />
          ) : (
            <>
              <h1 className="sr-only">New session</h1>
              <Overview />
            </>
          )}
        </div>
      </div>
      <Problem />
      <form
        className="shrink-0 border-t bg-bg pb-[max(8px,env(safe-area-inset-bottom))]"
        aria-label="Prompt"
        onFocus={() => setUsed(true)}
        onPointerDown={() => setUsed(true)}
        onSubmit={(e: FormEvent) => {
          e.preventDefault();
          void send();
        }}
      >
        <div className="mx-auto w-full max-w-[52rem] px-4 pt-3">
          {problem && <Refusal e={problem} agent={agent} />}
          <Field
            text={text}
            onText={setText}
            attachments={attachments}
            sources={{
              project: dir,
              files: async (query) =>
                dir === "" ? { files: [], partial: false } : api.projectFiles(dir, query),
              commands,
            }}
            placeholder="Tell an agent what to do"
            onEnter={() => void send()}
            autoFocus={write}
          >
            {agent && (
              <PillRow
                settings={offered(agent).map((x) => ({ ...x, value: c.values[x.key] ?? x.value }))}
                onChange={(x, v) =>
                  c.change({
                    values: { ...c.choices.values, [agent.cliType]: { ...c.values, [x.key]: v } },
                  })
                }
                none={(x) => (canBeUnset(agent, x.key) ? `Default ${x.name.toLowerCase()}` : undefined)}
                more={c.profiles.length > 0}
              >
                <ProfileField
                  profiles={c.profiles}
                  value={c.profile ?? ""}
                  onChange={(persona) => c.change({ persona })}
                />
              </PillRow>
            )}
            <button type="submit" className="button primary ml-auto" disabled={!ready}>
              <ArrowUp size={15} aria-hidden /> {busy ? "Starting…" : "Send"}
            </button>
          </Field>
          <Where
            agent={agent}
            dir={dir}
            checking={c.agents === undefined}
            worktree={c.choices.worktree === true}
            onWorktree={(worktree) => c.change({ worktree })}
            onOpen={setOpen}
          />
        </div>
      </form>
      {open === "agent" && (
        <Dialog title="Agent" onClose={() => setOpen(undefined)} sheet>
          <Agents list={c.list} chosen={agent} onChoose={(a) => c.change({ agent: a.cliType })} />
          {c.list.some((a) => readiness(a) !== "ready") && <LookAgain />}
        </Dialog>
      )}
      {open === "folder" && (
        <FolderPicker
          value={dir}
          projects={c.projects}
          onClose={() => {
            setOpen(undefined);
            setExample(undefined);
          }}
          onChoose={(d) => {
            setOpen(undefined);
            c.change({ dir: d });
          }}
        />
      )}
    </main>
  );
}

const canBeUnset = (agent: Agent, key: string) => offered(agent).find((x) => x.key === key)?.value === "";

/** On a phone, the way to the sessions. */
function PhoneHeader() {
  return (
    <header className="flex min-h-12 shrink-0 items-center border-b px-4 pt-[env(safe-area-inset-top)] wide:hidden">
      <span className="mr-auto flex items-center gap-2 text-lg font-semibold tracking-tight">
        <img src="icon.svg" alt="" width={18} height={18} /> Runnel
      </span>
      <button type="button" className="quiet" onClick={() => go({ at: "list" })}>
        <ListIcon size={16} aria-hidden /> Sessions
      </button>
      <button
        type="button"
        className="quiet -mr-3"
        onClick={() => openOver("palette")}
        aria-label="All commands"
        title="All commands"
      >
        <Ellipsis size={18} aria-hidden />
      </button>
    </header>
  );
}

/** Where the prompt goes: the agent and the folder. */
function Where({
  agent,
  dir,
  checking,
  worktree,
  onWorktree,
  onOpen,
}: {
  agent: Agent | undefined;
  dir: string;
  checking: boolean;
  worktree: boolean;
  onWorktree: (on: boolean) => void;
  onOpen: (what: "agent" | "folder") => void;
}) {
  const state = agent && readiness(agent);
  const trouble = agent && !usable(agent);
  const name = agent ? plain(agent.displayName, 40) : checking ? "Checking for agents…" : "No agent";
  return (
    <div className="-ml-1.5 flex flex-wrap items-center gap-x-1 pt-1">
      <button
        type="button"
        className="quiet min-w-0 max-w-full"
        aria-haspopup="dialog"
        aria-label={`Agent: ${name}`}
        title="Agent"
        disabled={!agent}
        onClick={() => onOpen("agent")}
      >
        <span className="truncate">{name}</span>
        <ChevronDown size={14} aria-hidden className="shrink-0" />
      </button>
      <button
        type="button"
        className="quiet min-w-0 max-w-full"
        aria-haspopup="dialog"
        aria-label={`Folder: ${dir ? plain(folderName(dir), 80) : "Choose a folder"}`}
        title={dir ? plain(dir) : "Folder"}
        onClick={() => onOpen("folder")}
      >
        <Folder size={14} aria-hidden className="shrink-0" />
        <span className={`truncate ${dir ? "" : "text-mark"}`}>
          {dir ? plain(folderName(dir), 80) : "Choose a folder"}
        </span>
        <ChevronDown size={14} aria-hidden className="shrink-0" />
      </button>
      <button
        type="button"
        className={`quiet ${worktree ? "text-accent" : ""}`}
        aria-pressed={worktree}
        title="The agent works in a new git worktree of the folder, with a branch of its own. Your files stay as they are."
        onClick={() => onWorktree(!worktree)}
      >
        <GitBranch size={14} aria-hidden className="shrink-0" /> In its own worktree
      </button>
      {trouble && (
        <span role="status" className={`px-1.5 text-sm ${state === "checking" ? "text-muted" : "text-mark"}`}>
          {state === "checking"
            ? `Checking ${name}…`
            : state === "locked"
              ? `${name} is not logged in.`
              : `${name} is not installed.`}
        </span>
      )}
    </div>
  );
}

/** What a newcomer sees: an example that runs with one click. */
function Invitation({
  agents,
  agent,
  able,
  busy,
  onExample,
}: {
  agents: Agent[] | undefined;
  agent: Agent | undefined;
  able: boolean;
  busy: boolean;
  onExample: (prompt: string) => void;
}) {
  const list = sorted(agents ?? []);
  const none =
    agents !== undefined &&
    !agents.some((a) => a.checking) &&
    !list.some((a) => usable(a) && !scripted(a.cliType));
  const example = agent && exampleFor(agent, scripted(agent.cliType));
  return (
    <div className="my-auto flex flex-col gap-6 py-8">
      <div>
        <h1 className="text-xl font-semibold tracking-tight">Start your first session</h1>
        <p className="mt-1 max-w-[70ch] text-muted">
          Write below what an agent should do, and choose the agent and the folder in which it works. You see
          everything it does here, and answer when it asks.
        </p>
      </div>
      {!agents && <div className="shape h-16" role="status" aria-label="Checking for agents" />}
      {example && (
        <div>
          <button
            type="button"
            className="flex w-full items-start gap-3 rounded-lg border bg-raised px-3 py-2.5 text-left hover:border-muted disabled:opacity-55"
            disabled={!able}
            onClick={() => onExample(example.prompt)}
          >
            <Play size={16} aria-hidden className="mt-1 shrink-0 text-accent" />
            <span className="min-w-0">
              <span className="block font-medium">{busy ? "Starting…" : plain(example.label, 80)}</span>
              <span className="block text-muted">{plain(example.about ?? example.prompt, 300)}</span>
            </span>
          </button>
        </div>
      )}
      {none && (
        <div>
          <p className="mb-2 max-w-[70ch] text-muted">
            No agent is installed on this machine yet. Install one with its command, or try the page with the
            scripted one, which needs nothing.
          </p>
          <Agents list={list.filter((a) => !scripted(a.cliType))} />
          <LookAgain />
        </div>
      )}
    </div>
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

function Refusal({ e, agent }: { e: ApiError; agent?: Agent }) {
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
