// Counts and merges file changes.

import type { Change, Hunk } from "../wire/types";

export interface Count {
  added: number;
  removed: number;
}

export function countChange(c: Change): Count {
  const n = { added: 0, removed: 0 };
  for (const h of hunksOf(c))
    for (const line of h.lines) {
      if (line.startsWith("+")) n.added++;
      else if (line.startsWith("-")) n.removed++;
    }
  return n;
}

export function countChanges(changes: readonly Change[]): Count {
  return changes
    .map(countChange)
    .reduce((a, b) => ({ added: a.added + b.added, removed: a.removed + b.removed }), {
      added: 0,
      removed: 0,
    });
}

/**
 * The hunks of a change. A change without hunks, such as a created or deleted
 * file, shows its text as one hunk.
 */
export function hunksOf(c: Change): Hunk[] {
  if (c.hunks.length > 0) return c.hunks;
  if (c.kind === "create" && c.newText) return [whole("+", c.newText)];
  if (c.kind === "delete" && c.oldText) return [whole("-", c.oldText)];
  if (c.oldText !== undefined && c.newText !== undefined && c.oldText !== c.newText)
    return [{ ...whole("-", c.oldText), lines: [...lines("-", c.oldText), ...lines("+", c.newText)] }];
  return [];
}

function whole(sign: string, text: string): Hunk {
  const ls = lines(sign, text);
  const n = ls.length;
  return sign === "+"
    ? { oldStart: 0, oldLines: 0, newStart: 1, newLines: n, lines: ls }
    : { oldStart: 1, oldLines: n, newStart: 1, newLines: 0, lines: ls };
}

function lines(sign: string, text: string): string[] {
  if (text === "") return [];
  const parts = text.split("\n");
  if (parts.at(-1) === "") parts.pop();
  return parts.map((l) => sign + l);
}

export interface FileChanges<C extends Change = Change> {
  path: string;
  kind: Change["kind"];
  movedTo?: string;
  steps: C[]; // in the order in which they were made
}

/**
 * The changes of a turn by file, in the order in which the files were first
 * changed.
 */
export function byFile<C extends Change>(changes: readonly C[]): FileChanges<C>[] {
  const files = new Map<string, FileChanges<C>>();
  for (const c of changes) {
    const f = files.get(c.path);
    if (!f) files.set(c.path, { path: c.path, kind: c.kind, movedTo: c.movedTo, steps: [c] });
    else {
      f.steps.push(c);
      if (c.kind === "delete" || (c.kind === "move" && f.kind !== "create")) f.kind = c.kind;
      f.movedTo = c.movedTo ?? f.movedTo;
    }
  }
  return [...files.values()];
}
