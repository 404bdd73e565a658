import {
  ArrowRightLeft,
  Ban,
  Bot,
  Brain,
  Check,
  ChevronRight,
  CircleSlash,
  FilePen,
  FileSymlink,
  FileText,
  FolderInput,
  Globe,
  type LucideIcon,
  Search,
  SquareTerminal,
  Trash2,
  Wrench,
  X,
} from "lucide-react";
import { memo, type ReactNode, useContext } from "react";
import { useNow, useWide } from "../app/hooks";
import { countChanges } from "../model/diff";
import { placeOfCall } from "../model/place";
import {
  describe,
  describeFold,
  type Inside,
  type Row as RowData,
  type ToolItem,
  type ToolState,
} from "../model/rows";
import { toggle, useStore } from "../model/store";
import { openFile } from "../model/viewer";
import { FileLink, InProject } from "../text/FileLink";
import { between, duration, elapsed, plural } from "../text/format";
import { plain } from "../text/visible";
import type { Approval, ApprovalEvent } from "../wire/types";
import { outcome, Remarks, waited } from "./Approval";
import { Arguments } from "./Arguments";
import { Counts, Diff } from "./Diff";
import { Intended } from "./Intended";
import { Terminal } from "./Terminal";

const icons: Record<string, LucideIcon> = {
  read: FileText,
  edit: FilePen,
  delete: Trash2,
  move: FolderInput,
  search: Search,
  execute: SquareTerminal,
  think: Brain,
  fetch: Globe,
  switch_mode: ArrowRightLeft,
  delegate: Bot,
};

/**
 * A tool call and its approvals, as one line that expands in place. The newest
 * approval is the one that counts.
 */
export const Tool = memo(function Tool({
  item,
  state,
  asked = none,
  inside,
  dir,
}: {
  item: ToolItem;
  state: ToolState;
  asked?: readonly ApprovalEvent[];
  inside?: Inside;
  dir: string;
}) {
  const open = useStore((s) => s.opened.has(item.itemId));
  const t = item.tool_call;
  const what = describe(t, dir);
  const Icon = icons[t.kind ?? ""] ?? Wrench;
  const text = t.toolArguments === undefined && t.toolArgumentsText ? "" : plain(what.object);
  const last = asked.at(-1);
  const decided = last && state !== "asks" ? outcome(last, state === "stopped") : "";
  const wide = useWide();
  return (
    <div
      className={state === "running" ? "progress" : undefined}
      data-approval={asked.length > 0 ? last?.approval.id : undefined}
    >
      <Line
        open={open}
        onToggle={() => toggle(item.itemId)}
        icon={Icon}
        state={state}
        aside={wide && state === "done" && <OpenFile call={t} dir={dir} />}
      >
        <span className="shrink-0 font-medium">{plain(what.verb)}</span>
        <span className={`min-w-0 truncate text-muted ${what.code ? "font-mono text-sm" : ""}`}>{text}</span>
        {t.changes && <Counts n={countChanges(t.changes)} />}
        {inside && <InsideSummary inside={inside} dir={dir} running={state === "running"} />}
        {decided && wide && <span className="shrink-0 text-sm text-muted">· {decided}</span>}
        <Result item={item} state={state} asked={asked} />
      </Line>
      {decided && !wide && <p className="-mt-1 ml-7 text-sm text-muted">{decided}</p>}
      {asked.map((e) => (
        <div key={e.approval.id} className="ml-7 empty:hidden">
          <Remarks event={e} />
        </div>
      ))}
      {open && (
        <Opened item={item} state={state} waiting={state === "asks" ? last?.approval : undefined} dir={dir} />
      )}
    </div>
  );
});

const none: readonly ApprovalEvent[] = [];

function Line({
  open,
  onToggle,
  icon: Icon,
  state,
  aside,
  children,
}: {
  open: boolean;
  onToggle: () => void;
  icon: LucideIcon;
  state: ToolState;
  aside?: ReactNode; // a button beside the row
  children: ReactNode;
}) {
  const row = (
    <button
      type="button"
      aria-expanded={open}
      onClick={onToggle}
      className={`group flex min-h-7 w-full items-center gap-2 rounded-md px-1 py-0.5 text-left hover:bg-panel [@media(pointer:coarse)]:min-h-11 ${state === "stopped" || state === "denied" ? "text-muted" : ""}`}
    >
      <Icon size={15} aria-hidden className={`shrink-0 ${state === "failed" ? "text-del" : "text-muted"}`} />
      {children}
      <ChevronRight
        size={14}
        aria-hidden
        className={`shrink-0 text-muted ${open ? "rotate-90" : "opacity-0 group-hover:opacity-100 group-focus-visible:opacity-100 [@media(pointer:coarse)]:opacity-100"}`}
      />
    </button>
  );
  if (!aside) return row;
  return (
    <div className="group/aside relative">
      {row}
      {aside}
    </div>
  );
}

/** Opens the file that a call reads or changes, without expanding its row. */
function OpenFile({ call, dir }: { call: ToolItem["tool_call"]; dir: string }) {
  const project = useContext(InProject);
  const place = project && placeOfCall(call, dir);
  if (!place) return null;
  const name = `Open ${plain(place.path)}`;
  return (
    <button
      type="button"
      className="quiet absolute top-0 right-6 min-w-7 bg-panel opacity-0 group-hover/aside:opacity-100 focus-visible:opacity-100 pointer-coarse:hidden"
      aria-label={name}
      title={name}
      onClick={() => openFile({ session: project.session, ...place })}
    >
      <FileSymlink size={14} aria-hidden />
    </button>
  );
}

function InsideSummary({ inside, dir, running }: { inside: Inside; dir: string; running: boolean }) {
  const last = inside.last && describe(inside.last.tool_call, dir);
  return (
    <span className={`text-sm text-muted ${running ? "min-w-0 truncate" : "shrink-0"}`}>
      {plural(inside.steps, "step")}
      {running && last && ` · ${plain(`${last.verb} ${last.object}`, 80)}`}
    </span>
  );
}

function Result({
  item,
  state,
  asked,
}: {
  item: ToolItem;
  state: ToolState;
  asked: readonly ApprovalEvent[];
}) {
  const t = item.tool_call;
  const people = waited(asked);
  const whole = between(item.startedAt, item.sourceTimestamp);
  const took = whole === undefined ? undefined : Math.max(0, whole - people);
  return (
    <span className="ml-auto flex shrink-0 items-center gap-1.5 pl-2 text-xs text-muted">
      {state === "running" && <Running since={item.startedAt} />}
      {state !== "running" && state !== "asks" && took !== undefined && took >= 500 && (
        <span>{duration(took)}</span>
      )}
      {state !== "running" && state !== "asks" && people >= 1000 && (
        <span className="narrow:hidden">waited {duration(people)}</span>
      )}
      {state === "failed" && (
        <span className="flex items-center gap-1 text-del">
          {t.exitCode ? `exit ${t.exitCode}` : "failed"}
          <X size={13} aria-hidden />
        </span>
      )}
      {state === "denied" && (
        <span className="flex items-center gap-1">
          {asked.length === 0 && "denied"}
          <Ban size={12} aria-hidden />
        </span>
      )}
      {state === "asks" && <span className="text-accent">waiting for you</span>}
      {state === "stopped" && (
        <span className="flex items-center gap-1">
          stopped
          <CircleSlash size={12} aria-hidden />
        </span>
      )}
      {state === "done" && t.kind === "execute" && (
        <span className="text-add">
          <Check size={13} aria-label="succeeded" />
        </span>
      )}
    </span>
  );
}

function Running({ since }: { since?: string }) {
  const now = useNow(1000);
  const d = since ? now - Date.parse(since) : Number.NaN;
  return <span>{d >= 1000 ? elapsed(d) : "running"}</span>;
}

function Opened({
  item,
  state,
  waiting,
  dir,
}: {
  item: ToolItem;
  state: ToolState;
  waiting?: Approval;
  dir: string;
}) {
  const t = item.tool_call;
  const edits = t.changes && t.changes.length > 0;
  // The output of an edit or a read repeats its diff or its file.
  const quiet = edits && state === "done";
  const runs = t.kind === "execute";
  return (
    <div className="mt-1 mb-2 ml-3 flex flex-col gap-3 border-l pl-4">
      {edits && waiting && (
        <Intended
          session={item.sessionId}
          approval={waiting.id}
          changes={waiting.changes?.length ? waiting.changes : (t.changes ?? [])}
          dir={dir}
        />
      )}
      {edits && !waiting && <Diff changes={t.changes ?? []} dir={dir} done={state === "done"} />}
      {!edits && <Place call={t} dir={dir} />}
      {!edits && t.toolArguments !== undefined && (
        <Part title="Arguments">
          <Arguments value={t.toolArguments} />
        </Part>
      )}
      {t.toolArguments === undefined && t.toolArgumentsText && (
        <Part title="Arguments so far">
          <Arguments value={t.toolArgumentsText} />
        </Part>
      )}
      {!quiet && (t.toolOutput !== undefined || (runs && state === "running")) && (
        <Part title="Output">
          <Terminal
            output={t.toolOutput ?? ""}
            screen={runs}
            truncated={t.truncated}
            totalBytes={t.totalBytes}
            exitCode={t.exitCode}
            running={state === "running"}
          />
        </Part>
      )}
      {item.errorMessage && (
        <p className={`text-sm ${state === "denied" ? "text-muted" : "text-del"}`}>
          {plain(item.errorMessage, 1000)}
        </p>
      )}
    </div>
  );
}

/** A link to the file that a call reads. */
function Place({ call, dir }: { call: ToolItem["tool_call"]; dir: string }) {
  const project = useContext(InProject);
  const place = project && placeOfCall(call, dir);
  if (!place) return null;
  return (
    <p className="font-mono text-sm">
      <FileLink session={project.session} place={place}>
        {plain(place.line ? `${place.path}:${place.line}` : place.path, 400)}
      </FileLink>
    </p>
  );
}

function Part({ title, children }: { title: string; children: ReactNode }) {
  return (
    <div>
      <h3 className="mb-1 text-xs text-muted">{title}</h3>
      {children}
    </div>
  );
}

/**
 * A subagent that an earlier turn started. Its texts are not the main agent's.
 */
export const Thread = memo(function Thread({
  row,
  dir,
}: {
  row: Extract<RowData, { kind: "thread" }>;
  dir: string;
}) {
  return (
    <div className={row.running ? "progress" : undefined}>
      <Line
        open={row.open}
        onToggle={() => toggle(row.key)}
        icon={Bot}
        state={row.running ? "running" : "done"}
      >
        <span className="shrink-0 font-medium">Subagent</span>
        <span className="min-w-0 truncate text-muted">{plain(row.title, 200)}</span>
        {row.inside.steps > 0 && <InsideSummary inside={row.inside} dir={dir} running={row.running} />}
        <span className="ml-auto" />
      </Line>
    </div>
  );
});

/** Neighbouring reads and searches in one line. */
export const Fold = memo(function Fold({
  items,
  state,
  id,
  dir,
}: {
  items: ToolItem[];
  state: ToolState;
  id: string;
  dir: string;
}) {
  const open = useStore((s) => s.opened.has(id));
  const last = items.at(-1);
  return (
    <div className={state === "running" ? "progress" : undefined}>
      <Line
        open={open}
        onToggle={() => toggle(id)}
        icon={items.every((i) => i.tool_call.kind === "search") ? Search : FileText}
        state={state}
      >
        <span className="shrink-0 font-medium">{describeFold(items)}</span>
        {state === "running" && last && (
          <span className="min-w-0 truncate font-mono text-sm text-muted">
            {plain(describe(last.tool_call, dir).object)}
          </span>
        )}
        <span className="ml-auto" />
      </Line>
      {open && (
        <div className="ml-3 border-l pl-3">
          {items.map((it) => (
            <Tool
              key={it.itemId}
              item={it}
              state={state === "done" ? "done" : it.status === "complete" ? "done" : state}
              dir={dir}
            />
          ))}
        </div>
      )}
    </div>
  );
});
