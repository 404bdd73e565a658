// A small server for tests. It holds a session's log and sends it as the real
// server does: live, or as history after any position.

import type { Entry, Frame, Upsert } from "../src/wire/types";

export const S = "s1";

const at = (seq: number) => new Date(Date.UTC(2026, 0, 1) + seq * 1000).toISOString();

export function message(
  turn: string,
  place: string,
  content: string,
  seq: number,
  status: Upsert["status"] = "complete",
  origin: "user" | "agent" = "agent",
  parentCallId?: string,
): Entry {
  return {
    type: "session:upsert",
    payload: {
      type: "message",
      turnId: turn,
      sessionId: S,
      itemId: `${turn}:${place}`,
      sourceTimestamp: at(seq),
      startedAt: at(seq),
      status,
      seq,
      parentCallId,
      message: { content, origin },
    },
  };
}

export function planned(turn: string, place: string, seq: number): Entry {
  return {
    type: "session:upsert",
    payload: {
      type: "plan",
      turnId: turn,
      sessionId: S,
      itemId: `${turn}:${place}`,
      sourceTimestamp: at(seq),
      startedAt: at(seq),
      status: "complete",
      seq,
      plan: { entries: [{ content: "one", status: "pending" }] },
    },
  };
}

export function call(
  turn: string,
  place: string,
  callId: string,
  seq: number,
  status: Upsert["status"],
  more: object = {},
  parentCallId?: string,
): Entry {
  return {
    type: "session:upsert",
    payload: {
      type: "tool_call",
      turnId: turn,
      sessionId: S,
      itemId: `${turn}:${place}`,
      sourceTimestamp: at(seq),
      startedAt: at(seq),
      status,
      seq,
      parentCallId,
      tool_call: { toolName: "Read", callId, kind: "read", toolArguments: { path: callId }, ...more },
    },
  };
}

export const started = (turn: string, seq: number): Entry => ({
  type: "session:turn",
  payload: { type: "turn_started", turnId: turn, sessionId: S, seq, timestamp: at(seq) },
});

export const ended = (
  turn: string,
  seq: number,
  status: "completed" | "cancelled" | "error" = "completed",
): Entry => ({
  type: "session:turn",
  payload:
    status === "error"
      ? {
          type: "turn_error",
          turnId: turn,
          sessionId: S,
          seq,
          timestamp: at(seq),
          errorCode: "PROCESS_CRASH",
          errorMessage: "gone",
        }
      : {
          type: "turn_complete",
          turnId: turn,
          sessionId: S,
          seq,
          timestamp: at(seq),
          status,
          usage: { inputTokens: 1, outputTokens: 2 },
        },
});

export const asked = (turn: string, id: string, seq: number, callId?: string): Entry => ({
  type: "session:approval",
  payload: {
    turnId: turn,
    seq,
    timestamp: at(seq),
    status: "pending",
    approval: {
      id,
      kind: "tool",
      title: "",
      callId,
      toolName: "Read",
      choices: [
        { id: "yes", kind: "allow_once", label: "Allow" },
        { id: "no", kind: "deny", label: "Deny" },
      ],
    },
  },
});

export const answered = (turn: string, id: string, seq: number, choice = "yes"): Entry => ({
  type: "session:approval",
  payload: {
    turnId: turn,
    seq,
    timestamp: at(seq),
    status: "resolved",
    approval: { id, kind: "tool", title: "", choices: [] },
    choice,
    by: "user",
  },
});

export const notice = (turn: string, seq: number): Entry => ({
  type: "session:notice",
  payload: { turnId: turn, seq, timestamp: at(seq), level: "info", code: "RETRY", message: `n${seq}` },
});

export const live = (e: Entry): Frame => ({ ...e, sessionId: S });

/**
 * The key of an entry. Of several entries with the same key, history sends only
 * the newest.
 */
function keyOf(e: Entry): string {
  switch (e.type) {
    case "session:upsert":
      return e.payload.itemId;
    case "session:approval":
      return `${e.payload.approval.id}:${e.payload.status}`;
    default:
      return `${e.type}:${e.payload.seq}`;
  }
}

/**
 * The history after a position: one complete entry for each object that changed
 * since.
 */
export function history(log: readonly Entry[], after = 0, size = 200): Frame[] {
  const newest = new Map<string, Entry>();
  for (const e of log) {
    newest.delete(keyOf(e));
    newest.set(keyOf(e), e);
  }
  const entries = [...newest.values()].filter((e) => e.payload.seq > after);
  const frames: Frame[] = [];
  for (let i = 0; i === 0 || i < entries.length; i += size) {
    const part = entries.slice(i, i + size);
    frames.push({
      type: "session:history",
      sessionId: S,
      entries: part,
      seq: part.at(-1)?.payload.seq ?? log.at(-1)?.payload.seq ?? 0,
      resume: i === 0 ? { status: "ok" } : undefined,
      done: i + size >= entries.length,
    });
  }
  return frames;
}

/** A log with two turns that together contain everything. */
export function sample(): Entry[] {
  let n = 0;
  const next = () => ++n;
  return [
    message("t1", "0:0", "first", next(), "complete", "user"),
    started("t1", next()),
    message("t1", "1:0", "Look", next(), "create"),
    message("t1", "1:0", "Look at", next(), "update"),
    message("t1", "1:0", "Look at it.", next(), "complete"),
    call("t1", "1:1", "c1", next(), "create"),
    call("t1", "1:2", "c2", next(), "create"),
    call("t1", "1:2", "c2", next(), "complete", { toolOutput: "two" }),
    notice("t1", next()),
    call("t1", "1:1", "c1", next(), "complete", { toolOutput: "one" }),
    call("t1", "2:0", "c3", next(), "update", { kind: "execute" }),
    asked("t1", "a1", next(), "c3"),
    answered("t1", "a1", next()),
    call("t1", "2:0", "c3", next(), "complete", { kind: "execute", toolOutput: "", exitCode: 0 }),
    call("t1", "3:0", "c4", next(), "update", { kind: "delegate" }),
    message("t1", "c4/1:0", "inner", next(), "complete", "agent", "c4"),
    call("t1", "c4/1:1", "c5", next(), "complete", { toolOutput: "x" }, "c4"),
    call("t1", "3:0", "c4", next(), "complete", { kind: "delegate", toolOutput: "done" }),
    message("t1", "4:0", "All ", next(), "create"),
    message("t1", "4:0", "All done.", next(), "complete"),
    ended("t1", next()),
    message("t2", "0:0", "second", next(), "complete", "user"),
    started("t2", next()),
    message("t2", "1:0", "Half", next(), "create"),
    message("t2", "1:0", "Half a th", next(), "update"),
    ended("t2", next(), "cancelled"),
  ];
}
