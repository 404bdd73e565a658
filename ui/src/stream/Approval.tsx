import { memo } from "react";
import { Asked } from "../composer/Asked";
import { reached } from "../model/rows";
import { toggle, useStore } from "../model/store";
import { absolute, between } from "../text/format";
import { Visible } from "../text/Shown";
import { plain } from "../text/visible";
import { resolverLabel } from "../text/words";
import type { Approval, ApprovalEvent, Choice, ToolCall } from "../wire/types";

/**
 * An approval that no row of a tool call shows: a question, a plan, or a request
 * whose call is unknown. While it waits, the bar below the stream takes the
 * answer. What was asked stays visible for a question and a plan.
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
  const opened = useStore((s) => s.opened.has(id));
  const a = event.approval;
  const waiting = event.status === "pending" && !over;
  const open = a.kind === "tool" ? opened : !opened && !waiting;
  return (
    <div className={`my-1 border-l-2 pl-3 ${waiting ? "border-accent" : ""}`} data-approval={a.id}>
      <button
        type="button"
        aria-expanded={open}
        onClick={() => toggle(id)}
        className="quiet -ml-1.5 text-left"
      >
        <span className={waiting ? "font-medium text-accent" : ""}>
          {subject(a)}: {outcome(event, over)}
        </span>
        <time dateTime={event.timestamp} title={absolute(event.timestamp)} className="sr-only">
          {absolute(event.timestamp)}
        </time>
      </button>
      <Remarks event={event} />
      {open && (
        <div className="pt-1 pb-2">
          <Asked approval={a} call={call} dir={dir} />
          {a.kind !== "tool" && a.kind !== "plan" && <Answer output={call?.toolOutput} />}
        </div>
      )}
    </div>
  );
});

/** The reason for an answer, and the rule that was stored with it. */
export function Remarks({ event }: { event: ApprovalEvent }) {
  return (
    <>
      {event.reason && <p className="text-sm text-muted">Reason: {plain(event.reason, 2000)}</p>}
      {event.rule !== undefined && event.by === "user" && (
        <p className="text-sm text-muted">Stored as rule {event.rule}.</p>
      )}
    </>
  );
}

// What the agent received as the answer to its questions.
function Answer({ output }: { output?: string }) {
  if (!output) return null;
  return (
    <p data-answer className="isolate-text mt-2 text-sm whitespace-pre-wrap">
      <span className="text-muted">Answer: </span>
      <Visible text={output.slice(0, 2000).trimEnd()} />
    </p>
  );
}

function subject(a: Approval): string {
  if (a.kind === "plan") return "Plan";
  if (a.kind === "question" || a.kind === "form") return "Question";
  const reach = reached(a);
  if (reach) return `Reach ${plain(reach, 300)}`;
  return plain(a.toolName ?? a.title, 80);
}

/** The state of an approval and who decided it, such as "allowed once by you". */
export function outcome(e: ApprovalEvent, over: boolean): string {
  if (e.status === "pending") return over ? "not answered before the turn ended" : "waiting for your answer";
  if (e.choice === "withdrawn" || !e.choice) return `withdrawn${e.by === "policy" ? "" : " by the agent"}`;
  const who = resolverLabel(e.by, e.rule);
  const c = e.approval.choices.find((x) => x.id === e.choice);
  const denied = c ? c.kind.startsWith("deny") : e.choice.startsWith("deny");
  switch (e.approval.kind) {
    case "question":
    case "form":
      if (denied) return `not answered${e.by === "policy" ? "" : ` ${who}`}`;
      return c && e.approval.kind === "question"
        ? `${plain(c.label, 200)}, answered ${who}`
        : `answered ${who}`;
    case "plan":
      return denied ? `not accepted ${who}` : `accepted ${who}`;
  }
  if (!c && !denied) return `answered ${who}`;
  return `${verdict(c, denied, e)} ${who}`;
}

function verdict(c: Choice | undefined, denied: boolean, e: ApprovalEvent): string {
  if (!c || denied) return "denied";
  if (c.kind === "allow_always") return "always allowed";
  if (c.kind === "allow_session") return "allowed in this session";
  return e.by === "user" && e.rule === undefined ? "allowed once" : "allowed";
}

/** How long a call waited for people, in milliseconds. */
export function waited(asked: readonly ApprovalEvent[]): number {
  return asked.reduce((ms, e) => ms + (e.by === "user" ? (between(e.askedAt, e.timestamp) ?? 0) : 0), 0);
}
