import { describe, expect, it } from "vitest";
import { byFile, countChange, countChanges, hunksOf } from "../src/model/diff";
import type { Change } from "../src/wire/types";

const hunk = (...lines: string[]) => ({ oldStart: 1, oldLines: 1, newStart: 1, newLines: 1, lines });
const update = (path: string, ...lines: string[]): Change => ({
  path,
  kind: "update",
  hunks: [hunk(...lines)],
});

describe("counting", () => {
  it("counts lines that begin with a sign, also those that look like headers", () => {
    expect(countChange(update("a", " x", "-y", "+z", "+++ b", "--- a"))).toEqual({ added: 2, removed: 2 });
  });
  it("counts whole files where there are no hunks", () => {
    expect(countChange({ path: "a", kind: "create", newText: "1\n2\n", hunks: [] })).toEqual({
      added: 2,
      removed: 0,
    });
    expect(countChange({ path: "a", kind: "delete", oldText: "1\n2", hunks: [] })).toEqual({
      added: 0,
      removed: 2,
    });
    expect(countChange({ path: "a", kind: "create", newText: "", hunks: [] })).toEqual({
      added: 0,
      removed: 0,
    });
    expect(countChange({ path: "a", kind: "update", oldText: "1", newText: "2\n3", hunks: [] })).toEqual({
      added: 2,
      removed: 1,
    });
    expect(countChange({ path: "a", kind: "update", oldText: "1", newText: "", hunks: [] })).toEqual({
      added: 0,
      removed: 1,
    });
    expect(countChange({ path: "a", kind: "move", movedTo: "b", hunks: [] })).toEqual({
      added: 0,
      removed: 0,
    });
  });
  it("sums", () => {
    expect(countChanges([update("a", "+x"), update("b", "-y")])).toEqual({ added: 1, removed: 1 });
    expect(countChanges([])).toEqual({ added: 0, removed: 0 });
  });
  it("keeps lines of a created file in order", () => {
    expect(hunksOf({ path: "a", kind: "create", newText: "1\n\n2", hunks: [] })[0]?.lines).toEqual([
      "+1",
      "+",
      "+2",
    ]);
  });
});

describe("byFile", () => {
  it("joins the steps of a file and remembers that it is new", () => {
    const files = byFile([
      { path: "a", kind: "create", newText: "x", hunks: [] },
      update("b", "+1"),
      update("a", "+2"),
    ]);
    expect(files.map((f) => [f.path, f.kind, f.steps.length])).toEqual([
      ["a", "create", 2],
      ["b", "update", 1],
    ]);
  });
  it("says that a file is gone in the end", () => {
    expect(byFile([update("a", "+1"), { path: "a", kind: "delete", hunks: [] }])[0]?.kind).toBe("delete");
  });
});
