// @vitest-environment jsdom

import { expect, it } from "vitest";
import { type Comment, withComments } from "../src/model/comments";
import { located } from "../src/stream/Intended";
import { parseDiff, parseDiffs, parseFolder } from "../src/wire/changes";
import type { Change } from "../src/wire/types";

const comment = (more: Partial<Comment> = {}): Comment => ({
  path: "a.go",
  side: "new",
  line: 3,
  code: "+x := 1",
  text: "Why?",
  ...more,
});

it("puts comments below the prompt, each with its place and its line", () => {
  expect(
    withComments("Fix this.", [comment(), comment({ side: "old", line: 9, code: "-y", text: "Keep." })]),
  ).toBe("Fix this.\n\na.go:3\n> +x := 1\nWhy?\n\na.go:9 (before the change)\n> -y\nKeep.");
  expect(withComments("", [comment()])).toBe("a.go:3\n> +x := 1\nWhy?");
  expect(withComments("Only this.", [])).toBe("Only this.");
  expect(withComments("", [comment({ code: `+${"x".repeat(400)}` })])).toContain(`> +${"x".repeat(299)}…\n`);
});

const own: Change = {
  path: "a.go",
  kind: "update",
  hunks: [{ oldStart: 0, oldLines: 1, newStart: 0, newLines: 1, lines: ["-a", "+b"] }],
};
const there = {
  path: "a.go",
  kind: "update",
  hunks: [{ oldStart: 4, oldLines: 1, newStart: 4, newLines: 1, lines: ["-a", "+b"] }],
  place: "found",
};

it("shows the place of an intended change only if all of the change is shown", () => {
  const at = (more: object) => located(own, parseDiff({ ...there, ...more }));
  expect(at({}).hunks[0]?.oldStart).toBe(4);
  for (const wrong of [{ path: "b.go" }, { movedTo: "c.go" }, { cut: true }, { hunks: [] }])
    expect(at(wrong)).toBe(own);
  expect(located(own, undefined)).toBe(own);
  expect(at({ place: "several", lines: [2, 8] })).toEqual({
    ...own,
    remark: "The file has this text more than once: at lines 2, 8.",
  });
  expect(at({ place: "missing" }).remark).toBe("The file does not have this text now.");
  expect(at({ place: "unknown", problem: "The file is not text." }).remark).toBe("The file is not text.");
});

it("reads nothing from a response of another form", () => {
  for (const v of [null, [], "x", { files: "x" }, { files: [1, {}, { path: 1 }] }])
    expect(parseDiffs(v)).toEqual({ files: [], more: 0 });
  for (const v of [null, [], "x", { files: [1, {}] }]) {
    expect(parseFolder(v).files).toEqual([]);
    expect(parseFolder(v).state).toBe("none");
  }
});
