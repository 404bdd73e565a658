import type { ReactNode } from "react";
import { formOf } from "../model/form";
import { planOf, reached } from "../model/rows";
import { Arguments } from "../stream/Arguments";
import { Diff } from "../stream/Diff";
import { Intended } from "../stream/Intended";
import { Prose } from "../stream/Prose";
import { Visible } from "../text/Shown";
import type { Approval, ToolCall } from "../wire/types";
import { Page } from "./Page";

/**
 * The details of an approval: the exact arguments and changes of the call,
 * never a summary.
 */
export function Asked({
  approval: a,
  call,
  dir,
  session,
}: {
  approval: Approval;
  call?: ToolCall;
  dir: string;
  session?: string; // given while the approval waits
}) {
  const readable = inWords(a, call, dir, session);
  return (
    <div className="flex flex-col gap-3">
      {readable}
      {readable && a.arguments !== undefined ? (
        <details>
          <summary className="quiet -ml-1.5">Show raw</summary>
          <div className="pt-1">
            <Arguments value={a.arguments} />
          </div>
        </details>
      ) : (
        <Arguments value={a.arguments} />
      )}
    </div>
  );
}

// Shows changes as a diff, a plan as text, and questions with their answers.
// These are easier to read than JSON arguments and equally complete.
function inWords(a: Approval, call: ToolCall | undefined, dir: string, session?: string): ReactNode {
  if (a.changes && a.changes.length > 0)
    return session ? (
      <Intended session={session} approval={a.id} changes={a.changes} dir={dir} />
    ) : (
      <Diff changes={a.changes} dir={dir} />
    );
  const args = record(a.arguments);
  if (a.kind === "plan") return <Plan text={planOf(a, call)} />;
  if (a.kind === "question" && Array.isArray(args.questions))
    return args.questions.map((q, i) => <Question key={i} q={record(q)} />);
  if (a.kind === "form") return <AskedForm args={a.arguments} />;
  if (reached(a)) return <Reached />;
  if (a.kind === "tool") return null;
  return (
    <p className="isolate-text whitespace-pre-wrap">
      <Visible text={a.title} />
    </p>
  );
}

function Reached() {
  return (
    <p className="text-sm text-muted">
      A program in the sandbox wants to connect to this host, which is not in the session’s egress list. What
      it would send is not known: it can send anything that it can read.
    </p>
  );
}

function Plan({ text }: { text: string | undefined }) {
  if (text !== undefined) return <Prose text={text} live={false} />;
  return <p className="text-mark">The plan is empty. Keep planning and ask the agent for it.</p>;
}

// Shows a form read-only; another component shows the fields to fill in.
function AskedForm({ args }: { args: unknown }) {
  const form = formOf(args);
  if (form.kind === "page") return <Page message={form.message} url={form.url} link={false} />;
  return (
    <div>
      <p className="isolate-text whitespace-pre-wrap">
        <Visible text={form.message} />
      </p>
      <ul className="mt-1 list-disc pl-5">
        {form.fields.map((f) => (
          <li key={f.key} className="isolate-text">
            <Visible text={f.name} />
            {f.options.length > 0 && (
              <span className="text-muted">
                {": "}
                <Visible text={f.options.map((o) => o.name).join(", ")} />
              </span>
            )}
          </li>
        ))}
      </ul>
    </div>
  );
}

function Question({ q }: { q: Record<string, unknown> }) {
  const options = Array.isArray(q.options) ? q.options.map(record) : [];
  return (
    <div>
      <p className="isolate-text font-medium">
        <Visible text={text(q.question)} />
      </p>
      <ul className="mt-1 flex flex-col gap-1">
        {options.map((o, i) => (
          <li key={i} className="isolate-text">
            <Visible text={text(o.label)} />
            {text(o.description) && (
              <span className="text-muted">
                {": "}
                <Visible text={text(o.description)} />
              </span>
            )}
          </li>
        ))}
      </ul>
    </div>
  );
}

const record = (v: unknown): Record<string, unknown> =>
  typeof v === "object" && v !== null && !Array.isArray(v) ? (v as Record<string, unknown>) : {};
const text = (v: unknown): string => (typeof v === "string" ? v : "");
