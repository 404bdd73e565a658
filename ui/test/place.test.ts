import { describe, expect, it } from "vitest";
import { placeOfCall, placeOfChange } from "../src/model/place";
import type { ToolCall } from "../src/wire/types";

const call = (c: Partial<ToolCall>): ToolCall => ({ toolName: "", callId: "", ...c });

describe("the place of a call", () => {
  it("is what it reads, at the line where it begins", () => {
    expect(
      placeOfCall(call({ kind: "read", toolArguments: { file_path: "/p/a.go", offset: 7 } }), "/p"),
    ).toEqual({
      path: "a.go",
      line: 7,
    });
    expect(
      placeOfCall(call({ kind: "read", toolArguments: {}, locations: [{ path: "b/c.go", line: 3 }] }), "/p"),
    ).toEqual({ path: "b/c.go", line: 3 });
    expect(placeOfCall(call({ kind: "read", toolArguments: { path: "a.go" } }), "/p")).toEqual({
      path: "a.go",
    });
  });

  it("is the first line that an edit changes", () => {
    const hunks = [{ oldStart: 4, oldLines: 3, newStart: 4, newLines: 3, lines: [" a", " b", "-c", "+d"] }];
    expect(placeOfChange({ path: "/p/a.go", kind: "update", hunks }, "/p")).toEqual({
      path: "a.go",
      line: 6,
    });
    expect(placeOfChange({ path: "a.go", movedTo: "b.go", kind: "move", hunks: [] }, "/p")).toEqual({
      path: "b.go",
    });
  });

  it("is none outside of the folder, of a deleted file, and of other calls", () => {
    expect(placeOfCall(call({ kind: "read", toolArguments: { path: "/etc/passwd" } }), "/p")).toBeUndefined();
    expect(placeOfCall(call({ kind: "read", toolArguments: "x" }), "/p")).toBeUndefined();
    expect(placeOfCall(call({ kind: "execute", toolArguments: { path: "a.go" } }), "/p")).toBeUndefined();
    expect(placeOfChange({ path: "a.go", kind: "delete", hunks: [] }, "/p")).toBeUndefined();
  });
});
