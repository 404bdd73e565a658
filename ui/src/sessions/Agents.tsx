import { ChevronRight } from "lucide-react";
import { useId } from "react";
import { Command } from "../app/Copy";
import { help, readiness, scripted } from "../model/agents";
import { plural } from "../text/format";
import { plain } from "../text/visible";
import type { Agent } from "../wire/types";

/**
 * The list of agents to choose from: usable agents first, missing ones
 * collapsed.
 */
export function Agents({
  list,
  chosen,
  onChoose,
}: {
  list: Agent[];
  chosen?: Agent;
  onChoose?: (a: Agent) => void; // absent if the list only shows how to get them
}) {
  const name = useId();
  const fold = list.filter((a) => readiness(a) === "missing");
  const row = (a: Agent) => (
    <AgentRow
      key={a.cliType}
      a={a}
      checked={a === chosen}
      onChoose={onChoose && (() => onChoose(a))}
      name={name}
    />
  );
  if (list.length === 0) return null;
  const rows = (
    <>
      <div className="divide-y">{list.filter((a) => !fold.includes(a)).map(row)}</div>
      {fold.length > 0 && (
        <details
          className={fold.length < list.length ? "border-t" : ""}
          open={chosen && fold.includes(chosen) ? true : undefined}
        >
          <summary className="quiet m-1 justify-start">
            <ChevronRight size={14} aria-hidden className="turns" />
            {fold.length < list.length
              ? `${fold.length} more that are not installed`
              : `${plural(fold.length, "agent")} to install`}
          </summary>
          <div className="divide-y border-t">{fold.map(row)}</div>
        </details>
      )}
    </>
  );
  if (!onChoose) return <div className="rounded-md border">{rows}</div>;
  return (
    <div role="radiogroup" aria-label="Agent" className="rounded-md border">
      {rows}
    </div>
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
  onChoose?: () => void;
  name: string;
}) {
  const state = readiness(a);
  // Help for a ready agent is shown only when it is selected.
  const helps = checked || state !== "ready" ? help(a) : [];
  const word = {
    ready: a.version ? plain(a.version, 40) : "ready",
    broken: "has a problem",
    silent: "not responding",
    checking: "checking…",
    missing: "not installed",
    locked: "not logged in",
  }[state];
  const title = (
    <>
      <span className="min-w-0 font-medium">{plain(a.displayName, 60)}</span>
      <span
        className={`ml-auto text-sm ${["locked", "broken", "silent"].includes(state) ? "text-mark" : "text-muted"}`}
        title={a.path && plain(a.path)}
      >
        {(state === "locked" || state === "broken") && a.version && `${plain(a.version, 40)} · `}
        {word}
      </span>
    </>
  );
  const indent = onChoose ? "pl-6" : "";
  return (
    <div className={`px-3 py-2 ${checked ? "bg-tint" : ""}`} data-agent={a.cliType} data-state={state}>
      {onChoose ? (
        <label className="flex min-h-7 cursor-pointer flex-wrap items-center gap-x-3 [@media(pointer:coarse)]:min-h-11">
          <input
            type="radio"
            name={name}
            checked={checked}
            onChange={onChoose}
            data-focus={checked || undefined}
            className="accent-accent"
          />
          {title}
        </label>
      ) : (
        <div className="flex min-h-7 flex-wrap items-center gap-x-3">{title}</div>
      )}
      {scripted(a.cliType) && (
        <p className={`${indent} text-sm text-muted`}>
          Plays scripted turns without a model, so you can try Runnel.
        </p>
      )}
      {a.problem && !helps.some((h) => a.problem?.includes(h.command)) && (
        <p className={`isolate-text mt-1 ${indent} text-sm text-muted`}>{plain(a.problem, 500)}</p>
      )}
      {helps.map((h) => (
        <div key={h.text} className={`mt-1 flex flex-wrap items-center gap-x-2 gap-y-1 ${indent} text-sm`}>
          <span className="text-muted">{h.text}</span>
          <Command text={h.command} />
        </div>
      ))}
    </div>
  );
}
