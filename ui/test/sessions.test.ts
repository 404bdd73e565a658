// @vitest-environment jsdom

import { expect, it } from "vitest";
import { titleOf } from "../src/app/tab";
import { parseRoute, pathOf, takeCode } from "../src/model/routes";
import { groups, needsYou, news } from "../src/sessions/groups";
import { markOf } from "../src/sessions/StateMark";
import type { Approval, SessionStatus } from "../src/wire/types";

const ask: Approval = { id: "a", kind: "tool", title: "", choices: [] };
const session = (
  id: string,
  dir: string,
  minute: number,
  more: Partial<SessionStatus> = {},
): SessionStatus => ({
  sessionId: id,
  cliType: "script",
  projectId: dir,
  projectDir: dir,
  title: id,
  state: "open",
  activity: "idle",
  lastSeq: 1,
  isAlive: false,
  given: {},
  pendingApprovals: [],
  queued: 0,
  seenSeq: 0,
  createdAt: "",
  lastActiveAt: new Date(Date.UTC(2026, 0, 1, 0, minute)).toISOString(),
  ...more,
});

it("floats what waits to the top, the rest by folder, newest first", () => {
  const all = [
    session("old", "/a", 1),
    session("new", "/a", 5),
    session("b", "/b", 3),
    session("asks", "/b", 0, { pendingApprovals: [ask] }),
  ];
  expect(groups(all, "").map((g) => [g.key, g.sessions.map((s) => s.sessionId)])).toEqual([
    ["needs-you", ["asks"]],
    ["/a", ["new", "old"]],
    ["/b", ["b"]],
  ]);
});

it("leaves archived sessions out, or lists only these", () => {
  const all = [session("a", "/a", 1), session("b", "/a", 2, { archived: true })];
  const ids = (archived: boolean) =>
    groups(all, "", archived).flatMap((g) => g.sessions.map((s) => s.sessionId));
  expect(ids(false)).toEqual(["a"]);
  expect(ids(true)).toEqual(["b"]);
});

it("filters by every word in what is shown", () => {
  const all = [session("fix login", "/src/web", 1), session("fix build", "/src/api", 2)];
  expect(groups(all, "FIX api").flatMap((g) => g.sessions.map((s) => s.title))).toEqual(["fix build"]);
  expect(groups(all, "nothing")).toEqual([]);
});

it("tells the state of a session, the most pressing first", () => {
  expect(markOf(session("x", "/", 0, { pendingApprovals: [ask], activity: "working" }))).toBe("waiting");
  expect(markOf(session("x", "/", 0, { activity: "working", lastTurn: "error" }))).toBe("working");
  expect(markOf(session("x", "/", 0, { state: "dead", lastTurn: "error" }))).toBe("ended");
  expect(markOf(session("x", "/", 0, { lastTurn: "error" }))).toBe("failed");
  expect(markOf(session("x", "/", 0, { lastTurn: "cancelled" }))).toBe("idle");
});

it("reads and writes the address", () => {
  for (const r of [
    { at: "home" },
    { at: "list" },
    { at: "new" },
    { at: "session", id: "claude-code:a/b c" },
  ] as const)
    expect(parseRoute(new URL(pathOf(r), "http://x").search)).toEqual(r);
});

it("takes the code out of the address", () => {
  history.replaceState(null, "", "/?session=s#c=rnl_a-b%5F");
  expect(takeCode()).toBe("rnl_a-b_");
  expect(location.hash).toBe("");
  expect(location.search).toBe("?session=s");
  expect(takeCode()).toBeUndefined();
});

it("tells what waits, what runs and what finished since it was seen", () => {
  const all = [
    session("seen", "/a", 1, { lastSeq: 7 }),
    session("elsewhere", "/a", 1, { lastSeq: 9, seenSeq: 9 }), // on another device
    session("new", "/a", 2, { lastSeq: 8 }),
    session("failed", "/b", 3, { lastTurn: "error" }),
    session("runs", "/b", 4, { activity: "working" }),
    session("asks", "/b", 0, { pendingApprovals: [ask] }),
    session("away", "/b", 0, { archived: true }),
  ];
  const { needsYou, running, finished } = news(all, { seen: 7, new: 7 });
  const ids = (list: SessionStatus[]) => list.map((s) => s.sessionId);
  expect([ids(needsYou), ids(running), ids(finished)]).toEqual([["asks"], ["runs"], ["failed", "new"]]);
});

it("counts the sessions that need somebody, and names the one on the screen", () => {
  const all = [
    session("a", "/a", 1, { pendingApprovals: [ask] }),
    session("b", "/a", 2, { activity: "waiting" }),
    session("old", "/a", 3, { pendingApprovals: [ask], archived: true }),
    session("runs", "/a", 4, { activity: "working" }),
  ];
  expect(needsYou(all).map((s) => s.sessionId)).toEqual(["a", "b"]);
  expect(titleOf(2, "fix\u0007 it")).toBe("(2) Runnel – fix‹BEL› it");
  expect(titleOf(0, "")).toBe("Runnel – New session");
  expect(titleOf(1)).toBe("(1) Runnel");
});
