import { ChevronRight, Info, ListTodo, TriangleAlert } from "lucide-react";
import { memo, useState } from "react";
import { useNow } from "../app/hooks";
import type { Row as RowData } from "../model/rows";
import { toggle, useStore } from "../model/store";
import { absolute, ago, elapsed } from "../text/format";
import { Visible } from "../text/Shown";
import { plain } from "../text/visible";
import { ApprovalCard } from "./Approval";
import { Guard } from "./Guard";
import { Attached } from "./Picture";
import { PlanList, progressOf } from "./Plan";
import { Prose } from "./Prose";
import { Fold, Thread, Tool } from "./Tool";
import { TurnEnd } from "./TurnEnd";

/**
 * One row of the stream. An unchanged row is the same object and is not
 * rendered again.
 */
export const Row = memo(function Row({
  row,
  dir,
  session,
  marked = false,
}: {
  row: RowData;
  dir: string;
  session: string;
  marked?: boolean; // the user came from a search for this row
}) {
  return (
    <div
      data-row={row.kind}
      data-key={row.key}
      aria-current={marked ? "location" : undefined}
      className={`mx-auto w-full max-w-[52rem] px-4 ${marked ? "border-l-2 border-accent bg-tint" : ""}`}
    >
      <div
        style={row.depth > 0 ? { marginLeft: row.depth * 28 - 16, paddingLeft: 12 } : undefined}
        className={`${row.kind === "prose" ? "py-2" : "py-0.5"} ${row.depth > 0 ? "border-l" : ""}`}
      >
        <Guard>{content(row, dir, session)}</Guard>
      </div>
    </div>
  );
});

function content(row: RowData, dir: string, session: string) {
  switch (row.kind) {
    case "prompt":
      return <Prompt row={row} session={session} />;
    case "prose":
      if (row.item.message.origin === "system")
        return (
          <div className="text-sm text-muted">
            <Prose text={row.item.message.content} live={row.live} />
          </div>
        );
      return <Prose text={row.item.message.content} live={row.live} />;
    case "reasoning":
      return <Reasoning row={row} />;
    case "tool":
      return <Tool item={row.item} state={row.state} asked={row.asked} inside={row.inside} dir={dir} />;
    case "fold":
      return <Fold items={row.items} state={row.state} id={row.key} dir={dir} />;
    case "plan":
      return <Plan row={row} />;
    case "approval":
      return <ApprovalCard id={row.key} event={row.approval} over={row.over} call={row.call} dir={dir} />;
    case "notice":
      return <NoticeLine level={row.notice.level} text={row.notice.message || row.notice.code} />;
    case "break":
      return <NoticeLine level="warning" text={row.text} />;
    case "thread":
      return <Thread row={row} dir={dir} />;
    case "working":
      return <Working since={row.since} />;
    case "end":
      return <TurnEnd turn={row.of} dir={dir} session={session} />;
  }
}

type Of<K extends RowData["kind"]> = Extract<RowData, { kind: K }>;

const longPrompt = 1200; // characters; a longer prompt is collapsed

function Prompt({ row, session }: { row: Of<"prompt">; session: string }) {
  const [all, setAll] = useState(false);
  const m = row.item.message;
  const text = m.content;
  const fold = !all && (text.length > longPrompt || text.split("\n").length > 16);
  const now = useNow(60_000);
  return (
    <div className="mt-6 border-t pt-4 pb-1">
      <div className="flex items-baseline gap-4">
        <h2
          dir="auto"
          className={`isolate-text min-w-0 flex-1 text-lg font-semibold whitespace-pre-wrap ${fold ? "line-clamp-6" : ""}`}
        >
          <Visible text={fold ? text.slice(0, longPrompt) : text} />
        </h2>
        <time
          className="shrink-0 text-xs text-muted"
          dateTime={row.item.sourceTimestamp}
          title={absolute(row.item.sourceTimestamp)}
        >
          {ago(row.item.sourceTimestamp, now)}
        </time>
      </div>
      {fold && (
        <button type="button" className="quiet -ml-1.5" onClick={() => setAll(true)}>
          Show all
        </button>
      )}
      {m.attachments && m.attachments.length > 0 && (
        <ul className="mt-1 flex flex-wrap gap-2 text-sm text-muted">
          {m.attachments.map((a, i) => (
            <Attached key={`${a.name}${i}`} of={a} session={session} />
          ))}
        </ul>
      )}
    </div>
  );
}

function Reasoning({ row }: { row: Of<"reasoning"> }) {
  const open = useStore((s) => s.opened.has(row.key));
  const text = row.item.thinking.content;
  const last = row.live ? (text.trimEnd().split("\n").at(-1) ?? "") : text;
  return (
    <div>
      <button
        type="button"
        aria-expanded={open}
        onClick={() => toggle(row.key)}
        className="group flex min-h-7 w-full items-center gap-2 rounded-md px-1 text-left text-muted hover:bg-panel"
      >
        <ChevronRight size={15} aria-hidden className={`shrink-0 ${open ? "rotate-90" : ""}`} />
        <span className="shrink-0">{row.live ? "Thinking" : "Thought"}</span>
        {!open && (
          <span className={`min-w-0 truncate text-sm italic ${row.live ? "growing-line" : ""}`}>
            {plain(last, 200)}
          </span>
        )}
      </button>
      {open && (
        <div className="ml-3 border-l pl-4 text-muted">
          <Prose text={text} live={row.live} />
        </div>
      )}
    </div>
  );
}

function Plan({ row }: { row: Of<"plan"> }) {
  const open = useStore((s) => s.opened.has(row.key));
  const { entries } = row.item.plan;
  const { done, all } = progressOf(entries);
  const count = `${done} of ${all}`;
  // Only the newest plan of a turn is expanded; the older ones show its
  // history.
  if (row.old)
    return (
      <div>
        <button
          type="button"
          aria-expanded={open}
          onClick={() => toggle(row.key)}
          className="flex min-h-7 items-center gap-2 rounded-md px-1 text-muted hover:bg-panel"
        >
          <ListTodo size={15} aria-hidden /> Plan <span className="text-sm">{count}</span>
        </button>
        {open && <PlanList entries={entries} />}
      </div>
    );
  return (
    <div className="my-1 rounded-md border px-3 py-2">
      <h3 className="mb-1 flex text-sm text-muted">
        Plan
        <span className="ml-auto">{count}</span>
      </h3>
      <PlanList entries={entries} />
    </div>
  );
}

function NoticeLine({ level, text }: { level: "info" | "warning" | "error"; text: string }) {
  const Icon = level === "info" ? Info : TriangleAlert;
  return (
    <p
      className={`flex gap-2 px-1 py-0.5 text-sm ${level === "error" ? "text-del" : level === "warning" ? "text-mark" : "text-muted"}`}
    >
      <Icon size={14} aria-label={level} className="mt-0.5 shrink-0" />
      <span className="isolate-text">
        <Visible text={text} />
      </span>
    </p>
  );
}

function Working({ since }: { since?: string }) {
  const now = useNow(1000);
  const d = since ? Math.max(0, now - Date.parse(since)) : 0;
  return (
    <p className="growing-line px-1 py-2 text-sm text-muted">Working{d >= 2000 && ` · ${elapsed(d)}`} </p>
  );
}
