// What a session's stream says, folded into turns. A pure function of the frames:
// a frame seen twice, or again after a reconnect, changes nothing.

import type {
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
  readonly items: readonly Item[]; // in the order of their place in the turn
  readonly approvals: readonly ApprovalEvent[];
  readonly notices: readonly Notice[];
  readonly started?: TurnEvent;
  readonly ended?: TurnEvent;
  readonly usage?: Usage;
  readonly costUsd?: number;
}

/** Said by the connection, not by the agent: what was lost, or begun anew. */
export interface Break {
  readonly afterTurn: number; // how many turns stood above it
  readonly text: string;
}

export interface Transcript {
  readonly seq: number; // newest position seen
  readonly loaded: boolean; // the history has been read to its end
  readonly turns: readonly Turn[];
  readonly index: ReadonlyMap<string, number>; // turn id to its place in turns
  readonly breaks: readonly Break[];
  readonly context?: { tokens: number; window?: number };
  readonly rateLimit?: UsageEvent["rateLimit"];
}

export const empty: Transcript = { seq: 0, loaded: false, turns: [], index: new Map(), breaks: [] };

/** Folds frames of one session, in the order they came. */
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
    }
  }
  return d.done();
}

/**
 * The position to resume from. An item that is still open may have grown before
 * `seq` in a part that was not yet sent, so its last position is the safe one;
 * what is then sent again changes nothing.
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

/** Questions that nobody has answered, oldest first. */
export function pending(t: Transcript): ApprovalEvent[] {
  return t.turns.flatMap((turn) => (turn.ended ? [] : turn.approvals.filter((a) => a.status === "pending")));
}

class Draft {
  private s: { -readonly [K in keyof Transcript]: Transcript[K] };
  private turns: Turn[] | undefined; // copied on the first write

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
      this.break(
        `The server began this session's record anew${f.resume.reason ? ` (${f.resume.reason})` : ""}. What follows is all it has.`,
      );
    }
    if (f.resume?.status === "gap") {
      const { from, to } = f.resume;
      this.break(`Something is missing here: the server no longer has events ${from} to ${to}.`);
    }
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

  private change(id: string, f: (t: Turn) => Turn) {
    this.turns ??= [...this.s.turns];
    let i = this.s.index.get(id);
    if (i === undefined) {
      i = this.turns.length;
      this.s.index = new Map(this.s.index).set(id, i);
      this.turns.push({ id, items: [], approvals: [], notices: [] });
    }
    this.turns[i] = f(this.turns[i] as Turn);
  }

  private upsert(u: Upsert) {
    this.change(u.turnId, (t) => {
      const at = t.items.findLastIndex((it) => it.itemId === u.itemId);
      if (at < 0) return { ...t, items: insert(t.items, u) };
      const old = t.items[at] as Item;
      // An item that has ended does not change any more, and what is older says nothing new.
      if (u.seq < old.seq || (!isOpen(old) && isOpen(u))) return t;
      const items = t.items.slice();
      items[at] = u.startedAt || !old.startedAt ? u : { ...u, startedAt: old.startedAt };
      return { ...t, items };
    });
  }

  private turnEvent(e: TurnEvent) {
    this.change(e.turnId, (t) => {
      if (e.type === "turn_started") return t.started ? t : { ...t, started: e };
      return t.ended ? t : { ...t, ended: e, usage: e.usage ?? t.usage }; // the first terminal wins
    });
  }

  private approval(a: ApprovalEvent) {
    this.change(a.turnId, (t) => {
      const at = t.approvals.findIndex((x) => x.approval.id === a.approval.id);
      const old = t.approvals[at];
      if (!old) return { ...t, approvals: [...t.approvals, a] };
      if (old.status === "resolved" || a.status === "pending") return t; // the first answer wins
      // The answer may repeat no more than the id: what was asked stays.
      const approvals = t.approvals.slice();
      approvals[at] = { ...a, approval: old.approval };
      return { ...t, approvals };
    });
  }

  private notice(n: Notice) {
    const id = n.turnId ?? this.lastTurn();
    if (id === undefined) return;
    this.change(id, (t) =>
      t.notices.some((x) => x.seq === n.seq && x.code === n.code) ? t : { ...t, notices: [...t.notices, n] },
    );
  }

  private usage(u: UsageEvent) {
    if (u.contextTokens)
      this.s.context = { tokens: u.contextTokens, window: u.contextWindow ?? this.s.context?.window };
    if (u.rateLimit) this.s.rateLimit = u.rateLimit;
    if (u.turnId && (u.usage || u.costUsd !== undefined))
      this.change(u.turnId, (t) => ({ ...t, usage: u.usage ?? t.usage, costUsd: u.costUsd ?? t.costUsd }));
  }

  private lastTurn(): string | undefined {
    return (this.turns ?? this.s.turns).at(-1)?.id;
  }
}

// insert puts u where its id says it belongs: items are numbered by the agent's
// message and the place in it, so that live and history give the same order. The
// main thread comes first, then those of the subagents, one after another.
function insert(items: readonly Item[], u: Item): Item[] {
  const key = place(u);
  let at = items.length;
  while (at > 0 && compare(place(items[at - 1] as Item), key) > 0) at--;
  return [...items.slice(0, at), u, ...items.slice(at)];
}

interface Place {
  thread: string;
  ordinal: number;
  index: number;
}

// itemId is "turn:ordinal:index", in a subagent "turn:parentCallId/ordinal:index".
// One of another form stays where it came.
function place(it: Item): Place {
  const m = /^(?:(.*)\/)?(\d+):(\d+)$/s.exec(it.itemId.slice(it.turnId.length + 1));
  return { thread: m?.[1] ?? "", ordinal: Number(m?.[2] ?? Infinity), index: Number(m?.[3] ?? 0) };
}

function compare(a: Place, b: Place): number {
  if (a.thread !== b.thread) return a.thread < b.thread ? -1 : 1;
  return a.ordinal === b.ordinal ? a.index - b.index : a.ordinal - b.ordinal;
}
