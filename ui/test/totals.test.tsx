// @vitest-environment jsdom

// The details show what the whole session has cost, also if only its newest
// turns are loaded.

import { act } from "react";
import { createRoot, type Root } from "react-dom/client";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { Totals } from "../src/app/Totals";
import { parseSessionUsage } from "../src/wire/usage";

(globalThis as { IS_REACT_ACT_ENVIRONMENT?: boolean }).IS_REACT_ACT_ENVIRONMENT = true;

let root: Root;
let host: HTMLElement;
let answer: Response;
let asked: string[];
beforeEach(() => {
  vi.useFakeTimers();
  asked = [];
  vi.stubGlobal("fetch", async (path: string) => {
    asked.push(path);
    return answer;
  });
  host = document.body.appendChild(document.createElement("div"));
  root = createRoot(host);
});
afterEach(() => {
  act(() => root.unmount());
  host.remove();
  vi.unstubAllGlobals();
  vi.useRealTimers();
});

const turns = Array.from({ length: 3 }, (_, i) => ({
  id: `t${i}`,
  items: [],
  approvals: [],
  notices: [],
  ended: { type: "turn_complete" as const, turnId: `t${i}`, sessionId: "a/b", seq: i, timestamp: "" },
}));

const show = async (ended: number) => {
  await act(async () => {
    root.render(<Totals session="a/b" turns={turns.slice(0, ended)} />);
    await vi.advanceTimersByTimeAsync(0);
  });
  return host.textContent;
};

const total = (fields: object) =>
  new Response(JSON.stringify({ total: { turns: 3, unpricedTurns: 0, ...fields }, groups: [] }));

it("shows the cost and the tokens of all turns, and reads them again after a turn", async () => {
  answer = total({ costUsd: 1.5, usage: { inputTokens: 100, outputTokens: 20, cacheReadInputTokens: 900 } });
  expect(await show(1)).toBe("Tokens and cost$1.50 in 3 turnsNew input100Read from the cache900Output20");
  expect(asked).toEqual(["/api/usage?sessionId=a%2Fb&limit=1"]);
  answer = total({ costUsd: 2, unpricedTurns: 1, usage: { inputTokens: 5, outputTokens: 20 } });
  expect(await show(2)).toBe("Tokens and cost$2.00 in 3 turns (1 turn without a cost)New input5Output20");
});

it("shows no cost if the agent reports none, and nothing without usage or a server", async () => {
  answer = total({ unpricedTurns: 3, costUsd: 0, usage: { inputTokens: 5, outputTokens: 2 } });
  expect(await show(1)).toBe("Tokens and costNew input5Output2");
  answer = total({ turns: 0 });
  expect(await show(2)).toBe("");
  answer = new Response("{}", { status: 500 });
  expect(await show(3)).toBe("");
  expect(parseSessionUsage(7)).toEqual({
    turns: 0,
    unpricedTurns: 0,
    costUsd: 0,
    usage: { inputTokens: 0, outputTokens: 0 },
  });
});
