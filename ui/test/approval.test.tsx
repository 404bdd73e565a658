// @vitest-environment jsdom

import { act } from "react";
import { createRoot, type Root } from "react-dom/client";
import { afterEach, expect, it } from "vitest";
import { ApprovalBar } from "../src/composer/ApprovalBar";
import { empty, reduce } from "../src/model/transcript";
import type { Approval } from "../src/wire/types";
import { call, live } from "./stream";

(globalThis as { IS_REACT_ACT_ENVIRONMENT?: boolean }).IS_REACT_ACT_ENVIRONMENT = true;

const roots: Root[] = [];
afterEach(() =>
  act(() => {
    for (const root of roots.splice(0)) root.unmount(); // ends its timers
  }),
);

function render(approval: Partial<Approval>, transcript = empty): HTMLElement {
  const host = document.createElement("div");
  const whole: Approval = { id: "a", kind: "tool", title: "title of the agent", choices: [], ...approval };
  const waiting = [{ turnId: "t", seq: 1, timestamp: "", status: "pending" as const, approval: whole }];
  const root = createRoot(host);
  roots.push(root);
  act(() => root.render(<ApprovalBar session="s" transcript={transcript} dir="/p" waiting={waiting} />));
  return host;
}

const buttons = (host: HTMLElement) =>
  [...host.querySelectorAll("[data-choice]")].map((b) => b.querySelector(".isolate-text")?.textContent);

it("shows a choice whole, however long it is: it may say what is allowed for ever", () => {
  const label = `Allow for this session: ${"go test ./internal/… ".repeat(14)}and rm`;
  const host = render({ choices: [{ id: "x", kind: "allow_session", label }] });
  expect(buttons(host)).toEqual([label]);
});

it("offers the least first, and what denies last", () => {
  const host = render({
    choices: [
      { id: "1", kind: "deny", label: "Deny" },
      { id: "2", kind: "allow_always", label: "Always" },
      { id: "3", kind: "allow_once", label: "Once" },
    ],
  });
  expect(buttons(host)).toEqual(["Once", "Always", "Deny"]);
});

it("never says what the agent calls it where it says what would run", () => {
  const host = render({ toolName: "Bash", arguments: { command: "rm -rf ~" } });
  expect(host.textContent).toContain("rm -rf ~");
  expect(host.textContent).not.toContain("title of the agent");
});

const connect = { toolName: "connect", arguments: { host: "api.example.com", port: 443 } };

it("asks about a host that a sandbox reaches for, with the host in full", () => {
  const choices: Approval["choices"] = [
    { id: "allow_once", kind: "allow_once", label: "Allow once" },
    { id: "allow_session", kind: "allow_session", label: "Allow for this session" },
    { id: "deny", kind: "deny", label: "Deny" },
  ];
  const host = render({ ...connect, choices });
  expect(host.textContent).toContain("Reach api.example.com:443");
  expect(buttons(host)).toEqual(["Allow once", "Allow for this session", "Deny"]);
  expect(host.textContent).toContain("Always allow in this project…");
  const long = `${"a".repeat(63)}.${"b".repeat(63)}.evil.example`;
  expect(render({ ...connect, arguments: { host: long, port: 22 } }).textContent).toContain(
    `Reach ${long}:22`,
  );
});

it("asks as for any tool if an agent's own tool is called connect", () => {
  const host = render({ toolName: "connect", arguments: { target: "x" } });
  expect(host.textContent).toContain("Allow this tool call? connect");
});

it("shows a plan as text, and a question with its answers in their order", () => {
  expect(
    render({ kind: "plan", arguments: { plan: "## Steps\n\n1. one" } }).querySelector("li")?.textContent,
  ).toBe("one");
  const host = render({
    kind: "question",
    arguments: {
      questions: [
        { question: "Which?", options: [{ label: "B", description: "the second" }, { label: "A" }] },
      ],
    },
    choices: [
      { id: "b", kind: "allow_once", label: "B" },
      { id: "no", kind: "deny", label: "No" },
      { id: "a", kind: "allow_once", label: "A" },
    ],
  });
  expect(host.textContent).toContain("Which?B: the secondA");
  expect(buttons(host)).toEqual(["B", "No", "A"]);
  expect(host.querySelector(".primary")).toBeNull();
});

it("shows the plan of the call that asks, where the question has none", () => {
  const transcript = reduce(empty, [
    live(
      call("t", "1:0", "c", 1, "create", {
        toolName: "Exit",
        toolArguments: { plan: "## Steps\n\n1. rm it" },
      }),
    ),
  ]);
  const host = render({ kind: "plan", arguments: {}, callId: "c" }, transcript);
  expect(host.querySelector("li")?.textContent).toBe("rm it");
  expect(render({ kind: "plan", arguments: {} }).textContent).toContain("The plan is empty");
});

it("survives arguments of any form", () => {
  for (const args of [
    undefined,
    null,
    3,
    "text",
    [1],
    { questions: 3, plan: [] },
    { questions: [null, { options: [3] }] },
  ])
    for (const kind of ["tool", "plan", "question"] as const) render({ kind, arguments: args });
});
