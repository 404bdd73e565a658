// Converts a transcript to the rows of the stream. The rows of an unchanged
// turn are the same objects as before, so React does not render them again.

import { shortPath } from "../text/format";
import type { Approval, ApprovalEvent, Notice, ToolCall } from "../wire/types";
import { type Break, type Item, isOpen, type Transcript, type Turn } from "./transcript";

export type ToolItem = Extract<Item, { type: "tool_call" }>;
type MessageItem = Extract<Item, { type: "message" }>;

export type Row = { key: string; depth: number; turn: string } & (
  | { kind: "prompt"; item: MessageItem }
  | { kind: "prose"; item: MessageItem; live: boolean }
  | { kind: "reasoning"; item: Extract<Item, { type: "thinking" }>; live: boolean }
  | { kind: "tool"; item: ToolItem; state: ToolState; asked: readonly ApprovalEvent[]; inside?: Inside }
  | { kind: "fold"; items: ToolItem[]; state: ToolState }
  | { kind: "plan"; item: Extract<Item, { type: "plan" }>; old: boolean }
  | { kind: "approval"; approval: ApprovalEvent; over: boolean; call?: ToolCall }
  | { kind: "notice"; notice: Notice }
  | { kind: "thread"; title: string; inside: Inside; open: boolean; running: boolean }
  | { kind: "working"; since?: string }
  | { kind: "end"; of: Turn }
  | { kind: "break"; text: string }
);

export type ToolState = "running" | "asks" | "done" | "failed" | "denied" | "stopped";

/** What a subagent did, for the call that started it. */
export interface Inside {
  steps: number;
  last?: ToolItem;
}

export function stateOf(item: ToolItem, turn: Turn): ToolState {
  const t = item.tool_call;
  if (isOpen(item)) {
    if (turn.ended) return wasDenied(item, turn) ? "denied" : "stopped";
    return turn.approvals.some((a) => a.status === "pending" && isAbout(a, item)) ? "asks" : "running";
  }
  if ((t.exitCode ?? 0) !== 0) return "failed"; // it ran, whatever was denied
  if (item.status !== "error" && !t.toolOutputIsError) return "done";
  return wasDenied(item, turn) ? "denied" : "failed";
}

// wasDenied reports whether the last answer to the approvals of a call denied
// it.
function wasDenied(item: ToolItem, turn: Turn): boolean {
  const last = turn.approvals.findLast((a) => a.status === "resolved" && isAbout(a, item));
  return last !== undefined && denies(last);
}

/**
 * Whether the answer to an approval denies it. The choices may be unknown, but
 * the ids of the server's own denials begin with deny.
 */
function denies(a: ApprovalEvent): boolean {
  const chosen = a.approval.choices.find((c) => c.id === a.choice);
  return chosen ? chosen.kind.startsWith("deny") : (a.choice?.startsWith("deny") ?? false);
}

const isAbout = (a: ApprovalEvent, item: ToolItem): boolean =>
  a.approval.itemId === item.itemId ||
  (!!item.tool_call.callId && a.approval.callId === item.tool_call.callId);

/**
 * The plan that an approval is about. Some agents request the approval without
 * arguments; the plan is then in the arguments of the tool call. Returns
 * undefined if neither has it.
 */
export function planOf(a: Approval, call: ToolCall | undefined): string | undefined {
  for (const args of [a.arguments, call?.toolArguments])
    if (isRecord(args) && typeof args.plan === "string" && args.plan.trim() !== "") return args.plan;
  return undefined;
}

/** The tool call that an approval is about. */
export function callOf(a: ApprovalEvent, turn: Turn | undefined): ToolCall | undefined {
  const item = turn?.items.find((it): it is ToolItem => it.type === "tool_call" && isAbout(a, it));
  return item?.tool_call;
}

interface Cached {
  opened: ReadonlySet<string>;
  rows: Row[];
}

/**
 * Makes rows, and caches those of unchanged turns. There is one Rows for each
 * session shown.
 */
export class Rows {
  private cache = new WeakMap<Turn, Cached>();
  private breaks = new Map<Break, Row>();

  of(t: Transcript, opened: ReadonlySet<string>): Row[] {
    const out: Row[] = [];
    t.turns.forEach((turn, i) => {
      for (const b of t.breaks) if (b.afterTurn === i) out.push(this.breakRow(b));
      out.push(...this.turn(turn, opened, t.turns));
    });
    for (const b of t.breaks) if (b.afterTurn >= t.turns.length) out.push(this.breakRow(b));
    return out;
  }

  private turn(turn: Turn, opened: ReadonlySet<string>, turns: readonly Turn[]): Row[] {
    const hit = this.cache.get(turn);
    if (hit && hit.opened === opened) return hit.rows;
    const rows = rowsOf(turn, opened, (callId) => callIn(turns, callId));
    this.cache.set(turn, { opened, rows });
    return rows;
  }

  private breakRow(b: Break): Row {
    let row = this.breaks.get(b);
    if (!row) {
      row = { kind: "break", key: `break:${this.breaks.size}`, depth: 0, turn: "", text: b.text };
      this.breaks.set(b, row);
    }
    return row;
  }
}

const callIn = (turns: readonly Turn[], callId: string): ToolCall | undefined => {
  for (const t of turns)
    for (const it of t.items)
      if (it.type === "tool_call" && it.tool_call.callId === callId) return it.tool_call;
  return undefined;
};

/**
 * The rows of one turn. `opened` has the item ids of expanded subagents;
 * `started` returns the call of a subagent that another turn started.
 */
export function rowsOf(
  turn: Turn,
  opened: ReadonlySet<string>,
  started: (callId: string) => ToolCall | undefined = () => undefined,
): Row[] {
  const threads = new Map<string, Item[]>();
  const calls = new Set(turn.items.map((it) => (it.type === "tool_call" ? it.tool_call.callId : "")));
  const others = new Set<string>(); // subagents that another turn started
  for (const it of turn.items) {
    const parent = it.parentCallId ?? "";
    if (parent && !calls.has(parent)) others.add(parent);
    const thread = threads.get(parent);
    if (thread) thread.push(it);
    else threads.set(parent, [it]);
  }
  const out: Row[] = [];
  const b: Builder = {
    turn,
    opened,
    threads,
    out,
    shown: new Set(),
    loose: loose(turn),
    plan: turn.items.findLast((it) => it.type === "plan"),
  };
  thread(b, "", 0);
  for (const callId of others) other(b, callId, started(callId));
  for (const x of b.loose) out.push(x.row);
  for (const a of turn.approvals) if (!b.shown.has(a.approval.id)) out.push(approvalRow(turn, a, 0));
  if (turn.ended) out.push({ kind: "end", key: `${turn.id}:end`, depth: 0, turn: turn.id, of: turn });
  else if ((turn.started || turn.items.length > 0) && !turn.approvals.some((a) => a.status === "pending"))
    out.push({
      kind: "working",
      key: `${turn.id}:working`,
      depth: 0,
      turn: turn.id,
      since: turn.started?.timestamp,
    });
  return fold(out);
}

interface Builder {
  turn: Turn;
  opened: ReadonlySet<string>;
  threads: Map<string, Item[]>;
  out: Row[];
  plan?: Item; // the newest plan of the turn
  shown: Set<string>; // approvals that already have a row
  loose: { seq: number; row: Row }[]; // rows placed only by their position in the log
}

function loose(turn: Turn): { seq: number; row: Row }[] {
  return turn.notices.map((notice) => ({
    seq: notice.seq,
    row: { kind: "notice", key: `${turn.id}:n${notice.seq}`, depth: 0, turn: turn.id, notice },
  }));
}

function thread(b: Builder, parent: string, depth: number) {
  for (const item of b.threads.get(parent) ?? []) {
    if (depth === 0)
      while (b.loose[0] && b.loose[0].seq < item.seq) b.out.push((b.loose.shift() as { row: Row }).row);
    one(b, item, depth);
  }
}

function one(b: Builder, item: Item, depth: number) {
  const base = { key: item.itemId, depth, turn: item.turnId };
  const live = isOpen(item) && !b.turn.ended;
  switch (item.type) {
    case "message":
      if (item.message.origin === "user" && depth === 0) b.out.push({ ...base, kind: "prompt", item });
      else if (item.message.content !== "") b.out.push({ ...base, kind: "prose", item, live });
      return;
    case "thinking":
      if (item.thinking.content !== "") b.out.push({ ...base, kind: "reasoning", item, live });
      return;
    case "plan":
      b.out.push({ ...base, kind: "plan", item, old: item !== b.plan });
      return;
    case "tool_call":
      tool(b, item, depth);
  }
}

function tool(b: Builder, item: ToolItem, depth: number) {
  const { callId } = item.tool_call;
  const inner = callId ? b.threads.get(callId) : undefined;
  const steps = inner?.filter((it): it is ToolItem => it.type === "tool_call");
  const about = b.turn.approvals.filter((a) => isAbout(a, item) && !b.shown.has(a.approval.id));
  const asked = about.filter((a) => a.approval.kind === "tool");
  const others = about.filter((a) => a.approval.kind !== "tool");
  const state = stateOf(item, b.turn);
  // The row of a question or a plan replaces that of the call that asks it.
  if (others.length === 0 || asked.length > 0 || inner || state === "failed")
    b.out.push({
      key: item.itemId,
      depth,
      turn: item.turnId,
      kind: "tool",
      item,
      state,
      asked,
      inside: inner && { steps: steps?.length ?? 0, last: steps?.at(-1) },
    });
  for (const a of about) b.shown.add(a.approval.id);
  for (const a of others) b.out.push(approvalRow(b.turn, a, depth));
  // An expanded subagent shows all its items; a collapsed one shows only its
  // approvals.
  if (inner && b.opened.has(item.itemId)) thread(b, callId, depth + 1);
}

// other adds a subagent that an earlier turn started and that continues in this
// turn. Its items are shown apart from the main agent's.
function other(b: Builder, callId: string, call: ToolCall | undefined) {
  const items = b.threads.get(callId) ?? [];
  const steps = items.filter((it): it is ToolItem => it.type === "tool_call");
  const key = `${b.turn.id}:${callId}`;
  const open = b.opened.has(key);
  b.out.push({
    key,
    depth: 0,
    turn: b.turn.id,
    kind: "thread",
    title: call ? describe(call, "").object : "",
    inside: { steps: steps.length, last: steps.at(-1) },
    open,
    running: !b.turn.ended,
  });
  if (open) thread(b, callId, 1);
}

function approvalRow(turn: Turn, approval: ApprovalEvent, depth: number): Row {
  const over = approval.status === "pending" && turn.ended !== undefined;
  return {
    kind: "approval",
    key: `${turn.id}:a:${approval.approval.id}`,
    depth,
    turn: turn.id,
    approval,
    over,
    call: callOf(approval, turn),
  };
}

const foldable = (r: Row): r is Extract<Row, { kind: "tool" }> =>
  r.kind === "tool" &&
  !r.inside &&
  r.asked.length === 0 &&
  r.state !== "failed" &&
  r.state !== "denied" &&
  (r.item.tool_call.kind === "read" || r.item.tool_call.kind === "search");

// fold merges neighbouring reads and searches into one row. The row's key is
// that of its first call, so the row keeps its identity while it grows.
function fold(rows: Row[]): Row[] {
  const out: Row[] = [];
  for (let i = 0; i < rows.length; i++) {
    const row = rows[i] as Row;
    let end = i;
    while (foldable(row) && end + 1 < rows.length) {
      const next = rows[end + 1] as Row;
      if (!foldable(next) || next.depth !== row.depth) break;
      end++;
    }
    if (end === i) {
      out.push(row);
      continue;
    }
    const group = rows.slice(i, end + 1).filter(foldable);
    const state = group.some((r) => r.state === "running")
      ? "running"
      : group.some((r) => r.state === "stopped")
        ? "stopped"
        : "done";
    out.push({
      kind: "fold",
      key: `${row.key}:fold`,
      depth: row.depth,
      turn: row.turn,
      items: group.map((r) => r.item),
      state,
    });
    i = end;
  }
  return out;
}

// The agent's title for a call, without a leading verb that the row already
// shows, and without the backquotes that some agents put around commands.
function title(t: ToolCall): string {
  const text = (t.title || t.toolName).replace(/^(`+)(.+)\1$/s, "$2");
  return text.replace(
    /^(run|read|edit|write|create|delete|move|search|fetch)\b:?\s+(?=\S)/i,
    (all, verb: string) => (verbs[t.kind ?? ""]?.includes(verb.toLowerCase()) ? "" : all),
  );
}

const verbs: Record<string, string[]> = {
  execute: ["run"],
  read: ["read"],
  edit: ["edit", "write", "create"],
  delete: ["delete"],
  move: ["move"],
  search: ["search"],
  fetch: ["fetch"],
};

// The command inside a call of a shell such as bash -lc; otherwise the text
// unchanged.
function inShell(command: string): string {
  const m = /^(?:\S*\/)?(?:ba|z|da)?sh -l?c (?:'([^']*)'|"([^"\\$`]*)")$/.exec(command);
  return m?.[1] || m?.[2] || command;
}

// A command that is given as a list of words.
function words(v: unknown): string | undefined {
  if (!Array.isArray(v) || v.length === 0 || !v.every((w) => typeof w === "string")) return undefined;
  return v.map((w) => (/^[\w@%+=:,./-]+$/.test(w) ? w : `'${w.replaceAll("'", "'\\''")}'`)).join(" ");
}

/** The one-line description of a call: a verb and its object. */
export function describe(t: ToolCall, dir: string): { verb: string; object: string; code: boolean } {
  const args = isRecord(t.toolArguments) ? t.toolArguments : {};
  const pick = (...names: string[]) =>
    names.map((n) => args[n]).find((v): v is string => typeof v === "string" && v !== "");
  const path = pick("file_path", "path", "notebook_path", "filePath", "filename") ?? t.locations?.[0]?.path;
  const rel = path && shortPath(path, dir);
  const name = title(t);
  switch (t.kind) {
    case "execute":
      return {
        verb: "Run",
        object: inShell(pick("command", "cmd", "script") ?? words(args.command) ?? words(args.cmd) ?? name),
        code: true,
      };
    case "read":
      return { verb: "Read", object: rel ?? name, code: !!rel };
    case "edit": {
      const verb = t.changes?.[0]?.kind === "create" ? "Create" : "Edit";
      const files = new Set(t.changes?.map((c) => c.path));
      if (files.size > 1) return { verb, object: `${files.size} files`, code: false };
      const changed = t.changes?.[0]?.path;
      const p = rel ?? (changed && shortPath(changed, dir));
      return { verb, object: p ?? name, code: !!p };
    }
    case "delete":
      return { verb: "Delete", object: rel ?? name, code: !!rel };
    case "move":
      return { verb: "Move", object: rel ?? name, code: !!rel };
    case "search": {
      const what = pick("pattern", "query", "q", "glob");
      return { verb: "Search", object: what ?? name, code: !!what };
    }
    case "fetch": {
      const url = pick("url", "uri");
      const query = url ? undefined : pick("query");
      if (query) return { verb: "Search the web", object: query, code: true };
      return { verb: "Fetch", object: url ?? name, code: !!url };
    }
    case "delegate":
      return {
        verb: "Subagent",
        object: pick("description") ?? t.title ?? pick("prompt") ?? t.toolName,
        code: false,
      };
    case "think":
      if (todoTools.has(t.toolName)) return { verb: "Updated tasks", object: "", code: false };
      return { verb: "Think", object: t.title ?? pick("thought") ?? t.toolName, code: false };
    case "switch_mode":
      if (planTools.has(t.toolName)) return { verb: "Proposed a plan", object: "", code: false };
      return { verb: "Switch mode", object: t.title ?? pick("mode", "plan") ?? "", code: false };
  }
  const command = pick("command") ?? words(args.command);
  const tool = /^mcp__(.+?)__(.+)$/.exec(t.toolName); // a tool of an MCP server
  if (tool) {
    const object = command ?? rel ?? pick("query", "url", "name", "description") ?? `of ${tool[1]}`;
    return { verb: tool[2] ?? "", object, code: !!(command ?? rel) };
  }
  const called = t.title && t.title !== t.toolName ? t.title : undefined;
  return {
    verb: t.toolName,
    object: called ?? command ?? rel ?? pick("query", "url", "name", "description") ?? "",
    code: !!(command ?? rel),
  };
}

// Names of the tools that show tasks or a plan.
const todoTools = new Set(["TodoWrite", "todo_write", "todowrite", "update_plan"]);
const planTools = new Set(["ExitPlanMode", "exit_plan_mode"]);

const isRecord = (v: unknown): v is Record<string, unknown> =>
  typeof v === "object" && v !== null && !Array.isArray(v);

/** For example "Read 5 files, searched twice". */
export function describeFold(items: readonly ToolItem[]): string {
  const files = new Set<string>();
  let reads = 0;
  let searches = 0;
  for (const { tool_call: t } of items) {
    if (t.kind === "read") {
      reads++;
      files.add(describe(t, "").object);
    } else searches++;
  }
  const parts: string[] = [];
  if (reads) parts.push(`Read ${files.size} ${files.size === 1 ? "file" : "files"}`);
  if (searches)
    parts.push(
      `${parts.length ? "searched" : "Searched"} ${searches === 1 ? "once" : searches === 2 ? "twice" : `${searches} times`}`,
    );
  return parts.join(", ");
}

/**
 * The host and the port that programs in a sandbox want to reach, if the
 * approval is about that. The server asks then, and not the agent.
 */
export function reached(a: Approval): string | undefined {
  if (a.kind !== "tool" || a.toolName !== "connect" || !isRecord(a.arguments)) return undefined;
  const { host, port } = a.arguments;
  if (typeof host !== "string" || host === "" || typeof port !== "number") return undefined;
  return host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`;
}

/**
 * A one-line text about an approval, made from the call that would run and not
 * from the agent's description.
 */
export function describeAsked(a: Approval, dir: string): string {
  if (a.kind !== "tool") return a.title;
  const reach = reached(a);
  if (reach) return `Reach ${reach}`;
  const { object } = describe(
    { toolName: "", toolArguments: a.arguments, callId: "", locations: a.changes },
    dir,
  );
  return `${a.toolName ?? "a tool"} ${object}`;
}
