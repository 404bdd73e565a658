// @vitest-environment jsdom

// Paths outside of a sandbox: the page shows what tools could not reach, allows
// a path only on a person's click, and says when that takes effect.

import { act } from "react";
import { createRoot, type Root } from "react-dom/client";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { Denials } from "../src/app/Denials";
import { Rules, RuleText } from "../src/app/Rules";
import type { RuleFields, SessionStatus } from "../src/wire/types";

(globalThis as { IS_REACT_ACT_ENVIRONMENT?: boolean }).IS_REACT_ACT_ENVIRONMENT = true;

const enclosed = {
  sessionId: "s",
  cliType: "claude-code",
  projectDir: "/p",
  lastActiveAt: "1",
  pendingApprovals: [],
  resolved: [{ name: "sandbox", value: "project", from: ["session"] }],
} as unknown as SessionStatus;

let root: Root;
let host: HTMLElement;
let asked: string[];
let answers: Record<string, unknown>;
let status: number;

beforeEach(() => {
  asked = [];
  answers = {};
  status = 200;
  vi.stubGlobal("fetch", async (path: string, init: RequestInit) => {
    asked.push(`${init.method} ${path} ${init.body ?? ""}`.trim());
    return new Response(JSON.stringify(answers[`${init.method} ${path}`] ?? {}), { status });
  });
  host = document.createElement("div");
  document.body.replaceChildren(host);
  root = createRoot(host);
});
afterEach(() => {
  act(() => root.unmount());
  vi.unstubAllGlobals();
});

const show = async (s: SessionStatus, onChange = () => {}) => {
  await act(async () => root.render(<Denials s={s} version={0} onChange={onChange} />));
};

const click = async (text: string) => {
  const b = [...host.querySelectorAll("button")].find((b) => b.textContent === text);
  await act(async () => b?.click());
};

it("shows what tools could not reach, without what it does not understand", async () => {
  answers["GET /api/session/s/denials"] = {
    denials: [
      { path: "/data/a\u202eb", access: "read", tool: "Bash", at: "2026-11-22T01:00:00Z" },
      { path: "/data/b", access: "write", at: "2026-11-22T01:00:00Z" },
      { path: "/data/c", access: "all" },
      { access: "read" },
      1,
    ],
  };
  await show(enclosed);
  const rows = [...host.querySelectorAll("li p:first-child")].map((p) => p.textContent);
  expect(rows).toHaveLength(2);
  expect(rows[0]).not.toContain("\u202e");
  expect(rows[0]).toContain("by Bash");
  expect(rows[1]).toBe("Write /data/b");
});

it("allows a path on a click, and says when that takes effect", async () => {
  answers["GET /api/session/s/denials"] = { denials: [{ path: "/data", access: "read", at: "" }] };
  const changed = vi.fn();
  await show(enclosed, changed);
  expect(asked).toEqual(["GET /api/session/s/denials"]); // nothing is allowed before
  answers["POST /api/rules"] = { rule: {}, sandboxes: { stopped: [], nextTurn: ["s"] } };
  await click("Allow in this session");
  expect(asked[1]).toBe(
    'POST /api/rules {"effect":"allow","kind":"sandbox_read","pattern":"/data","sessionId":"s"}',
  );
  expect(changed).toHaveBeenCalledTimes(1);
  expect(host.querySelector('[role="status"]')?.textContent).toBe("This takes effect with the next turn.");
  answers["POST /api/rules"] = { rule: {}, sandboxes: { stopped: ["s"], nextTurn: [] } };
  await click("In this project");
  expect(asked[2]).toBe(
    'POST /api/rules {"effect":"allow","kind":"sandbox_read","pattern":"/data","projectDir":"/p"}',
  );
  expect(host.querySelector('[role="status"]')?.textContent).toContain("The agent was stopped.");
});

it("allows writing where a tool could not write", async () => {
  answers["GET /api/session/s/denials"] = { denials: [{ path: "/data", access: "write", at: "" }] };
  await show(enclosed);
  await click("Allow in this session");
  expect(asked[1]).toContain('"kind":"sandbox_write"');
});

it("asks nothing for a session without a sandbox, and is silent for a login that may not allow", async () => {
  await show({ ...enclosed, resolved: [{ name: "sandbox", value: "off", from: ["agent"] }] });
  expect(asked).toEqual([]);
  status = 403;
  await show(enclosed);
  expect(asked).toEqual(["GET /api/session/s/denials"]);
  expect(host.textContent).toBe("");
});

it("lists the rules about the sandbox of this session only, and removes one", async () => {
  const rule = {
    effect: "allow",
    kind: "sandbox_read",
    projectDir: "/p",
    by: "laptop",
    createdAt: "2026-11-22T01:00:00Z",
    uses: 0,
  };
  answers["GET /api/rules"] = {
    rules: [
      { ...rule, id: 1, pattern: "/data", sessionId: "s" },
      { ...rule, id: 2, pattern: "/other", sessionId: "another" },
      { ...rule, id: 3, pattern: "/models", kind: "sandbox_write" },
    ],
  };
  const changed = vi.fn();
  await act(async () => root.render(<Rules s={enclosed} onChange={changed} />));
  expect([...host.querySelectorAll("li p:first-child")].map((p) => p.textContent)).toEqual([
    "Allow the sandbox to read /data",
    "Allow the sandbox to read and write /models",
  ]);
  expect(host.textContent).toContain("for this session");
  await act(async () => host.querySelector<HTMLElement>('[aria-label="Remove rule 1"]')?.click());
  expect(asked).toContain("DELETE /api/rules/1");
  expect(changed).toHaveBeenCalledTimes(1);
});

it("says what a rule about sandboxes allows", () => {
  const rule: RuleFields = { effect: "allow", kind: "sandbox_write", pattern: "/data" };
  act(() => root.render(<RuleText rule={rule} dir="/p" />));
  expect(host.textContent).toBe("the sandbox to read and write /data");
});
