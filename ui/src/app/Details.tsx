import { Braces, X } from "lucide-react";
import { type ReactNode, useMemo, useState } from "react";
import { byFile, countChanges } from "../model/diff";
import { useAgentName, useStore } from "../model/store";
import type { RateLimit, Transcript } from "../model/transcript";
import { workDir } from "../model/worktree";
import { Counts, Diff } from "../stream/Diff";
import { PlanList, planIn, progressOf } from "../stream/Plan";
import { changesOf } from "../stream/TurnEnd";
import { absolute, count, plural, shortPath } from "../text/format";
import { Visible } from "../text/Shown";
import { plain } from "../text/visible";
import { modeLabel } from "../text/words";
import type { ResolvedOption, SessionStatus } from "../wire/types";
import { CopyButton } from "./Copy";
import { Denials } from "./Denials";
import { Dialog } from "./Dialog";
import { Meter } from "./Meter";
import { part } from "./parts";
import { Rules } from "./Rules";
import { Totals } from "./Totals";

const Events = part(() => import("./Events").then((m) => m.Events));

/**
 * The panel with the plan of a session, its usage, all files that it changed,
 * the paths that its sandbox seems to need, the rules for it and facts about it.
 */
export function Details({
  s,
  transcript,
  onClose,
}: {
  s: SessionStatus;
  transcript: Transcript;
  onClose: () => void;
}) {
  const agent = useAgentName(s.cliType);
  const labels = useStore((st) => st.agents?.find((a) => a.cliType === s.cliType)?.modeLabels);
  const [shown, setShown] = useState<string>();
  const [events, setEvents] = useState(false);
  const [ruled, setRuled] = useState(0); // changes of rules by this panel
  const changes = useMemo(
    () => transcript.turns.flatMap((t) => changesOf(t, s.files)),
    [transcript, s.files],
  );
  const files = useMemo(() => byFile(changes), [changes]);
  const { context, rateLimits } = transcript;
  const plan = useMemo(() => planIn(transcript), [transcript]);
  const { done } = progressOf(plan ?? []);
  const partial = transcript.first !== undefined; // older turns are not loaded
  return (
    <aside
      aria-label="Details"
      className="flex w-72 shrink-0 flex-col gap-5 overflow-y-auto border-l bg-panel p-4 narrow:absolute narrow:inset-y-0 narrow:right-0 narrow:w-[85vw] narrow:shadow-xl"
    >
      <div className="flex items-center">
        <h2 className="font-semibold">Details</h2>
        <button type="button" className="quiet ml-auto" onClick={onClose} aria-label="Close details">
          <X size={16} aria-hidden />
        </button>
      </div>
      {plan && (
        <section aria-label="Plan">
          <h3 className="mb-1 text-sm font-semibold">Plan</h3>
          <Meter name="Done" value={done} max={plan.length} text={`${done} of ${plan.length}`} />
          <div className="text-sm">
            <PlanList entries={plan} />
          </div>
        </section>
      )}
      {(context || rateLimits.length > 0) && (
        <section aria-label="Usage">
          <h3 className="mb-2 text-sm font-semibold">Usage</h3>
          {context && (
            <Meter
              name="Context"
              scarce
              value={context.tokens}
              max={context.window}
              text={`${count(context.tokens)}${context.window ? ` of ${count(context.window)}` : ""} tokens`}
            />
          )}
          {rateLimits.map((l) => (
            <Limit key={l.kind ?? ""} limit={l} />
          ))}
        </section>
      )}
      <Totals session={s.sessionId} turns={transcript.turns} />
      <section>
        <h3 className="mb-1 flex items-baseline gap-2 text-sm font-semibold">
          Changed files <Counts n={countChanges(changes)} />
        </h3>
        {files.length === 0 && <p className="text-sm text-muted">None so far.</p>}
        <ul>
          {files.map((f) => (
            <li key={f.path}>
              <button
                type="button"
                className="quiet flex w-full justify-start font-mono text-xs"
                onClick={() => setShown(f.path)}
              >
                <span className="truncate">{plain(shortPath(f.path, workDir(s)))}</span>
                <span className="ml-auto">
                  <Counts n={countChanges(f.steps)} />
                </span>
              </button>
            </li>
          ))}
        </ul>
      </section>
      <Denials s={s} version={ruled} onChange={() => setRuled((n) => n + 1)} />
      <Rules s={s} version={ruled} onChange={() => setRuled((n) => n + 1)} />
      <section aria-label="Session">
        <h3 className="mb-2 text-sm font-semibold">Session</h3>
        <Facts>
          <Fact name="Folder">
            <span className="isolate-text font-mono text-xs">
              <Visible text={s.projectDir} />
            </span>
          </Fact>
          {s.worktree && (
            <Fact name={s.worktree.removed ? "Worktree (removed)" : "Worktree"}>
              <span className="isolate-text font-mono text-xs">
                <Visible text={`${s.worktree.branch} in ${s.worktree.root}`} />
              </span>
            </Fact>
          )}
          <Fact name="Agent">{plain(agent)}</Fact>
          {s.modelId && <Fact name="Model">{plain(s.modelId)}</Fact>}
          {s.persona && <Fact name="Profile">{plain(s.persona)}</Fact>}
          <Fact name="Permissions">{plain(modeLabel(s.permissionMode ?? "default", labels), 80)}</Fact>
          <Fact name="Created">{absolute(s.createdAt)}</Fact>
          <Fact name="Agent process">{processOf(s)}</Fact>
          <Id name="Session id" id={s.sessionId} />
          {s.agentSessionId && <Id name="Id that the agent uses" id={s.agentSessionId} />}
        </Facts>
      </section>
      <Options resolved={s.resolved} />
      <button type="button" className="button self-start" onClick={() => setEvents(true)}>
        <Braces size={14} aria-hidden /> Raw events
      </button>
      {events && <Events s={s} onClose={() => setEvents(false)} />}
      {shown !== undefined && (
        <Dialog
          title={`Changes in ${partial ? "the newest " : ""}${plural(transcript.turns.length, "turn")}`}
          onClose={() => setShown(undefined)}
          wide
        >
          <Diff changes={changes.filter((c) => c.path === shown)} dir={workDir(s)} />
        </Dialog>
      )}
    </aside>
  );
}

/** The resolved value of each option, and its sources. */
function Options({ resolved = [] }: { resolved?: ResolvedOption[] }) {
  if (resolved.length === 0) return null;
  return (
    <section aria-label="Options">
      <h3 className="mb-2 text-sm font-semibold">Options</h3>
      <dl className="flex flex-col gap-2 text-sm">
        {resolved.map((o) => (
          <div key={o.name}>
            <dt className="flex gap-2 text-xs text-muted">
              <span className="truncate">{plain(o.name, 80)}</span>
              <span className="ml-auto shrink-0">
                {o.from.map((f) => sources[f] ?? plain(f, 40)).join(", ")}
              </span>
            </dt>
            <dd className="break-words">{o.value === undefined ? "the agent's own" : plain(o.value, 300)}</dd>
          </div>
        ))}
      </dl>
    </section>
  );
}

const sources: Record<string, string> = {
  turn: "this turn",
  session: "session",
  profile: "profile",
  project: "project file",
  environment: "environment",
  global: "configuration",
  agent: "agent",
};

function Facts({ children }: { children: ReactNode }) {
  return <dl className="flex flex-col gap-2 text-sm">{children}</dl>;
}

function Fact({ name, children }: { name: string; children: ReactNode }) {
  return (
    <div>
      <dt className="text-xs text-muted">{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

function Id({ name, id }: { name: string; id: string }) {
  return (
    <Fact name={name}>
      <span className="flex items-center">
        <span className="truncate font-mono text-xs">{plain(id, 200)}</span>
        <CopyButton text={id} label={`Copy: ${name}`} />
      </span>
    </Fact>
  );
}

function processOf(s: SessionStatus): string {
  if (s.state === "dead") return "ended with the session";
  if (!s.isAlive) return "not running; the next prompt starts it";
  return s.bootedAt ? `running since ${absolute(s.bootedAt)}` : "running";
}

/** A limit of the agent's account: how much of it is used, and when it starts again. */
function Limit({ limit: l }: { limit: RateLimit }) {
  const name = l.kind ? `Limit (${plain(l.kind.replaceAll("_", " "), 40)})` : "Limit";
  const used = l.utilization === undefined ? "" : `${Math.round(l.utilization * 100)} %`;
  const status = l.status === "rejected" ? "reached" : l.status === "allowed_warning" ? "almost reached" : "";
  const resets = l.resetsAt ? `resets ${absolute(new Date(l.resetsAt * 1000).toISOString())}` : "";
  const text = [used, status].filter(Boolean).join(", ") || "within the limit";
  return (
    <>
      <Meter
        name={name}
        scarce
        value={l.utilization ?? 0}
        max={l.utilization === undefined ? undefined : 1}
        text={text}
      />
      {resets && <p className="-mt-1 mb-2 text-xs text-muted">{resets}</p>}
    </>
  );
}
