// @vitest-environment jsdom

import { expect, it } from "vitest";
import { parseRoute, pathOf } from "../src/model/routes";
import type { Row } from "../src/model/rows";
import { queryOf } from "../src/sessions/Found";
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

it("finds the row of an item, also in a fold", () => {
  const rows = [
    { key: "a" },
    { key: "b:fold", kind: "fold", items: [{ itemId: "b" }, { itemId: "c" }] },
  ] as Row[];
  expect([rowOf(rows, "a"), rowOf(rows, "c"), rowOf(rows, "d")]).toEqual([0, 1, -1]);
});
