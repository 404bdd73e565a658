import type { ReactNode } from "react";
import { Arguments } from "../stream/Arguments";
import { Diff } from "../stream/Diff";
import { Prose } from "../stream/Prose";
import { Visible } from "../text/Shown";
import type { Approval } from "../wire/types";

/** What is asked, in exact words: the tool's arguments and changes, never a summary of them. */
export function Asked({ approval: a, dir }: { approval: Approval; dir: string }) {
  const readable = inWords(a, dir);
  return (
    <div className="flex flex-col gap-3">
      {readable}
      {readable && a.arguments !== undefined ? (
        <details>
          <summary className="quiet -ml-1.5">Exact arguments</summary>
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

// A form that reads better than arguments and says no less: changes as a diff, a
// plan as the text it is, questions with their answers.
function inWords(a: Approval, dir: string): ReactNode {
  if (a.changes && a.changes.length > 0) return <Diff changes={a.changes} dir={dir} />;
  const args = record(a.arguments);
  if (a.kind === "plan" && typeof args.plan === "string") return <Prose text={args.plan} live={false} />;
  if (a.kind === "question" && Array.isArray(args.questions))
    return args.questions.map((q, i) => <Question key={i} q={record(q)} />);
  if (a.kind === "tool") return null;
  return (
    <p className="isolate-text whitespace-pre-wrap">
      <Visible text={a.title} />
    </p>
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
