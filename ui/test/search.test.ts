// @vitest-environment jsdom

import { expect, it } from "vitest";
import { parseRoute, pathOf } from "../src/model/routes";
import type { Row } from "../src/model/rows";
import { foldersOf, queryOf } from "../src/sessions/Found";
import { rowOf } from "../src/stream/item";
import { parseSearch } from "../src/wire/parse";

it("searches for words that begin like the last one", () => {
  expect(queryOf("fix log")).toBe("fix log*");
  expect(queryOf(" a ")).toBe("a");
  expect(queryOf('"fix the')).toBe('"fix the');
  expect(queryOf('"fix the"')).toBe('"fix the"');
  expect(queryOf("log*")).toBe("log*");
  expect(queryOf("main.go:")).toBe("main.go:");
});

it("keeps the item in the address", () => {
  const at = { at: "session", id: "a b", item: "t:1:0&x" } as const;
  expect(parseRoute(new URL(pathOf(at), "http://h").search)).toEqual(at);
  expect(pathOf({ at: "session", id: "a" })).toBe("/?session=a");
});

it("parses search results, and drops malformed ones", () => {
  const hit = {
    sessionId: "s",
    itemId: "i",
    title: "t",
    kind: "later",
    at: "",
    snippet: [{ text: "x", match: 1 }, 7],
  };
  expect(parseSearch({ hits: [hit, { sessionId: "s" }, 1], next: 5, indexing: true })).toEqual({
    hits: [
      {
        sessionId: "s",
        agentSessionId: undefined,
        cliType: "",
        itemId: "i",
        title: "t",
        projectDir: "",
        kind: "answer",
        at: "",
        snippet: [{ text: "x", match: false }],
      },
    ],
    next: undefined,
    indexing: true,
    disabled: false,
  });
  expect(parseSearch(undefined).hits).toEqual([]);
});

it("parses hits in conversations that are no sessions", () => {
  const hit = { cliType: "codex", agentSessionId: "a", itemId: "i" };
  const hits = parseSearch({ hits: [hit, { ...hit, agentSessionId: "" }, { ...hit, cliType: 1 }] }).hits;
  expect(hits).toMatchObject([{ sessionId: undefined, cliType: "codex", agentSessionId: "a" }]);
});

it("offers the folders of sessions, the last used first", () => {
  const of = (projectDir: string, lastActiveAt: string) => ({ projectDir, lastActiveAt });
  const sessions = [of("/a", "2026-01-01"), of("/b", "2026-01-03"), of("/a", "2026-01-02")];
  expect(foldersOf(sessions, "")).toEqual(["/b", "/a"]);
  expect(foldersOf(sessions, "/c")).toEqual(["/c", "/b", "/a"]);
});

it("finds the row of an item, also in a fold", () => {
  const rows = [
    { key: "a" },
    { key: "b:fold", kind: "fold", items: [{ itemId: "b" }, { itemId: "c" }] },
  ] as Row[];
  expect([rowOf(rows, "a"), rowOf(rows, "c"), rowOf(rows, "d")]).toEqual([0, 1, -1]);
});
