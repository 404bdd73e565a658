// @vitest-environment jsdom

// A key answers a question only if the focus is in no text field and the
// question has been visible for a while.

import { act } from "react";
import { createRoot, type Root } from "react-dom/client";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { ApprovalBar } from "../src/composer/ApprovalBar";
import { empty } from "../src/model/transcript";
import type { Approval } from "../src/wire/types";

(globalThis as { IS_REACT_ACT_ENVIRONMENT?: boolean }).IS_REACT_ACT_ENVIRONMENT = true;

const approval: Approval = {
  id: "a",
  kind: "tool",
  title: "",
  toolName: "Bash",
  arguments: { command: "rm -rf /precious" },
  choices: [
    { id: "yes", kind: "allow_once", label: "Allow once" },
    { id: "no", kind: "deny", label: "Deny" },
  ],
};

let root: Root;
let answers: string[];
let composer: HTMLTextAreaElement;

beforeEach(() => {
  vi.useFakeTimers();
  answers = [];
  vi.stubGlobal("fetch", async (_path: string, init: RequestInit) => {
    answers.push(JSON.parse(String(init.body)).choice);
    return new Response("{}");
  });
  document.body.innerHTML = '<textarea id="composer"></textarea><input id="other"><div id="host"></div>';
  composer = document.getElementById("composer") as HTMLTextAreaElement;
  root = createRoot(document.getElementById("host") as HTMLElement);
  act(() =>
    root.render(
      <ApprovalBar
        session="s"
        transcript={empty}
        dir="/p"
        waiting={[{ turnId: "t", seq: 1, timestamp: "", status: "pending", approval }]}
      />,
    ),
  );
});
afterEach(() => {
  act(() => root.unmount());
  vi.unstubAllGlobals();
  vi.useRealTimers();
});

/**
 * Presses a key on the focused element, and returns whether the page prevented
 * its default.
 */
const press = async (key: string): Promise<boolean> => {
  const e = new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true });
  await act(async () => {
    (document.activeElement ?? document.body).dispatchEvent(e);
    await vi.advanceTimersByTimeAsync(0);
  });
  return e.defaultPrevented;
};
const later = (ms: number) => act(() => vi.advanceTimersByTimeAsync(ms));

it("leaves a digit to the empty composer, however long the question is there", async () => {
  composer.focus();
  await later(60_000);
  for (const key of "1. please") expect(await press(key)).toBe(false);
  expect(answers).toEqual([]);
});

it("leaves a digit to any other field", async () => {
  document.getElementById("other")?.focus();
  await later(60_000);
  expect(await press("1")).toBe(false);
  expect(answers).toEqual([]);
});

it("takes no key and no click within 500 ms of the question", async () => {
  const allow = document.querySelector<HTMLButtonElement>("[data-choice=allow_once]");
  await later(499);
  act(() => allow?.click());
  expect(allow?.disabled).toBe(true);
  await press("1");
  expect(answers).toEqual([]);
});

it("takes no key of someone who was typing when the question came, until they pause", async () => {
  for (let i = 0; i < 20; i++) {
    await later(200);
    await press("1");
  }
  expect(answers).toEqual([]);
  await later(500);
  await press("1");
  expect(answers).toEqual(["yes"]);
});

it("counts the time only while the page is seen", async () => {
  const visible = vi.spyOn(document, "visibilityState", "get").mockReturnValue("hidden");
  act(() => void document.dispatchEvent(new Event("visibilitychange")));
  await later(60_000);
  visible.mockReturnValue("visible");
  act(() => void document.dispatchEvent(new Event("visibilitychange")));
  await press("1");
  expect(answers).toEqual([]);
  visible.mockRestore();
});
