// Folds the frames of a session's stream into turns. A pure function of the
// frames: a repeated frame, for instance after a reconnect, changes nothing.

import type {
  Append,
  ApprovalEvent,
  Entry,
  Frame,
  Notice,
  TurnEvent,
  Upsert,
  Usage,
  UsageEvent,
} from "../wire/types";

export type Item = Upsert;

export interface Turn {
  readonly id: string;
  readonly items: readonly Item[]; // in the order of the turn
  readonly approvals: readonly ApprovalEvent[];
  readonly notices: readonly Notice[];
  readonly started?: TurnEvent;
  readonly ended?: TurnEvent;
  readonly usage?: Usage;
  readonly costUsd?: number;
}

/**
 * A notice of the connection, not of the agent: events were lost, or the log
 * was replaced.
 */
export interface Break {
  readonly afterTurn: number; // number of turns above it
  readonly text: string;
}

export interface Transcript {
  readonly seq: number; // last position received
  readonly logId?: string; // id of the log to which seq belongs
  readonly loaded: boolean; // the history was received up to its end
  readonly first?: number; // the server has older entries, from before this position
  readonly older: number; // items, approvals and notices that were added before the first ones
  readonly early: readonly Notice[]; // notices without a turn from before the first turn received
  readonly turns: readonly Turn[];
  readonly index: ReadonlyMap<string, number>; // index in turns by turn id
  readonly breaks: readonly Break[];
  readonly context?: { tokens: number; window?: number };
  readonly rateLimits: readonly RateLimit[]; // the newest report about each limit
}

export type RateLimit = NonNullable<UsageEvent["rateLimit"]>;

export const empty: Transcript = {
  rateLimits: [],
  seq: 0,
  loaded: false,
  older: 0,
  early: [],
  turns: [],
  index: new Map(),
  breaks: [],
};

/** Folds frames of one session, in the order of arrival. */
export function reduce(state: Transcript, frames: readonly Frame[]): Transcript {
  const d = new Draft(state);
  for (const f of frames) {
    switch (f.type) {
      case "session:history":
        d.history(f);
        break;
      case "session:upsert":
      case "session:turn":
      case "session:approval":
      case "session:notice":
      case "session:usage":
        d.entry(f);
        break;
      case "session:append":
        d.append(f.payload);
        break;
    }
  }
  return d.done();
}

/** The number of items, approvals and notices. */
export const count = (t: Transcript): number =>
  t.turns.reduce((n, turn) => n + turn.items.length + turn.approvals.length + turn.notices.length, 0);

/**
 * Adds the page of the history that ends before state.first. What is in both is
 * newer in state. `first` is where the next older page ends.
 */
export function prepend(state: Transcript, entries: readonly Entry[], first: number | undefined): Transcript {
  const page = new Draft(empty);
  for (const e of entries) page.entry(e);
  const past = page.done();
  const turns = past.turns.map((old) => {
    const at = state.index.get(old.id);
    return at === undefined ? old : join(old, state.turns[at] as Turn);
  });
  const added = turns.filter((t) => !state.index.has(t.id)).length;
  turns.push(...state.turns.filter((t) => !past.index.has(t.id)));
  let early = [...past.early, ...state.early];
  const before = turns[added - 1];
  if (before && state.early.length > 0) {
    turns[added - 1] = { ...before, notices: [...before.notices, ...state.early] };
    early = [...past.early];
  }
  const next: Transcript = {
    ...state,
    first,
    early,
    turns,
    index: new Map(turns.map((t, i) => [t.id, i])),
    breaks: state.breaks.map((b) => ({ ...b, afterTurn: b.afterTurn + added })),
    context: state.context ?? past.context,
    rateLimits: state.rateLimits.reduce(withLimit, past.rateLimits),
  };
  return { ...next, older: state.older + count(next) - count(state) };
}

// join joins the older and the newer part of a turn.
function join(old: Turn, now: Turn): Turn {
  const known = new Set(now.items.map((it) => it.itemId));
  const items = old.items.filter((it) => !known.has(it.itemId));
  for (const it of now.items) insert(items, it);
  const asked = new Set(now.approvals.map((a) => a.approval.id));
  const noted = new Set(now.notices.map((n) => `${n.seq} ${n.code}`));
  return {
    ...old,
    ...now,
    started: old.started ?? now.started,
    ended: now.ended ?? old.ended,
    usage: now.usage ?? old.usage,
    costUsd: now.costUsd ?? old.costUsd,
    items,
    approvals: [...old.approvals.filter((a) => !asked.has(a.approval.id)), ...now.approvals],
    notices: [...old.notices.filter((n) => !noted.has(`${n.seq} ${n.code}`)), ...now.notices],
  };
}

/**
 * The position from which to resume. The server sends the growth of an open
 * item late: it may not have sent all growth from before `seq`. So the page
 * resumes from the last frame of an open item; if several items are open, from
 * the earliest of these frames. Frames that arrive again change nothing.
 */
export function resumeFrom(t: Transcript): number | undefined {
  if (!t.loaded) return undefined;
  let after = t.seq;
  for (const turn of t.turns) {
    if (turn.ended) continue;
    for (const it of turn.items) if (isOpen(it)) after = Math.min(after, it.seq);
  }
  return after;
}

export const isOpen = (it: Item): boolean => it.status === "create" || it.status === "update";

/** Approvals that wait for an answer, oldest first. */
export function pending(t: Transcript): ApprovalEvent[] {
  return t.turns.flatMap((turn) => (turn.ended ? [] : turn.approvals.filter((a) => a.status === "pending")));
}

type Writable<T> = { -readonly [K in keyof T]: T[K] };

// A mutable copy of a turn, made once for all frames of a batch.
interface Work extends Writable<Turn> {
  items: Item[];
  approvals: ApprovalEvent[];
  notices: Notice[];
}

class Draft {
  private s: Writable<Transcript>;
  private turns: Turn[] | undefined; // copied on the first write
  private works = new Map<string, Work>();
  private places = new Map<string, Map<string, number>>(); // index of each item, by turn

  constructor(state: Transcript) {
    this.s = { ...state };
  }

  done(): Transcript {
    if (this.turns) this.s.turns = this.turns;
    return this.s;
  }

  history(f: Extract<Frame, { type: "session:history" }>) {
    if (f.resume?.status === "reset") {
      this.s = { ...empty };
      this.turns = undefined;
      this.works.clear();
      this.places.clear();
      const why = f.resume.reason ? ` (${f.resume.reason})` : "";
      this.break(`The session was loaded again${why}. The newest events that you saw may be missing.`);
    }
    if (f.resume?.status === "gap") {
      const { from, to } = f.resume;
      this.break(`Events ${from} to ${to} are missing: the server no longer has them.`);
    }
    if (f.resume) this.s.logId = f.resume.logId;
    if (f.first !== undefined) this.s.first = f.first;
    for (const e of f.entries) this.entry(e);
    this.s.seq = Math.max(this.s.seq, f.seq);
    if (f.done) this.s.loaded = true;
  }

  entry(e: Entry) {
    this.s.seq = Math.max(this.s.seq, e.payload.seq);
    switch (e.type) {
      case "session:upsert":
        return this.upsert(e.payload);
      case "session:turn":
        return this.turnEvent(e.payload);
      case "session:approval":
        return this.approval(e.payload);
      case "session:notice":
        return this.notice(e.payload);
      case "session:usage":
        return this.usage(e.payload);
    }
  }

  private break(text: string) {
    this.s.breaks = [...this.s.breaks, { afterTurn: (this.turns ?? this.s.turns).length, text }];
  }

  private look(id: string): Turn | undefined {
    const i = this.s.index.get(id);
    return i === undefined ? undefined : (this.turns ?? this.s.turns)[i];
  }

  private work(id: string): Work {
    const mine = this.works.get(id);
    if (mine) return mine;
    this.turns ??= [...this.s.turns];
    const old = this.look(id);
    const w: Work = {
      ...(old ?? { id }),
      items: old ? [...old.items] : [],
      approvals: old ? [...old.approvals] : [],
      notices: old ? [...old.notices] : [],
    };
    if (!old) this.s.index = new Map(this.s.index).set(id, this.turns.length);
    this.turns[this.s.index.get(id) as number] = w;
    this.works.set(id, w);
    return w;
  }

  private placesOf(t: Turn): Map<string, number> {
    let places = this.places.get(t.id);
    if (!places) {
      places = new Map(t.items.map((it, i) => [it.itemId, i]));
      this.places.set(t.id, places);
    }
    return places;
  }

  private upsert(u: Upsert) {
    const w = this.work(u.turnId);
    const places = this.placesOf(w);
    const at = places.get(u.itemId);
    if (at === undefined) {
      if (insert(w.items, u) === w.items.length - 1) places.set(u.itemId, w.items.length - 1);
      else this.places.delete(w.id); // the indexes of other items have changed
      return;
    }
    const old = w.items[at] as Item;
    // A finished item no longer changes, and older frames are ignored.
    if (u.seq < old.seq || (!isOpen(old) && isOpen(u))) return;
    w.items[at] = u.startedAt || !old.startedAt ? u : { ...u, startedAt: old.startedAt };
  }

  /**
   * Adds text to the item that it continues. Ignores text that does not begin
   * where an open item ends: the server will send the whole item again.
   */
  append(a: Append) {
    this.s.seq = Math.max(this.s.seq, a.seq);
    // The id of an item begins with that of its turn.
    const turn = (this.turns ?? this.s.turns).findLast((t) => a.itemId.startsWith(`${t.id}:`));
    if (!turn) return;
    const at = this.placesOf(turn).get(a.itemId);
    const old = at === undefined ? undefined : turn.items[at];
    if (at === undefined || !old || !isOpen(old) || a.seq < old.seq) return;
    const grown = extend(old, a);
    if (grown) this.work(turn.id).items[at] = grown;
  }

  private turnEvent(e: TurnEvent) {
    const w = this.work(e.turnId);
    if (e.type === "turn_started") w.started ??= e;
    else if (!w.ended) {
      w.ended = e; // the first terminal event wins
      w.usage = e.usage ?? w.usage;
    }
  }

  private approval(a: ApprovalEvent) {
    const w = this.work(a.turnId);
    const at = w.approvals.findIndex((x) => x.approval.id === a.approval.id);
    const old = w.approvals[at];
    if (!old) w.approvals.push(a);
    // The first answer wins. The frame may contain only the id of the approval,
    // so the original request is kept.
    else if (old.status === "pending" && a.status === "resolved")
      w.approvals[at] = { ...a, approval: old.approval, askedAt: old.timestamp };
  }

  private notice(n: Notice) {
    const id = n.turnId ?? (this.turns ?? this.s.turns).at(-1)?.id;
    if (id === undefined) {
      if (!this.s.early.some((x) => x.seq === n.seq && x.code === n.code))
        this.s.early = [...this.s.early, n];
      return;
    }
    const w = this.work(id);
    if (!w.notices.some((x) => x.seq === n.seq && x.code === n.code)) w.notices.push(n);
  }

  private usage(u: UsageEvent) {
    if (u.contextTokens)
      this.s.context = { tokens: u.contextTokens, window: u.contextWindow ?? this.s.context?.window };
    if (u.rateLimit) this.s.rateLimits = withLimit(this.s.rateLimits, u.rateLimit);
    if (!u.turnId || !(u.usage || u.costUsd !== undefined)) return;
    const w = this.work(u.turnId);
    if (!w.ended) w.usage = u.usage ?? w.usage;
    w.costUsd = u.costUsd ?? w.costUsd;
  }
}

// withLimit returns the limits with a newer report about one of them.
const withLimit = (all: readonly RateLimit[], l: RateLimit): readonly RateLimit[] =>
  all.some((x) => x.kind === l.kind) ? all.map((x) => (x.kind === l.kind ? l : x)) : [...all, l];

// extend returns the item with the text at its end, or undefined if the text
// does not begin where the item ends.
function extend(it: Item, a: Append): Item | undefined {
  const text = growing(it);
  if (text === undefined || (sizes.get(it) ?? size(text)) !== a.offset) return undefined;
  const grown = withText({ ...it, seq: a.seq }, text + a.text);
  sizes.set(grown, a.offset + size(a.text));
  return grown;
}

// The size of the growing text of items in UTF-8 bytes, so that each append is
// measured once and not the whole item again.
const sizes = new WeakMap<Item, number>();
const encoder = new TextEncoder();
const size = (text: string) => encoder.encode(text).length;

// growing returns the text that an append continues.
function growing(it: Item): string | undefined {
  switch (it.type) {
    case "message":
      return it.message.content;
    case "thinking":
      return it.thinking.content;
    case "tool_call":
      return (argued(it) ? it.tool_call.toolOutput : it.tool_call.toolArgumentsText) ?? "";
  }
  return undefined;
}

function withText(it: Item, text: string): Item {
  switch (it.type) {
    case "message":
      return { ...it, message: { ...it.message, content: text } };
    case "thinking":
      return { ...it, thinking: { ...it.thinking, content: text } };
    case "tool_call":
      return {
        ...it,
        tool_call: { ...it.tool_call, [argued(it) ? "toolOutput" : "toolArgumentsText"]: text },
      };
  }
  return it;
}

const argued = (it: Extract<Item, { type: "tool_call" }>) => it.tool_call.toolArguments !== undefined;

// insert puts u where its id belongs and returns its index. Ids number the
// agent's messages and the items in each, so that live items and history have
// the same order. The main thread comes first, then each subagent's thread. An
// item without a number, such as a plan, stays after the item of its thread
// that preceded it.
function insert(items: Item[], u: Item): number {
  const key = place(u);
  let at = items.length;
  while (at > 0 && isBehind(items, at - 1, key)) at--;
  items.splice(at, 0, u);
  return at;
}

// isBehind reports whether the item at i belongs after a new item at key.
function isBehind(items: Item[], i: number, key: Place): boolean {
  let it = place(items[i] as Item);
  if (it.thread !== key.thread) return it.thread > key.thread;
  if (key.ordinal === undefined) return false;
  // An item without a number moves with the item before it.
  while (it.ordinal === undefined) {
    if (--i < 0) return false;
    it = place(items[i] as Item);
    if (it.thread !== key.thread) return false;
  }
  return it.ordinal === key.ordinal ? it.index > key.index : it.ordinal > key.ordinal;
}

interface Place {
  thread: string;
  ordinal?: number; // absent if the id has no number
  index: number;
}

// An itemId is "turn:ordinal:index", or "turn:parentCallId/ordinal:index" in a
// subagent. The id of an item that a call caused is the call's id with a word
// appended.
function place(it: Item): Place {
  const m = /^(?:(.*)\/)?(\d+):(\d+)(:\w+)?$/s.exec(it.itemId.slice(it.turnId.length + 1));
  if (!m) return { thread: it.parentCallId ?? "", index: 0 };
  return { thread: m[1] ?? "", ordinal: Number(m[2]), index: Number(m[3]) + (m[4] ? 0.5 : 0) };
}
