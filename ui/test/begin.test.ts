// @vitest-environment jsdom

// The first view of the page, from one answer of the server.

import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { begin, complain, refresh, useStore } from "../src/model/store";

let asked: string[];
let answers: Record<string, () => Response>;

beforeEach(() => {
  asked = [];
  useStore.setState({
    phase: "starting",
    sessions: new Map(),
    listed: false,
    agents: undefined,
    problem: undefined,
  });
  vi.stubGlobal(
    "WebSocket",
    class {
      close() {}
    },
  );
  vi.stubGlobal("fetch", async (path: string) => {
    asked.push(path);
    return answers[path]?.() ?? new Response("{}", { status: 404 });
  });
});
afterEach(() => {
  useStore.setState({ phase: "out" });
  vi.unstubAllGlobals();
  vi.useRealTimers();
});

const error = (status: number, type: string) => () =>
  new Response(JSON.stringify({ error: { type, message: type } }), { status });
const agent = { cliType: "script", displayName: "Script", installed: true };
const overview = (agents: object[]) => () =>
  new Response(
    JSON.stringify({
      sessions: [{ sessionId: "s", cliType: "script", state: "open", lastSeq: 5 }],
      agents,
      projects: [{ projectId: "p", projectDir: "/p", sessions: 1, lastActiveAt: "" }],
    }),
  );

it("needs one request", async () => {
  answers = { "/api/overview": overview([{ ...agent, checkedAt: "2026-11-22T09:30:00Z" }]) };
  await begin(undefined);
  expect(asked).toEqual(["/api/overview"]);
  const { phase, sessions, agents, projects, listed } = useStore.getState();
  expect(phase).toBe("in");
  expect(listed).toBe(true);
  expect([...sessions.keys()]).toEqual(["s"]);
  expect(agents?.map((a) => a.cliType)).toEqual(["script"]);
  expect(projects?.map((p) => p.projectDir)).toEqual(["/p"]);
});

it("shows the sessions while the server checks its agents for the first time", async () => {
  let release = () => {};
  const checked = new Promise<Response>((done) => {
    release = () => done(new Response(JSON.stringify({ agents: [agent] })));
  });
  answers = { "/api/overview": overview([{ ...agent, installed: false, checking: true }]) };
  const { fetch } = globalThis;
  vi.stubGlobal("fetch", (path: string) => (path === "/api/agents" ? checked : fetch(path)));
  await begin(undefined);
  expect(useStore.getState()).toMatchObject({ phase: "in", listed: true, agents: undefined });
  release();
  await vi.waitFor(() => expect(useStore.getState().agents?.[0]?.installed).toBe(true));
});

it("gets the results of the agents even if its first request for them fails", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  answers = {
    "/api/overview": overview([{ ...agent, installed: false, checking: true }]),
    "/api/agents": error(500, "X"),
  };
  await begin(undefined);
  await vi.waitFor(() => expect(useStore.getState().agents?.[0]?.checking).toBe(true));
  answers["/api/agents"] = () => new Response(JSON.stringify({ agents: [agent] }));
  await vi.advanceTimersByTimeAsync(2000);
  await vi.waitFor(() => expect(useStore.getState().agents?.[0]?.installed).toBe(true));
});

it("shows why the sessions cannot be loaded, and loads them once they can", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  const shown = () => useStore.getState().problem?.text;
  const why = "The sessions could not be loaded: The disk is full";
  const good = overview([{ ...agent, checkedAt: "2026-11-22T09:30:00Z" }]);
  answers = { "/api/overview": error(503, "the disk is full") };
  await begin(undefined);
  await vi.waitFor(() => expect(shown()).toBe(why));
  expect(useStore.getState()).toMatchObject({ phase: "in", listed: false });

  const again = async () => {
    const before = asked.length;
    await vi.advanceTimersByTimeAsync(4000);
    await vi.waitFor(() => expect(asked.length).toBeGreaterThan(before));
  };
  await again();
  expect(shown()).toBe(why);
  complain(undefined); // the user dismisses it
  await again();
  await again();
  expect(shown()).toBeUndefined();
  answers = { "/api/overview": good };
  await again();
  await vi.waitFor(() => expect(useStore.getState().listed).toBe(true));

  answers = { "/api/overview": error(503, "the disk is full") };
  await refresh();
  expect(shown()).toBe(why);
  answers = { "/api/overview": good };
  await again();
  await vi.waitFor(() => expect(shown()).toBeUndefined());
});

it("asks for a login only if the server refuses the browser", async () => {
  for (const [status, phase] of [
    [401, "out"],
    [403, "out"],
    [503, "in"],
    [500, "in"],
  ] as const) {
    answers = { "/api/overview": error(status, "X") };
    useStore.setState({ phase: "starting" });
    await begin(undefined);
    expect(useStore.getState().phase, String(status)).toBe(phase);
  }
});
