// @vitest-environment jsdom

import { act } from "react";
import { createRoot, type Root } from "react-dom/client";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { ProfileField } from "../src/sessions/Profiles";
import { parseProfiles, parseStatus } from "../src/wire/parse";

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

const answer = {
  profiles: [
    { name: "broken", project: false, path: "/x", error: 'broken.md:2: unknown key "tols"' },
    { name: "lead", project: false, path: "/x", default: true, description: "Plans the work" },
    { name: "reviewer", project: true, path: "/x", description: "Reads only" },
    { project: true },
    5,
  ],
};

it("reads the profiles that the server lists", () => {
  expect(parseProfiles(answer).map((p) => [p.name, p.project, p.default, p.error !== undefined])).toEqual([
    ["broken", false, false, true],
    ["lead", false, true, false],
    ["reviewer", true, false, false],
  ]);
  expect(parseProfiles(null)).toEqual([]);
  expect(parseStatus({ sessionId: "s", persona: "lead" })?.persona).toBe("lead");
});

it("offers those that can be chosen, and says what is wrong with the others", () => {
  const chose = vi.fn();
  const show = (value: string) =>
    act(() => root.render(<ProfileField profiles={parseProfiles(answer)} value={value} onChange={chose} />));
  show("");
  const select = at.querySelector("select") as HTMLSelectElement;
  expect([...select.options].map((o) => [o.value, o.text])).toEqual([
    ["", "lead (default)"],
    ["reviewer", "reviewer (this project)"],
  ]);
  expect(at.textContent).toContain("Plans the work");
  expect(at.textContent).toContain('Cannot be chosen: broken.md:2: unknown key "tols"');
  act(() => {
    select.value = "reviewer";
    select.dispatchEvent(new Event("change", { bubbles: true }));
  });
  expect(chose).toHaveBeenCalledWith("reviewer");
  show("reviewer");
  expect(at.textContent).toContain("Reads only");
});

it("shows nothing where there are no profiles", () => {
  act(() => root.render(<ProfileField profiles={[]} value="" onChange={() => {}} />));
  expect(at.textContent).toBe("");
});
