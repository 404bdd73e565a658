// @vitest-environment jsdom

// Rules: the page shows exactly what a rule would allow before it is stored,
// and every stored rule can be removed.

import { act } from "react";
import { createRoot, type Root } from "react-dom/client";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { Rules, RuleText } from "../src/app/Rules";
import { ApprovalBar } from "../src/composer/ApprovalBar";
import { empty } from "../src/model/transcript";
import { parseRules, parseSuggestedRules } from "../src/wire/parse";
import type { Approval, RuleFields, SessionStatus } from "../src/wire/types";

(globalThis as { IS_REACT_ACT_ENVIRONMENT?: boolean }).IS_REACT_ACT_ENVIRONMENT = true;

const approval: Approval = {
  id: "a",
  kind: "tool",
  title: "",
  toolName: "Bash",
  arguments: { command: "git log -p" },
  argumentsDigest: "d",
  choices: [
    { id: "yes", kind: "allow_once", label: "Allow once" },
    { id: "no", kind: "deny", label: "Deny" },
  ],
};

let root: Root;
let host: HTMLElement;
let asked: string[];
let answers: Record<string, unknown>;

beforeEach(() => {
  vi.useFakeTimers();
  asked = [];
  answers = {};
  vi.stubGlobal("fetch", async (path: string, init: RequestInit) => {
    asked.push(`${init.method} ${path} ${init.body ?? ""}`.trim());
    return new Response(JSON.stringify(answers[`${init.method} ${path}`] ?? {}));
  });
  host = document.createElement("div");
  document.body.replaceChildren(host);
  root = createRoot(host);
});
afterEach(() => {
  act(() => root.unmount());
  vi.unstubAllGlobals();
  vi.useRealTimers();
});

const bar = async (a: Approval) => {
  act(() =>
    root.render(
      <ApprovalBar
        session="s"
        transcript={empty}
        dir="/p"
        waiting={[{ turnId: "t", seq: 1, timestamp: "", status: "pending", approval: a }]}
      />,
    ),
  );
  await act(async () => void (await vi.advanceTimersByTimeAsync(600)));
};

const button = (text: string) =>
  [...host.querySelectorAll("button")].find((b) => b.textContent?.includes(text)) as HTMLButtonElement;

const click = async (b: HTMLElement) => {
  await act(async () => {
    b.click();
    await vi.advanceTimersByTimeAsync(0);
  });
};

it("shows the exact pattern before it allows it from now on", async () => {
  const rules: RuleFields[] = [
    { effect: "allow", kind: "execute", cliType: "script", projectDir: "/p", pattern: "git log -p" },
    { effect: "allow", kind: "execute", cliType: "script", projectDir: "/p", pattern: "git log *" },
  ];
  answers["GET /api/session/s/approvals/a"] = { approval, suggestedRules: rules };
  await bar(approval);
  expect(asked).toEqual([]); // no request before the user asks for rules
  await click(button("Always allow in this project…"));
  expect([...host.querySelectorAll("[data-rule]")].map((b) => b.textContent)).toEqual([
    "Always allow git log -p",
    "Always allow git log * with any arguments",
  ]);
  await click(host.querySelectorAll<HTMLElement>("[data-rule]")[1] as HTMLElement);
  expect(JSON.parse(asked[1]?.replace("POST /api/session/s/approvals/a ", "") ?? "")).toEqual({
    choice: "yes",
    argumentsDigest: "d",
    remember: rules[1],
  });
});

it("says that no rule can match the call", async () => {
  answers["GET /api/session/s/approvals/a"] = { approval, suggestedRules: [] };
  await bar(approval);
  await click(button("Always allow in this project…"));
  expect(host.textContent).toContain("No rule can match exactly this call");
  expect(host.querySelector("[data-rule]")).toBeNull();
});

it("offers no rule for a question, or without a choice that allows once", async () => {
  await bar({ ...approval, kind: "plan" });
  expect(button("Always allow in this project…")).toBeUndefined();
  await bar({ ...approval, id: "b", choices: approval.choices.slice(1) });
  expect(button("Always allow in this project…")).toBeUndefined();
});

it("lists the rules of a session and removes one", async () => {
  const rule = { effect: "allow", kind: "execute", by: "laptop", createdAt: "2026-11-22T01:00:00Z", uses: 2 };
  answers["GET /api/rules"] = {
    rules: [
      { ...rule, id: 1, pattern: "git status", projectDir: "/p" },
      { ...rule, id: 2, pattern: "ls", projectDir: "/other" },
      { ...rule, id: 3, pattern: "rm *", effect: "deny" },
      { ...rule, id: 4, pattern: "pwd", cliType: "another" },
    ],
  };
  const s = { sessionId: "s", cliType: "script", projectDir: "/p/below", pendingApprovals: [] };
  await act(async () => {
    root.render(<Rules s={s as unknown as SessionStatus} />);
    await vi.advanceTimersByTimeAsync(0);
  });
  expect([...host.querySelectorAll("li p:first-child")].map((p) => p.textContent)).toEqual([
    "Allow git status",
    "Deny rm * with any arguments",
  ]);
  expect(host.textContent).toContain("Rule 1, created by laptop on");
  expect(host.textContent).toContain("used 2 times");
  answers["GET /api/rules"] = { rules: [] };
  await click(host.querySelector('[aria-label="Remove rule 1"]') as HTMLElement);
  expect(asked).toEqual(["GET /api/rules", "DELETE /api/rules/1", "GET /api/rules"]);
  expect(host.textContent).toBe("");
});

it("keeps the focus in the list when a rule is removed", async () => {
  const rule = (id: number) => ({
    id,
    effect: "allow",
    kind: "execute",
    pattern: `make ${id}`,
    createdAt: "2026-11-22T01:00:00Z",
    uses: 0,
  });
  const s = { sessionId: "s", cliType: "script", projectDir: "/p", pendingApprovals: [] };
  answers["GET /api/rules"] = { rules: [rule(1), rule(2), rule(3)] };
  await act(async () => {
    root.render(<Rules s={s as unknown as SessionStatus} />);
    await vi.advanceTimersByTimeAsync(0);
  });
  const remove = async (id: number, left: number[]) => {
    answers["GET /api/rules"] = { rules: left.map(rule) };
    const b = host.querySelector<HTMLElement>(`[aria-label="Remove rule ${id}"]`);
    b?.focus();
    await click(b as HTMLElement);
    return document.activeElement?.getAttribute("aria-label");
  };
  expect(await remove(2, [1, 3])).toBe("Remove rule 3");
  expect(await remove(3, [1])).toBe("Remove rule 1");
});

it("says what each kind of rule is about", () => {
  const text = (rule: Partial<RuleFields>) => {
    act(() => root.render(<RuleText rule={{ effect: "allow", kind: "execute", ...rule }} dir="/p" />));
    return host.textContent;
  };
  expect(text({ kind: "edit", pattern: "/p" })).toBe("changes to everything in this project");
  expect(text({ kind: "edit", pattern: "/p/src" })).toBe("changes to /p/src");
  expect(text({ kind: "fetch", pattern: "*.example.com" })).toBe("requests to *.example.com");
  expect(text({ kind: "connect", pattern: "example.com:443" })).toBe("connections to example.com:443");
  expect(text({ kind: "tool", tool: "mcp__t__add" })).toBe("calls of mcp__t__add");
  expect(text({ pattern: "ls \u202etxt" })).not.toContain("\u202e");
});

it("leaves out rules that it does not understand", () => {
  const whole = { id: 1, effect: "allow", kind: "tool", tool: "x" };
  expect(
    parseRules({
      rules: [whole, { ...whole, kind: "all" }, { ...whole, effect: "ask" }, { ...whole, id: "1" }, 1],
    }),
  ).toHaveLength(1);
  expect(parseSuggestedRules({ suggestedRules: [whole, {}, null] })).toHaveLength(1);
  expect(parseRules(undefined)).toEqual([]);
});
