// @vitest-environment jsdom

// The result of an approval: who decided, by which rule, and which rule was
// stored.

import { act } from "react";
import { createRoot } from "react-dom/client";
import { expect, it } from "vitest";
import { ApprovalCard } from "../src/stream/Approval";
import type { ApprovalEvent } from "../src/wire/types";

(globalThis as { IS_REACT_ACT_ENVIRONMENT?: boolean }).IS_REACT_ACT_ENVIRONMENT = true;

function outcome(event: Partial<ApprovalEvent>): string[] {
  const host = document.createElement("div");
  const whole: ApprovalEvent = {
    turnId: "t",
    seq: 2,
    timestamp: "2026-11-22T12:00:00Z",
    status: "resolved",
    approval: {
      id: "a",
      kind: "tool",
      title: "",
      toolName: "Bash",
      choices: [
        { id: "yes", kind: "allow_once", label: "Allow once" },
        { id: "no", kind: "deny", label: "Deny" },
      ],
    },
    ...event,
  };
  const root = createRoot(host);
  act(() => root.render(<ApprovalCard id="a" event={whole} over={false} dir="/p" />));
  const copy = host.cloneNode(true) as HTMLElement;
  act(() => root.unmount());
  for (const t of copy.querySelectorAll("time")) t.remove();
  return [...copy.querySelectorAll("button, p")].map((e) => e.textContent ?? "");
}

it("names the rule that was stored with the answer, which then is not for once", () => {
  expect(outcome({ choice: "yes", by: "user", rule: 7 })).toEqual([
    "Bash: allowed by you",
    "Stored as rule 7.",
  ]);
  expect(outcome({ choice: "no", by: "user", rule: 8 })).toEqual([
    "Bash: denied by you",
    "Stored as rule 8.",
  ]);
  expect(outcome({ choice: "yes", by: "user" })).toEqual(["Bash: allowed once by you"]);
});

it("names the rule that decided, which nobody stored just then", () => {
  const reason = "allowed by rule 7, made by laptop on 2026-11-22";
  expect(outcome({ choice: "yes", by: "policy", rule: 7, reason })).toEqual([
    "Bash: allowed by rule 7",
    `Reason: ${reason}`,
  ]);
  expect(outcome({ choice: "no", by: "policy", rule: 7 })).toEqual(["Bash: denied by rule 7"]);
});

it("speaks of no rule where none decided, such as for a profile", () => {
  const reason = 'the profile "careful" does not allow Bash';
  expect(outcome({ choice: "no", by: "policy", reason })).toEqual([
    "Bash: denied without asking you",
    `Reason: ${reason}`,
  ]);
});
