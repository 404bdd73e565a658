import { X } from "lucide-react";
import { type ReactNode, useMemo, useState } from "react";
import { byFile, countChanges } from "../model/diff";
import { useAgentName, useStore } from "../model/store";
import type { Transcript } from "../model/transcript";
import { Counts, Diff } from "../stream/Diff";
import { changesOf } from "../stream/TurnEnd";
import { absolute, cost, count, plural, shortPath } from "../text/format";
import { Visible } from "../text/Shown";
import { plain } from "../text/visible";
import { modeLabel } from "../text/words";
import type { ResolvedOption, SessionStatus } from "../wire/types";
import { CopyButton } from "./Copy";
import { Dialog } from "./Dialog";
import { Rules } from "./Rules";
import { Totals } from "./Totals";

/**
 * The panel with facts about a session, its usage and all files that it
 * changed.
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
  const changes = useMemo(
    () => transcript.turns.flatMap((t) => changesOf(t, s.files)),
    [transcript, s.files],
  );
  const files = useMemo(() => byFile(changes), [changes]);
  const spent = transcript.turns.reduce((n, t) => n + (t.costUsd ?? 0), 0);
  const { context, rateLimit } = transcript;
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
      <Facts>
        <Fact name="Folder">
          <span className="isolate-text font-mono text-xs">
            <Visible text={s.projectDir} />
          </span>
        </Fact>
        <Fact name="Agent">{plain(agent)}</Fact>
        {s.modelId && <Fact name="Model">{plain(s.modelId)}</Fact>}
        {s.persona && <Fact name="Profile">{plain(s.persona)}</Fact>}
        <Fact name="Permissions">{plain(modeLabel(s.permissionMode ?? "default", labels), 80)}</Fact>
        <Fact name="Created">{absolute(s.createdAt)}</Fact>
        <Fact name="Session">
          <span className="flex items-center">
            <span className="truncate font-mono text-xs">{s.sessionId}</span>
            <CopyButton text={s.sessionId} label="Copy session id" />
          </span>
        </Fact>
      </Facts>
      <Options resolved={s.resolved} />
      {(context || spent > 0 || rateLimit?.utilization !== undefined) && (
        <section>
          <h3 className="mb-2 text-sm font-semibold">Usage</h3>
          {context && (
            <Meter
              name="Context"
              value={context.tokens}
              max={context.window}
              text={`${count(context.tokens)}${context.window ? ` of ${count(context.window)}` : ""} tokens`}
            />
          )}
          {rateLimit?.utilization !== undefined && (
            <Meter
              name={`Limit${rateLimit.kind ? ` (${plain(rateLimit.kind.replaceAll("_", " "))})` : ""}`}
              value={rateLimit.utilization}
              max={1}
              text={`${Math.round(rateLimit.utilization * 100)} %`}
            />
          )}
          {spent > 0 && (
            <p className="text-sm">
              Cost {cost(spent)}
              {partial && " (newest turns)"}
            </p>
          )}
        </section>
      )}
      <Totals session={s.sessionId} ended={transcript.turns.filter((t) => t.ended).length} />
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
                <span className="truncate">{plain(shortPath(f.path, s.projectDir))}</span>
                <span className="ml-auto">
                  <Counts n={countChanges(f.steps)} />
                </span>
              </button>
            </li>
          ))}
        </ul>
      </section>
      <Rules s={s} />
      {shown !== undefined && (
        <Dialog
          title={`Changes in ${partial ? "the newest " : ""}${plural(transcript.turns.length, "turn")}`}
          onClose={() => setShown(undefined)}
          wide
        >
          <Diff changes={changes.filter((c) => c.path === shown)} dir={s.projectDir} />
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

function Meter({ name, value, max, text }: { name: string; value: number; max?: number; text: string }) {
  return (
    <div className="mb-2 text-sm">
      <p className="flex">
        {name}
        <span className="ml-auto text-muted">{text}</span>
      </p>
      {max !== undefined && max > 0 && (
        // biome-ignore lint/a11y/useSemanticElements: <meter> is drawn in colours of the browser
        <div
          className="mt-1 h-1 overflow-hidden rounded-full bg-line"
          role="meter"
          aria-label={name}
          aria-valuenow={value}
          aria-valuemin={0}
          aria-valuemax={max}
          aria-valuetext={text}
        >
          <div className="h-full bg-accent" style={{ width: `${Math.min(100, (value / max) * 100)}%` }} />
        </div>
      )}
    </div>
  );
}
