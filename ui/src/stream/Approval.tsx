import { memo } from "react";
import { Asked } from "../composer/Asked";
import { toggle, useStore } from "../model/store";
import { absolute } from "../text/format";
import { plain } from "../text/visible";
import { resolverLabel } from "../text/words";
import type { ApprovalEvent, ToolCall } from "../wire/types";

/**
 * An approval at its place in the stream. While it waits, the bar below the
 * stream takes the answer.
 */
export const ApprovalCard = memo(function ApprovalCard({
  id,
  event,
  over,
  call,
  dir,
}: {
  id: string;
  event: ApprovalEvent;
  over: boolean;
  call?: ToolCall;
  dir: string;
}) {
  const open = useStore((s) => s.opened.has(id));
  const a = event.approval;
  const waiting = event.status === "pending" && !over;
  return (
    <div className={`my-1 border-l-2 pl-3 ${waiting ? "border-accent" : ""}`} data-approval={a.id}>
      <button
        type="button"
        aria-expanded={open}
        onClick={() => toggle(id)}
        className="quiet -ml-1.5 text-left"
      >
        <span className={waiting ? "font-medium text-accent" : ""}>{outcome(event, over)}</span>
        <time dateTime={event.timestamp} title={absolute(event.timestamp)} className="sr-only">
          {absolute(event.timestamp)}
        </time>
      </button>
      {event.reason && <p className="text-sm text-muted">Reason: {plain(event.reason, 2000)}</p>}
      {event.rule !== undefined && event.by === "user" && (
        <p className="text-sm text-muted">Stored as rule {event.rule}.</p>
      )}
      {open && (
        <div className="pt-1 pb-2">
          <Asked approval={a} call={call} dir={dir} />
        </div>
      )}
    </div>
  );
});

function outcome(e: ApprovalEvent, over: boolean): string {
  const tool = plain(e.approval.toolName ?? e.approval.title, 80);
  if (e.status === "pending")
    return over ? `${tool}: not answered before the turn ended` : `${tool}: waiting for your answer`;
  if (e.choice === "withdrawn" || !e.choice)
    return `${tool}: withdrawn${e.by === "policy" ? "" : " by the agent"}`;
  const who = resolverLabel(e.by, e.rule);
  const c = e.approval.choices.find((x) => x.id === e.choice);
  if (!c && !e.choice.startsWith("deny")) return `${tool}: answered ${who}`;
  const asks = e.approval.kind === "question" || e.approval.kind === "form";
  if (asks) {
    if (c && !c.kind.startsWith("deny")) return `${tool}: answered ${who}`;
    return `${tool}: not answered${e.by === "policy" ? "" : ` ${who}`}`;
  }
  const word =
    !c || c.kind === "deny" || c.kind === "deny_stop"
      ? "denied"
      : c?.kind === "allow_always"
        ? "always allowed"
        : c?.kind === "allow_session"
          ? "allowed in this session"
          : e.by === "user" && e.rule === undefined
            ? "allowed once"
            : "allowed";
  return `${tool}: ${word} ${who}`;
}
