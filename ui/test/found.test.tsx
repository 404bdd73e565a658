// @vitest-environment jsdom

// The search sends what its filters select, keeps them, and opens a hit in a
// conversation that is no session yet.

import { act } from "react";
import { createRoot, type Root } from "react-dom/client";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { Found } from "../src/sessions/Found";

(globalThis as { IS_REACT_ACT_ENVIRONMENT?: boolean }).IS_REACT_ACT_ENVIRONMENT = true;

const now = new Date("2026-02-01T00:00:00Z");
const all = [
  { sessionId: "s", cliType: "codex", itemId: "a:1", title: "mine", kind: "answer", snippet: [] },
  { agentSessionId: "x/y", cliType: "codex", itemId: "b:1", title: "terminal", kind: "prompt", snippet: [] },
];

let root: Root;
let host: HTMLElement;
let asked: string[];
let hits: typeof all;
beforeEach(() => {
  vi.useFakeTimers({ now });
  asked = [];
  hits = all;
  vi.stubGlobal("fetch", async (path: string, init?: RequestInit) => {
    asked.push(`${init?.method ?? "GET"} ${decodeURIComponent(path)}`);
    const load = { sessionId: "new" };
    return new Response(JSON.stringify(path.startsWith("/api/search") ? { hits } : load));
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

const settled = () => act(() => vi.advanceTimersByTimeAsync(300));
const render = async (titled = true, typed = "zebra") => {
  act(() => root.render(<Found typed={typed} titled={titled} />));
  await settled();
};
const choose = async (label: string, value: string) => {
  act(() => {
    const select = host.querySelector(`select[aria-label="${label}"]`) as HTMLSelectElement;
    select.value = value;
    select.dispatchEvent(new Event("change", { bubbles: true }));
  });
  await settled();
};

it("selects by kind and time, and keeps the choice while a session covers the list", async () => {
  await render();
  expect(asked).toEqual(["GET /api/search?q=zebra*"]);
  await choose("Kind of item", "diff");
  await choose("Time", "7");
  const last = "GET /api/search?q=zebra*&kind=diff&since=2026-01-25T00:00:0";
  expect(asked.at(-1)).toContain(last);
  act(() => root.unmount());
  root = createRoot(host);
  await render();
  expect(asked.at(-1)).toContain(last);
  await choose("Kind of item", "");
  await choose("Time", "");
  expect(asked.at(-1)).toBe("GET /api/search?q=zebra*");
});

it("makes a conversation a session when its item is opened", async () => {
  await render();
  expect(host.querySelector("a[data-hit]")?.getAttribute("href")).toBe("/?session=s&item=a%3A1");
  await act(async () => {
    (host.querySelector("button[data-hit]") as HTMLButtonElement).click();
    await vi.advanceTimersByTimeAsync(0);
  });
  expect(asked).toContain("POST /api/session/codex:x/y/load");
  expect(location.search).toBe("?session=new&item=b%3A1");
});

it("says that nothing matches only if neither a title nor a text does", async () => {
  await render(false);
  expect(host.querySelectorAll("[data-hit]").length).toBe(2);
  expect(host.textContent).not.toMatch(/No title|Nothing/);
  await render(false, "z");
  expect(host.textContent).toBe("No title matches “z”.");
  await render(true, "z");
  expect(host.textContent).toBe("");
  hits = [];
  await render(false);
  expect(host.textContent).toContain("No title and no text matches.");
  await render(true, "zebras");
  expect(host.textContent).toContain("Nothing found.");
});
