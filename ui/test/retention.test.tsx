// @vitest-environment jsdom

import { act } from "react";
import { createRoot, type Root } from "react-dom/client";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { Retention } from "../src/app/Retention";
import { api } from "../src/wire/http";
import { type Expiry, parseExpiry } from "../src/wire/retention";

(globalThis as { IS_REACT_ACT_ENVIRONMENT?: boolean }).IS_REACT_ACT_ENVIRONMENT = true;
HTMLDialogElement.prototype.showModal ??= function (this: HTMLDialogElement) {
  this.open = true;
};
HTMLDialogElement.prototype.close ??= function (this: HTMLDialogElement) {
  this.open = false;
};

const answer = (worktree?: object) => ({
  olderThan: "720h0m0s",
  storedBytes: 4096,
  freedBytes: 2048,
  count: 1,
  sessions: [
    {
      sessionId: "s1",
      title: "Fix the login",
      projectDir: "/home/ada/greeter",
      lastActiveAt: "2026-01-01T00:00:00Z",
      bytes: 2048,
      reason: "age",
      worktree,
    },
  ],
});

describe("the preview of old sessions", () => {
  let box: HTMLElement;
  let root: Root;
  let found: Expiry;

  beforeEach(() => {
    vi.spyOn(api, "retention").mockImplementation(async () => found);
    box = document.body.appendChild(document.createElement("div"));
    root = createRoot(box);
  });
  afterEach(async () => {
    await act(async () => root.unmount());
    box.remove();
    vi.restoreAllMocks();
  });
  const open = () => act(async () => root.render(<Retention onClose={() => {}} />));

  it.each([
    [
      { ignored: ["node_modules/", ".env"] },
      "removed with its branch and with the files that git ignores: node_modules/, .env.",
    ],
    [
      { stays: true, why: "Removing it would lose new.txt.", uncommitted: 2 },
      "2 files not committedIt stays. Removing it would lose new.txt.",
    ],
    [{ unexamined: true }, "It was not examined. It is removed unless that loses work."],
    [{}, "It is removed with its branch."],
  ])("says what becomes of the worktree %j", async (state, said) => {
    found = parseExpiry(answer({ root: "/data-worktrees/greeter-1", ...state }));
    await open();
    expect(box.querySelector("[role=status]")?.textContent).toContain("1 session would be deleted");
    expect(box.querySelector("li")?.textContent).toContain("/data-worktrees/greeter-1");
    expect(box.querySelector("li")?.textContent).toContain(said);
  });

  it("asks for another age than that of the settings", async () => {
    found = parseExpiry({ storedBytes: 4096, sessions: [] });
    await open();
    expect(api.retention).toHaveBeenCalledWith(undefined);
    expect(box.querySelector("[role=status]")?.textContent).toContain("The settings delete no session.");
    found = parseExpiry(answer());
    (box.querySelector("[name=days]") as HTMLInputElement).value = "30";
    await act(async () => box.querySelector("form")?.requestSubmit());
    expect(api.retention).toHaveBeenLastCalledWith(30);
    expect(box.querySelector("li")?.textContent).not.toContain("Worktree");
  });

  it("shows why it failed", async () => {
    vi.mocked(api.retention).mockRejectedValue(new Error("this token is limited to one project"));
    await open();
    expect(box.querySelector("[role=alert]")?.textContent).toContain("one project");
  });

  it("tolerates answers of another shape", () => {
    expect(parseExpiry(undefined)).toEqual({
      limited: false,
      storedBytes: 0,
      freedBytes: 0,
      count: 0,
      sessions: [],
    });
    expect(parseExpiry({ sessions: [{}, 1, { sessionId: "a", worktree: 3 }] }).sessions).toHaveLength(1);
  });
});
