// @vitest-environment jsdom

import { afterEach, expect, it, vi } from "vitest";
import { Changes, noticeOf, wish, wishes } from "../src/model/notices";
import { alone } from "../src/wire/alone";
import { parsePush } from "../src/wire/push";
import type { Approval, SessionStatus } from "../src/wire/types";

const ask: Approval = {
  id: "a",
  kind: "tool",
  toolName: "Bash",
  title: "",
  arguments: { command: "make" },
  choices: [],
};
const session = (sessionId: string, more: Partial<SessionStatus> = {}) =>
  ({
    sessionId,
    title: sessionId,
    projectDir: "/p",
    activity: "idle",
    isAlive: true,
    pendingApprovals: [],
    queued: 0,
    ...more,
  }) as unknown as SessionStatus;
const working: Partial<SessionStatus> = { activity: "working" };
const waiting: Partial<SessionStatus> = { activity: "waiting", pendingApprovals: [ask] };

afterEach(() => {
  vi.unstubAllGlobals();
  localStorage.clear();
});

it("announces the sessions that begin to wait or finish after the first look", () => {
  const changes = new Changes();
  const take = (...sessions: SessionStatus[]) => {
    const found = changes.take(sessions);
    return [found["needs-you"], found.finished].map((l) => l.map((s) => s.sessionId));
  };
  expect(take(session("a", waiting), session("b", working), session("c"))).toEqual([[], []]);
  expect(take(session("a", waiting), session("b", waiting), session("c", working))).toEqual([["b"], []]);
  expect(take(session("a", working), session("b"), session("c", working))).toEqual([[], ["b"]]);
  expect(take(session("a", { lastTurn: "cancelled" }), session("c", { queued: 1 }))).toEqual([[], []]);
  expect(take(session("c", { lastTurn: "error" }), session("d", waiting))).toEqual([["d"], ["c"]]);
  expect(take(session("d", { archived: true, ...waiting }))).toEqual([[], []]);
});

it("writes one notice for all sessions of a kind", () => {
  expect(noticeOf("finished", [session("a")])).toEqual({
    kind: "finished",
    title: "a",
    body: "Finished",
    open: "/?session=a",
  });
  expect(noticeOf("finished", [session("a", { lastTurn: "error" })]).body).toBe("Failed");
  expect(noticeOf("needs-you", [session("a", waiting)]).body).toMatch(/^Asks: .*make/);
  expect(noticeOf("needs-you", [session("a\u202e", { title: "" })]).title).toBe("New session");
  const many = noticeOf(
    "needs-you",
    "abcdefg".split("").map((id) => session(id, waiting)),
  );
  expect(many).toMatchObject({ title: "7 sessions need you", body: "a, b, c, d, e, …", open: "/" });
});

it("notifies about nothing until a person wishes it, and then about everything", () => {
  expect(wishes()).toEqual({ tab: false, kinds: ["needs-you", "finished"] });
  wish({ tab: true });
  wish({ kinds: ["finished"] });
  expect(wishes()).toEqual({ tab: true, kinds: ["finished"] });
});

it("reads only known kinds from the server", () => {
  expect(parsePush({ publicKey: "k", kinds: ["finished", "other", 1] })).toEqual({
    publicKey: "k",
    kinds: ["finished"],
  });
  expect(parsePush(null)).toEqual({ publicKey: undefined, kinds: [] });
});

it("sends nothing while a service worker controls the page, and removes the worker", async () => {
  alone();
  const unregister = vi.fn(async () => true);
  const reload = vi.fn();
  vi.stubGlobal("location", { reload });
  vi.stubGlobal("navigator", {
    serviceWorker: { controller: {}, getRegistrations: async () => [{ unregister }] },
  });
  expect(alone).toThrow("another program");
  expect(alone).toThrow("another program");
  await vi.waitFor(() => expect(reload).toHaveBeenCalledTimes(1));
  expect(unregister).toHaveBeenCalledTimes(1);
});
