// The place in a file that a tool call is about.

import { type FilePlace, inside } from "../text/places";
import type { Change, ToolCall } from "../wire/types";

const paths = ["file_path", "path", "notebook_path", "filePath", "filename"];
const lines = ["offset", "line", "start_line", "startLine"]; // where a read begins

/** The place in the folder dir that a call reads or changes. */
export function placeOfCall(t: ToolCall, dir: string): FilePlace | undefined {
  if (t.kind !== "read" && t.kind !== "edit") return undefined;
  const change = t.changes?.[0];
  if (change) return placeOfChange(change, dir);
  const args = (t.toolArguments ?? {}) as Record<string, unknown>;
  const at = t.locations?.[0];
  const path = inside(at?.path ?? text(args, paths) ?? "", dir);
  const line = at?.line || lines.map((n) => args[n]).find((v) => typeof v === "number" && v > 0);
  return path ? { path, line: line ? Number(line) : undefined } : undefined;
}

const text = (args: Record<string, unknown>, names: string[]) =>
  names.map((n) => args[n]).find((v): v is string => typeof v === "string" && v !== "");

/** The first line that a change adds or removes; undefined if the file is gone or elsewhere. */
export function placeOfChange(c: Change, dir: string): FilePlace | undefined {
  const path = c.kind === "delete" ? undefined : inside(c.movedTo ?? c.path, dir);
  const hunk = c.hunks[0];
  if (!path || !hunk || hunk.newStart === 0) return path ? { path } : undefined;
  const before = hunk.lines.findIndex((l) => l[0] === "+" || l[0] === "-");
  return { path, line: hunk.newStart + Math.max(0, before) };
}
