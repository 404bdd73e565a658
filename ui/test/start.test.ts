// @vitest-environment jsdom

// A new session: its creation together with its first prompt, and forks.

import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { begin, likeliest } from "../src/model/begin";
import { fork, useStore } from "../src/model/store";
import { ApiError } from "../src/wire/error";
import { parseStatus } from "../src/wire/parse";
import type { SessionStatus } from "../src/wire/types";

let requests: { path: string; key?: string }[];
let answers: (() => Response)[];

beforeEach(() => {
  requests = [];
  vi.stubGlobal("fetch", async (path: string, init: RequestInit) => {
    if (init.method !== "POST") return new Response("{}", { status: 404 });
    requests.push({ path, key: new Headers(init.headers).get("Idempotency-Key") ?? undefined });
    const answer = answers.shift();
    if (!answer) throw new Error(`unexpected request: ${path}`);
    return answer();
  });
});
afterEach(() => vi.unstubAllGlobals());

const ok = (body: object) => () => new Response(JSON.stringify(body));
const refused = () => new Response(JSON.stringify({ error: { type: "X", message: "no" } }), { status: 409 });
const lost = () => {
  throw new TypeError("the connection was lost");
};
const beginning = (dir: string) => ({ cliType: "script", dir, options: {} });

// A reverse proxy responds in this way if the server's own response is lost, and
// the body of a response can be cut off.
const lostBehindProxy = () => new Response("<p>Bad gateway", { status: 502 });
const cut = () => new Response(new ReadableStream({ start: (c) => c.error(new TypeError("cut")) }));

it.each([lost, lostBehindProxy, cut])(
  "creates one session, however often a response is lost: %o",
  async (lost) => {
    const b = beginning("/lost");
    answers = [lost, ok({ sessionId: "one" }), lost, ok({ turnId: "t" })];
    await expect(begin(b, "text", [])).rejects.toThrow(ApiError);
    await expect(begin(b, "text", [])).rejects.toThrow(ApiError);
    expect(await begin(b, "text", [])).toEqual({ id: "one", warnings: [] });
    const paths = requests.map((r) => r.path);
    expect(paths).toEqual([
      "/api/session/create",
      "/api/session/create",
      "/api/session/one/send",
      "/api/session/one/send",
    ]);
    expect(requests[0]?.key).toMatch(/^[0-9a-f-]{36}$/);
    expect(requests[1]?.key).toBe(requests[0]?.key);

    answers = [ok({ sessionId: "two" }), ok({ turnId: "t" })];
    expect((await begin(b, "text", [])).id).toBe("two");
    expect(requests.at(-2)?.key).not.toBe(requests[0]?.key);
  },
);

it("creates another session after an error, or with other choices", async () => {
  answers = [refused, ok({ sessionId: "one" }), refused, ok({ sessionId: "two" }), ok({ turnId: "t" })];
  await expect(begin(beginning("/a"), "text", [])).rejects.toThrow("No");
  await expect(begin(beginning("/a"), "text", [])).rejects.toThrow("No"); // the prompt
  expect((await begin(beginning("/b"), "text", [])).id).toBe("two");
  const keys = requests.filter((r) => r.path.endsWith("/create")).map((r) => r.key);
  expect(new Set(keys).size).toBe(3);
});

it("makes one fork, however often a response is lost", async () => {
  answers = [lost, ok({ sessionId: "copy" }), ok({ sessionId: "second" })];
  expect(await fork("one", "t1")).toBe(false);
  expect(await fork("one", "t1")).toBe(true);
  expect(await fork("one", "t1")).toBe(true);
  const [first, again, second] = requests.map((r) => r.key);
  expect(first).toMatch(/^[0-9a-f-]{36}$/);
  expect(again).toBe(first);
  expect(second).not.toBe(first);
});

it("does not take a fork of an earlier end for one of the present end", async () => {
  answers = [lost, ok({ sessionId: "copy" })];
  const status = (lastSeq: number) => parseStatus({ sessionId: "one", cliType: "script", lastSeq });
  const at = (lastSeq: number) => new Map([["one", status(lastSeq) as SessionStatus]]);
  useStore.setState({ sessions: at(3) });
  expect(await fork("one")).toBe(false);
  useStore.setState({ sessions: at(5) });
  expect(await fork("one")).toBe(true);
  expect(requests[1]?.key).not.toBe(requests[0]?.key);
});

it("expects the commands of the newest session in the same folder", () => {
  const at = (sessionId: string, projectDir: string, minute: number, cliType = "codex") =>
    parseStatus({ sessionId, cliType, projectDir, lastActiveAt: `2026-11-22T09:1${minute}:00Z` });
  const all = [at("a", "/a", 1), at("b", "/a", 2), at("c", "/b", 3), at("d", "/a", 4, "other")];
  const best = (dir: string, ...except: string[]) =>
    likeliest(all as SessionStatus[], "codex", dir, new Set(except))?.sessionId;
  expect(best("/a")).toBe("b");
  expect(best("/a", "b")).toBe("a");
  expect(best("/a", "a", "b")).toBe("c");
  expect(best("/new")).toBe("c");
  expect(best("/a", "a", "b", "c")).toBeUndefined();
});
