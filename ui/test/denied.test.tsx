// @vitest-environment jsdom

// A tool call that was denied looks calm: nothing failed.

import { act } from "react";
import { createRoot } from "react-dom/client";
import { expect, it } from "vitest";
import type { ToolItem, ToolState } from "../src/model/rows";
import { toggle } from "../src/model/store";
import { Tool } from "../src/stream/Tool";
import { call } from "./stream";

(globalThis as { IS_REACT_ACT_ENVIRONMENT?: boolean }).IS_REACT_ACT_ENVIRONMENT = true;

function shown(state: ToolState): HTMLElement {
  const entry = call("t", "1:0", "c", 1, "error", {
    kind: "execute",
    toolArguments: { command: "rm -rf /" },
  });
  const item = { ...(entry.payload as ToolItem), errorMessage: "The user denied the call." };
  const host = document.createElement("div");
  const root = createRoot(host);
  act(() => root.render(<Tool item={item} state={state} dir="/p" />));
  const copy = host.cloneNode(true) as HTMLElement;
  act(() => root.unmount());
  return copy;
}

it("reads denied, and has nothing in the colour of failures", () => {
  toggle("t:1:0"); // expanded, so the error message shows
  const denied = shown("denied");
  expect(denied.querySelector("button")?.textContent).toMatch(/denied$/);
  expect(denied.textContent).toContain("The user denied the call.");
  expect(denied.querySelector(".text-del")).toBeNull();
  expect(shown("failed").querySelector(".text-del")).not.toBeNull();
});
