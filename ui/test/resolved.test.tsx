// @vitest-environment jsdom

import { act } from "react";
import { createRoot, type Root } from "react-dom/client";
import { afterEach, beforeEach, expect, it } from "vitest";
import { Details } from "../src/app/Details";
import { empty } from "../src/model/transcript";
import { parseStatus } from "../src/wire/parse";
import type { SessionStatus } from "../src/wire/types";

(globalThis as { IS_REACT_ACT_ENVIRONMENT?: boolean }).IS_REACT_ACT_ENVIRONMENT = true;

let root: Root;
let at: HTMLElement;
beforeEach(() => {
  at = document.body.appendChild(document.createElement("div"));
  root = createRoot(at);
});
afterEach(() => {
  act(() => root.unmount());
  at.remove();
});

const status = parseStatus({
  sessionId: "s",
  createdAt: "2026-11-22T12:00:00Z",
  resolved: {
    tools: { value: ["Read", "Grep"], from: "profile" },
    model: { value: "opus", from: "turn", also: ["session"] },
    reasoningEffort: { from: "agent" },
    maxTurns: { value: 5, from: "global" },
    autoApproveTools: { value: ["Bash", "mcp__issues"], from: "profile" },
    broken: 7,
  },
}) as SessionStatus;

it("reads options with their sources, by name", () => {
  expect(status.resolved).toEqual([
    { name: "autoApproveTools", value: "Bash, mcp__issues", from: ["profile"] },
    { name: "maxTurns", value: "5", from: ["global"] },
    { name: "model", value: "opus", from: ["turn", "session"] },
    { name: "reasoningEffort", value: undefined, from: ["agent"] },
    { name: "tools", value: "Read, Grep", from: ["profile"] },
  ]);
  expect(parseStatus({ sessionId: "s" })?.resolved).toBeUndefined();
});

it("shows where each option is from in the details", () => {
  act(() => root.render(<Details s={status} transcript={empty} onClose={() => {}} />));
  const shown = at.querySelector('section[aria-label="Options"]')?.textContent ?? "";
  expect(shown).toContain("modelthis turn, sessionopus");
  expect(shown).toContain("maxTurnsconfiguration5");
  expect(shown).toContain("autoApproveToolsprofileBash, mcp__issues");
  expect(shown).toContain("reasoningEffortagentthe agent's own");
});
