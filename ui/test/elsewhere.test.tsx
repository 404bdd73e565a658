// @vitest-environment jsdom

// The list of conversations that began elsewhere is loaded again after each
// change, and keeps the pages that the user has loaded.

import { act } from "react";
import { createRoot, type Root } from "react-dom/client";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { useStore } from "../src/model/store";
import { Elsewhere, renewed } from "../src/sessions/Elsewhere";
import { parseFrame } from "../src/wire/parse";
import type { Conversation } from "../src/wire/types";

(globalThis as { IS_REACT_ACT_ENVIRONMENT?: boolean }).IS_REACT_ACT_ENVIRONMENT = true;

const of = (id: string, minute: number) =>
  ({
    cliType: "codex",
    agentSessionId: id,
    title: id,
    updatedAt: `2026-02-01T00:${String(minute).padStart(2, "0")}:00Z`,
  }) as Conversation;

let root: Root;
let host: HTMLElement;
let pages: { conversations: Conversation[]; next?: string }[];
beforeEach(() => {
  vi.stubGlobal(
    "fetch",
    async () => new Response(JSON.stringify(pages.length > 1 ? pages.shift() : pages[0])),
  );
  host = document.body.appendChild(document.createElement("div"));
  root = createRoot(host);
  useStore.setState({ stored: 0 });
});
afterEach(() => {
  act(() => root.unmount());
  host.remove();
  vi.unstubAllGlobals();
});

const shown = () =>
  [...host.querySelectorAll("[data-conversation]")].map((e) => e.getAttribute("data-conversation"));
const changed = () => act(async () => useStore.setState((s) => ({ stored: s.stored + 1 })));

it("shows a conversation that appears and one that changes", async () => {
  pages = [
    { conversations: [of("b", 2), of("a", 1)] },
    { conversations: [of("c", 3), of("b", 2), of("a", 1)] },
    { conversations: [of("a", 4), of("c", 3), of("b", 2)] },
  ];
  act(() => root.render(<Elsewhere filter="" now={0} />));
  await changed();
  expect(shown()).toEqual([]); // nobody wants to see them
  act(() => useStore.setState({ stored: 0 }));
  await act(async () => host.querySelector("button")?.click());
  expect(shown()).toEqual(["b", "a"]);
  await changed();
  await vi.waitFor(() => expect(shown()).toEqual(["c", "b", "a"]));
  await changed();
  await vi.waitFor(() => expect(shown()).toEqual(["a", "c", "b"]));
});

it("keeps older pages after a change", () => {
  const page = (conversations: Conversation[], next?: string) => ({
    conversations,
    next,
    checking: [],
    disabled: false,
  });
  const had = page([of("d", 4), of("c", 3), of("b", 2), of("a", 1)], "after a");
  const ids = (p: { conversations: Conversation[] }) => p.conversations.map((c) => c.agentSessionId);
  const now = renewed(had, page([of("b", 5), of("d", 4)], "after d"));
  expect(ids(now)).toEqual(["b", "d", "c", "a"]);
  expect(now.next).toBe("after a");
  const removed = renewed(had, page([of("d", 4), of("b", 2), of("a", 1)]));
  expect(ids(removed)).toEqual(["d", "b", "a"]);
  expect(
    ids(renewed(page([of("b", 2), of("a", 1)], "after a"), page([of("d", 4), of("c", 3)], "after c"))),
  ).toEqual(["d", "c", "b", "a"]);
});

it("understands the server's message", () => {
  expect(parseFrame('{"type":"conversations:changed"}')).toEqual({ type: "conversations:changed" });
});
