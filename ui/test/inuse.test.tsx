// @vitest-environment jsdom

// A conversation that a terminal has open offers a takeover and a fork in the
// place of the composer.

import { act } from "react";
import { createRoot } from "react-dom/client";
import { expect, it, vi } from "vitest";
import { Composer } from "../src/composer/Composer";
import { parseStatus } from "../src/wire/parse";

(globalThis as { IS_REACT_ACT_ENVIRONMENT?: boolean }).IS_REACT_ACT_ENVIRONMENT = true;

const requests: [string, unknown][] = [];
vi.stubGlobal("fetch", async (path: string, init: RequestInit) => {
  requests.push([path, init.body === undefined ? undefined : JSON.parse(String(init.body))]);
  return new Response(JSON.stringify({ sessionId: "copy" }), { status: 200 });
});

async function shown(writer: unknown) {
  const s = parseStatus({ sessionId: "one", cliType: "claude-code", writer });
  if (!s) throw new Error("the status cannot be parsed");
  const host = document.createElement("div");
  const reloaded = vi.fn();
  await act(async () => createRoot(host).render(<Composer s={s} onReload={reloaded} />));
  const press = async (label: string) => {
    const button = [...host.querySelectorAll("button")].find((b) => b.textContent === label);
    await act(async () => button?.click());
  };
  return { host, press, reloaded };
}

it("says which process has the conversation open, and how that is known", async () => {
  const registry = await shown({ pid: 123, source: "registry" });
  expect(registry.host.textContent).toContain("Process 123 has this conversation open, as the agent’s list");
  expect(registry.host.querySelector("textarea")).toBeNull();
  expect((await shown({ pid: 7, source: "descriptors" })).host.textContent).toContain("Process 7 has this");
  expect((await shown({ source: "recent" })).host.textContent).toContain("in the last 30 seconds");
  expect((await shown(undefined)).host.querySelector("textarea")).not.toBeNull();
});

it("takes the conversation over, or forks it", async () => {
  const { press, reloaded } = await shown({ pid: 123, source: "registry" });
  await press("Take over");
  expect(requests).toEqual([["/api/session/one/load", { takeOver: true }]]);
  expect(reloaded).toHaveBeenCalledOnce();
  await press("Fork");
  expect(requests[1]).toEqual(["/api/session/one/fork", {}]);
  await vi.waitFor(() => expect(location.search).toContain("copy"));
});
