import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { empty, pending, prepend, reduce, resumeFrom, type Transcript } from "../src/model/transcript";
import type { Frame } from "../src/wire/types";
import {
  answered,
  asked,
  call,
  ended,
  history,
  live,
  message,
  notice,
  planned,
  S,
  sample,
  started,
} from "./stream";

// The visible state, without data about the connection.
const look = (t: Transcript) => ({ seq: t.seq, loaded: t.loaded, turns: t.turns });

describe("reduce", () => {
  const log = sample();
  const whole = reduce(empty, history(log));

  it("gives the same, live or as history", () => {
    const first = reduce(empty, history([]));
    expect(look(reduce(first, log.map(live)))).toEqual(look(whole));
  });

  it("gives the same whatever is cut, repeated or batched", () => {
    const positions = fc.array(fc.integer({ min: 0, max: log.length }), { maxLength: 6 });
    fc.assert(
      fc.property(positions, fc.integer({ min: 1, max: 7 }), fc.boolean(), (cuts, size, twice) => {
        let t = empty;
        let told = 0; // number of log entries that exist so far
        for (const cut of [...cuts.sort((a, b) => a - b), log.length]) {
          // A connection: the history after our position, then live entries up
          // to the cut.
          const have = resumeFrom(t);
          const frames: Frame[] = [
            ...history(log.slice(0, told), have ?? 0, size),
            ...log.slice(told, cut).map(live),
          ];
          if (twice) frames.push(...log.slice(told, cut).map(live));
          for (let i = 0; i < frames.length; i += size) t = reduce(t, frames.slice(i, i + size));
          told = cut;
        }
        expect(look(t)).toEqual(look(whole));
      }),
      { numRuns: 500 },
    );
  });

  it("keeps a plan where it was made, though its id has no number", () => {
    const log = [
      started("t", 1),
      message("t", "1:0", "First I plan.", 2),
      call("t", "2:0", "c", 3, "complete"),
      planned("t", "plan:1", 4),
      call("t", "c/1:0", "d", 5, "complete", {}, "c"),
      planned("t", "plan:2", 6),
      message("t", "3:0", "Now I do it.", 7),
      call("t", "4:0", "e", 8, "complete"),
      planned("t", "4:0:plan", 9),
      message("t", "5:0", "The answer.", 10),
      ended("t", 11),
    ];
    const main = ["1:0", "2:0", "plan:1", "plan:2", "3:0", "4:0", "4:0:plan", "5:0"];
    const ids = (t: Transcript) => t.turns[0]?.items.map((it) => it.itemId.slice(2));
    expect(ids(reduce(reduce(empty, history([])), log.map(live)))).toEqual([...main, "c/1:0"]);
    expect(ids(reduce(empty, history(log)))).toEqual([...main, "c/1:0"]);
  });

  it("appends text to the item that it continues", () => {
    const append = (place: string, offset: number, text: string, seq: number): Frame => ({
      type: "session:append",
      sessionId: S,
      payload: { itemId: `t:${place}`, offset, text, seq },
    });
    const open = { toolArguments: undefined, toolArgumentsText: "{" };
    const before = reduce(reduce(empty, history([])), [
      live(started("t", 1)),
      live(message("t", "1:0", "é", 2, "create")),
      live(call("t", "2:0", "c", 3, "update")),
      live(call("t", "3:0", "d", 4, "create", open)),
      live(message("t", "4:0", "over", 5)),
    ]);
    const after = reduce(before, [
      append("1:0", 2, " is", 6),
      append("1:0", 5, " long", 7),
      append("2:0", 0, "out", 8),
      append("2:0", 3, "put", 9),
      append("3:0", 1, "}", 10),
      append("1:0", 2, " again", 11), // ignored, because the item does not end at position 2
      append("1:0", 10, " older", 4),
      append("4:0", 4, " not over", 12),
      append("5:0", 0, "unknown", 13),
    ]);
    const [one, two, three, four] = after.turns[0]?.items ?? [];
    expect(one).toMatchObject({ seq: 7, status: "create", message: { content: "é is long" } });
    expect(two).toMatchObject({ seq: 9, tool_call: { toolOutput: "output" } });
    expect(three).toMatchObject({ seq: 10, tool_call: { toolArgumentsText: "{}" } });
    expect(four).toMatchObject({ seq: 5, message: { content: "over" } });
    expect(after.turns[0]?.items).toHaveLength(4);
    expect(after.seq).toBe(13);
    expect(before.turns[0]?.items[0]).toMatchObject({ message: { content: "é" } });
  });

  it("begins the history again if it was cut in the middle", () => {
    const frames = history(log, 0, 5);
    const half = reduce(empty, frames.slice(0, 2));
    expect(half.loaded).toBe(false);
    expect(resumeFrom(half)).toBeUndefined();
    expect(look(reduce(half, history(log)))).toEqual(look(whole));
  });

  it("resumes before what an open item may have grown by", () => {
    // The newest text of the item was at position 4; the server had sent
    // position 5, of another item.
    const t = reduce(
      reduce(empty, history([])),
      [started("t", 1), message("t", "1:0", "ab", 4, "update"), notice("t", 5)].map(live),
    );
    expect(t.seq).toBe(5);
    expect(resumeFrom(t)).toBe(4);
    expect(resumeFrom(reduce(t, [live(ended("t", 6))]))).toBe(6);
  });

  it("keeps a finished item against late news of it", () => {
    const t = reduce(
      empty,
      [
        message("t", "1:0", "whole", 5),
        message("t", "1:0", "who", 3, "update"),
        message("t", "1:0", "bad", 6, "update"),
      ].map(live),
    );
    expect(t.turns[0]?.items).toMatchObject([{ status: "complete", message: { content: "whole" } }]);
  });

  it("keeps items in the order of their ids, in whatever order they come", () => {
    const t = reduce(
      empty,
      [
        call("t", "2:0", "c", 9, "complete"),
        message("t", "1:1", "b", 3),
        message("t", "1:0", "a", 8),
        message("t", "0:0", "u", 1),
        message("t", "10:0", "z", 10),
      ].map(live),
    );
    expect(t.turns[0]?.items.map((i) => i.itemId)).toEqual(["t:0:0", "t:1:0", "t:1:1", "t:2:0", "t:10:0"]);
  });

  it("lets the first end of a turn and the first answer win", () => {
    const t = reduce(
      empty,
      [
        started("t", 1),
        asked("t", "a", 2),
        answered("t", "a", 3),
        asked("t", "a", 2),
        ended("t", 4, "error"),
        ended("t", 5),
      ].map(live),
    );
    expect(t.turns[0]?.ended?.type).toBe("turn_error");
    expect(t.turns[0]?.approvals).toMatchObject([
      {
        status: "resolved",
        by: "user",
        approval: { toolName: "Read", choices: [{ id: "yes" }, { id: "no" }] },
      },
    ]);
    expect(pending(t)).toEqual([]);
  });

  it("knows what waits, oldest first, and that nothing does after the end", () => {
    const t = reduce(empty, [started("t", 1), asked("t", "a", 2), asked("t", "b", 3)].map(live));
    expect(pending(t).map((p) => p.approval.id)).toEqual(["a", "b"]);
    expect(pending(reduce(t, [live(ended("t", 4))]))).toEqual([]);
  });

  it("says what was lost and keeps what is here", () => {
    const gap: Frame = {
      type: "session:history",
      sessionId: S,
      entries: [],
      seq: 40,
      resume: { status: "gap", from: 27, to: 40 },
      done: true,
    };
    const t = reduce(whole, [gap]);
    expect(t.turns).toEqual(whole.turns);
    expect(t.breaks).toMatchObject([{ afterTurn: 2, text: expect.stringContaining("27 to 40") }]);
  });

  it("begins anew after a reset", () => {
    const fresh: Frame = {
      type: "session:history",
      sessionId: S,
      entries: [message("n", "0:0", "new", 1, "complete", "user")],
      seq: 1,
      resume: { status: "reset", reason: "restored from a copy" },
      done: true,
    };
    const t = reduce(whole, [fresh]);
    expect(t.turns.map((x) => x.id)).toEqual(["n"]);
    expect(t.seq).toBe(1);
    expect(t.breaks[0]?.text).toContain("restored from a copy");
  });

  it("does not touch the state it was given", () => {
    const frozen = deepFreeze(reduce(empty, history(log.slice(0, 12))));
    expect(() => reduce(frozen, log.map(live))).not.toThrow();
  });

  it("leaves turns that did not change as they are", () => {
    const more = reduce(whole, [live(message("t3", "0:0", "x", 99, "complete", "user"))]);
    expect(more.turns[0]).toBe(whole.turns[0]);
    expect(more.turns[1]).toBe(whole.turns[1]);
  });
});

function deepFreeze<T>(v: T): T {
  if (typeof v === "object" && v !== null && !(v instanceof Map)) {
    Object.freeze(v);
    Object.values(v).forEach(deepFreeze);
  }
  return v;
}

describe("prepend", () => {
  const log = sample();
  const whole = reduce(empty, history(log));

  // The entries of a page, as the server makes it: each object that ended in it.
  const entriesOf = (part: typeof log) => {
    const ended = new Map<string, (typeof log)[number]>();
    for (const e of log) if (e.type === "session:upsert") ended.set(e.payload.itemId, e); // its last frame
    return part.filter((e) => e.type !== "session:upsert" || ended.get(e.payload.itemId) === e);
  };

  it("gives the same as the whole history, wherever it is cut", () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 1, max: log.length - 1 }), { maxLength: 5 }), (at) => {
        const cuts = [...new Set(at)].sort((a, b) => b - a);
        const newest = cuts[0] ?? 0;
        const [tail] = history(entriesOf(log.slice(newest)), 0, 1000);
        let t = reduce(empty, [
          { ...(tail as Extract<Frame, { type: "session:history" }>), first: newest + 1 },
        ]);
        for (const [i, end] of cuts.entries()) {
          const begin = cuts[i + 1] ?? 0;
          t = prepend(t, entriesOf(log.slice(begin, end)), begin > 0 ? begin + 1 : undefined);
        }
        if (cuts.length === 0) t = { ...t, first: undefined };
        const shape = (s: Transcript) =>
          s.turns.map((turn) => ({
            ...turn,
            approvals: turn.approvals.map((a) => [a.approval.id, a.status]),
          }));
        expect(shape(t)).toEqual(shape(whole));
        expect([...t.index]).toEqual([...whole.index]);
        expect(t.first).toBeUndefined();
      }),
      { numRuns: 300 },
    );
  });

  it("counts what it adds, and keeps the place of a break", () => {
    const t = {
      ...reduce(empty, [live(started("t2", 30)), live(message("t2", "1:0", "now", 31))]),
      breaks: [{ afterTurn: 1, text: "gap" }],
    };
    const all = prepend(t, [started("t1", 1), message("t1", "1:0", "then", 2), ended("t1", 3)], undefined);
    expect(all.turns.map((turn) => turn.id)).toEqual(["t1", "t2"]);
    expect(all.breaks).toEqual([{ afterTurn: 2, text: "gap" }]);
    expect(all.older).toBe(1);
  });

  it("gives a notice without a turn to the turn before it, on an older page", () => {
    const alone = { ...notice("x", 5), payload: { ...notice("x", 5).payload, turnId: undefined } } as never;
    const t = reduce(empty, [live(alone), live(started("t2", 6))]);
    const all = prepend(t, [started("t1", 1), ended("t1", 3)], undefined);
    expect(all.turns.map((turn) => turn.notices.length)).toEqual([1, 0]);
    expect(all.early).toEqual([]);
  });
});
