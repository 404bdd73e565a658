import { beforeEach, describe, expect, it } from "vitest";
import { empty, reduce, resumeFrom, type Transcript } from "../src/model/transcript";
import { ApiError } from "../src/wire/error";
import { parseFrame } from "../src/wire/parse";
import { Link, type LinkStatus, type World } from "../src/wire/socket";
import type { Entry, Frame } from "../src/wire/types";
import { history, S, sample } from "./stream";

// A socket whose other end is controlled by the test.
class FakeSocket {
  readyState = 0;
  sent: Record<string, unknown>[] = [];
  onopen?: () => void;
  onmessage?: (e: { data: string }) => void;
  onclose?: (e: { code: number }) => void;
  send(text: string) {
    this.sent.push(JSON.parse(text));
  }
  close() {
    this.cut(1000);
  }
  open() {
    this.readyState = 1;
    this.onopen?.();
    this.tell({ type: "session:hello:ack", selectedFamily: "upsert-v1" });
  }
  tell(frame: object) {
    this.onmessage?.({ data: JSON.stringify(frame) });
  }
  cut(code = 1006) {
    this.readyState = 3;
    this.onclose?.({ code });
  }
}

let sockets: FakeSocket[];
let timers: { f: () => void; ms: number }[];
let soon: (() => void)[];
let said: LinkStatus[];
let transcript: Transcript;
let loggedIn: boolean;
let proof: Promise<void> | undefined;
let got: Frame[];
let link: Link;

const world: World = {
  open: () => {
    sockets.push(new FakeSocket());
    return sockets.at(-1) as unknown as WebSocket;
  },
  later: (f, ms) => timers.push({ f, ms }),
  forget: (id) => {
    timers[id - 1] = { f: () => undefined, ms: -1 };
  },
  random: () => 0.5,
  soon: (f) => soon.push(f),
};

const last = () => sockets.at(-1) as FakeSocket;
const settle = () => new Promise<void>((r) => queueMicrotask(() => queueMicrotask(r)));
const draw = () => {
  for (const f of soon.splice(0)) f();
};

beforeEach(() => {
  sockets = [];
  timers = [];
  soon = [];
  said = [];
  got = [];
  transcript = empty;
  loggedIn = true;
  proof = undefined;
  link = new Link(
    "ws://x",
    {
      frames: (fs) => {
        got.push(...fs);
        transcript = reduce(transcript, fs);
      },
      status: (s) => said.push(s),
      after: () => ({ after: resumeFrom(transcript), logId: transcript.logId }),
      proof: () => proof,
      admitted: async () => loggedIn,
    },
    world,
  );
});

describe("Link", () => {
  it("says hello first and asks for the sessions", () => {
    link.start();
    link.watch(S);
    last().open();
    expect(last().sent).toEqual([
      { type: "session:hello", streamProtocol: "upsert-v1", append: true },
      { type: "sessions:subscribe" },
      { type: "session:subscribe", requestId: S, sessionId: S },
    ]);
    expect(said).toEqual(["connecting", "open"]);
  });

  it("asks for changes of the stored conversations again after a reconnect", () => {
    link.start();
    last().open();
    link.listen();
    link.listen();
    const asked = () =>
      last().sent.filter((m) => JSON.stringify(m) === '{"type":"conversations:subscribe"}').length;
    expect(asked()).toBe(1);
    link.wake(true);
    last().open();
    expect(asked()).toBe(1);
  });

  it("opens no socket before the server has proved itself", async () => {
    let proved = () => {};
    proof = new Promise((done) => {
      proved = done;
    });
    link.start();
    link.wake(false);
    expect([sockets.length, said]).toEqual([0, []]);
    proved();
    await settle();
    expect(sockets.length).toBe(1);
  });

  it("reports a program that is not the server, and asks again later", async () => {
    proof = Promise.reject(new ApiError("SERVER_NOT_PROVEN", "", 0));
    link.start();
    await settle();
    expect([sockets.length, said]).toEqual([0, ["foreign"]]);
    proof = undefined;
    timers.at(-1)?.f();
    last().open();
    expect(said).toEqual(["foreign", "connecting", "open"]);
  });

  it("stops where the server says instead that the login has ended", async () => {
    proof = Promise.reject(new ApiError("UNAUTHORIZED", "", 401));
    link.start();
    await settle();
    expect([sockets.length, said, timers]).toEqual([0, ["refused"], []]);
  });

  it("hands frames over in one go when it is time to draw", () => {
    link.start();
    last().open();
    for (const f of history(sample(), 0, 3)) last().tell(f);
    expect(got).toEqual([]);
    draw();
    expect(got.length).toBeGreaterThan(1);
  });

  it("says of which log it has a position, and begins anew where that is another", async () => {
    link.start();
    link.watch(S);
    last().open();
    const past = (resume: object) =>
      last().tell({ type: "session:history", sessionId: S, entries: [], seq: 7, resume, done: true });
    past({ status: "ok", logId: "one" });
    last().cut();
    await settle();
    timers.at(-1)?.f();
    last().open();
    expect(last().sent).toContainEqual({
      type: "session:subscribe",
      requestId: S,
      sessionId: S,
      after: 7,
      logId: "one",
    });
    past({ status: "reset", reason: "restored from a backup", logId: "two" });
    last().cut();
    expect([transcript.logId, transcript.breaks.length]).toEqual(["two", 1]);
  });

  it("comes back after each cut without loss or repetition", async () => {
    const log = sample();
    const whole = reduce(
      empty,
      history(log).flatMap((f) => parseFrame(JSON.stringify(f)) ?? []),
    );
    for (let step = 1; step < 9; step++) {
      transcript = empty;
      link.start();
      link.watch(S);
      let told = 0;
      while (told < log.length) {
        last().open();
        const sub = last().sent.find((m) => m.type === "session:subscribe") as { after?: number };
        for (const f of history(log.slice(0, told), sub.after ?? 0)) last().tell(f);
        const next = Math.min(log.length, told + step);
        for (const e of log.slice(told, next) as Entry[]) last().tell({ ...e, sessionId: S });
        told = next;
        if (told < log.length) {
          last().cut(); // before the next rendering
          await settle();
          timers.at(-1)?.f();
        }
      }
      draw();
      expect(transcript.turns).toEqual(whole.turns);
      link.stop();
    }
  });

  it("waits longer and longer, with chance in it, and begins anew once it worked", async () => {
    link.start();
    for (let i = 0; i < 8; i++) {
      last().cut();
      await settle();
      timers.at(-1)?.f();
    }
    expect(timers.map((t) => t.ms)).toEqual([187.5, 375, 750, 1500, 3000, 6000, 7500, 7500]);
    last().open();
    last().cut();
    await settle();
    expect(timers.at(-1)?.ms).toBe(187.5);
  });

  it("connects at once when the machine wakes, and drops a socket it cannot trust", () => {
    link.start();
    last().open();
    link.wake(false);
    expect(sockets.length).toBe(1);
    link.wake(true);
    expect(sockets.length).toBe(2);
    sockets[0]?.tell({ type: "session:status", sessionId: S, payload: { sessionId: S } });
    draw();
    expect(got).toEqual([]); // messages of the old socket are ignored
  });

  it("does not wait out a backoff when woken, and connects only once", async () => {
    link.start();
    last().cut();
    await settle();
    link.wake(false);
    expect(sockets.length).toBe(2);
    for (const t of timers) t.f();
    expect(sockets.length).toBe(2);
  });

  it("says so if the login has ended, and stops", async () => {
    link.start();
    last().open();
    loggedIn = false;
    last().cut(4401);
    await settle();
    expect(said.at(-1)).toBe("refused");
    expect(timers).toEqual([]);
    link.wake(true);
    expect(sockets.length).toBe(1);
  });

  it("tries on if the server is away, logged in or not known", async () => {
    link.start();
    last().cut();
    await settle();
    expect(said.at(-1)).toBe("waiting");
    expect(timers.length).toBe(1);
  });

  it("ignores what it does not understand", () => {
    link.start();
    last().open();
    last().tell({ type: "session:hologram" });
    last().onmessage?.({ data: "no json" });
    draw();
    expect(got).toEqual([]);
  });
});
