// @vitest-environment jsdom

// What follows an action on a session: the list is loaded again, and an error
// shows.

import { afterEach, expect, it, vi } from "vitest";
import { attempt, refresh, useStore } from "../src/model/store";

afterEach(() => void vi.unstubAllGlobals());

it("reads the list again for who asks while it is being read: the answer on its way may be old", async () => {
  let state = "dead";
  let lists = 0;
  let release = () => {};
  const held = new Promise<void>((done) => {
    release = done;
  });
  vi.stubGlobal("fetch", async (path: string) => {
    if (path !== "/api/overview") return new Response("{}");
    lists++;
    const answer = JSON.stringify({ sessions: [{ sessionId: "s", cliType: "script", state, lastSeq: 5 }] });
    if (lists === 1) await held;
    return new Response(answer);
  });
  const first = refresh();
  await vi.waitFor(() => expect(lists).toBe(1));
  state = "open"; // the session was continued meanwhile
  const again = [refresh(), refresh()];
  release();
  await Promise.all([first, ...again]);
  expect(useStore.getState().sessions.get("s")?.state).toBe("open");
  expect(lists).toBe(2);
});

it("removes no error of a later action when an earlier one succeeds", async () => {
  let release = () => {};
  const held = new Promise<void>((done) => {
    release = done;
  });
  const shown = () => useStore.getState().problem?.text;
  const earlier = attempt(() => held);
  await attempt(() => Promise.reject(new Error("no such folder")));
  release();
  await earlier;
  expect(shown()).toBe("no such folder");
  await attempt(() => Promise.resolve());
  expect(shown()).toBeUndefined();
});
