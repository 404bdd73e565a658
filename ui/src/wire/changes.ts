// Parses responses about changes to files.

import { parseChange, parseHunk } from "./parse";
import type { ChangedFile, FileDiff, FolderStatus } from "./types";
import { isObj, list, num, oneOf, optNum, optStr, str } from "./values";

const kinds = ["create", "update", "delete", "move"] as const;
const states = ["ready", "none", "refused", "no_git", "too_many"] as const;
const places = ["agent", "found", "whole", "several", "missing", "unknown"] as const;

/** The diffs of a response, and how many changes it leaves out. */
export interface Diffs {
  files: FileDiff[];
  more: number;
}

export function parseDiffs(v: unknown): Diffs {
  if (!isObj(v)) return { files: [], more: 0 };
  return { files: list(v.files, parseDiff), more: num(v.more) };
}

export function parseDiff(v: unknown): FileDiff | undefined {
  if (!isObj(v) || !str(v.path)) return undefined;
  const steps = list(v.steps, parseChange);
  return {
    path: str(v.path),
    kind: oneOf(v.kind, kinds, "update"),
    movedTo: optStr(v.movedTo),
    added: num(v.added),
    removed: num(v.removed),
    hunks: list(v.hunks, parseHunk),
    steps: steps.length > 0 ? steps : undefined,
    newline: v.newline === "added" || v.newline === "removed" ? v.newline : undefined,
    whole: v.whole === true,
    outside: v.outside === true,
    binary: v.binary === true,
    cut: v.cut === true,
    omitted: v.omitted === true,
    oldMode: optStr(v.oldMode),
    newMode: optStr(v.newMode),
    seen: optStr(v.seen),
    place: places.find((p) => p === v.place),
    lines: list(v.lines, optNum),
    problem: optStr(v.problem),
  };
}

export function parseFolder(v: unknown): FolderStatus {
  const o = isObj(v) ? v : {};
  return {
    state: oneOf(o.state, states, "none"),
    problem: optStr(o.problem),
    root: optStr(o.root),
    branch: optStr(o.branch),
    head: optStr(o.head),
    upstream: optStr(o.upstream),
    ahead: optNum(o.ahead),
    behind: optNum(o.behind),
    operation: optStr(o.operation),
    author: optStr(o.author),
    hooks: o.hooks === true,
    skipped: o.skipped === true,
    files: list(o.files, parseChanged),
    more: o.more === true,
    elsewhere: num(o.elsewhere),
    seen: str(o.seen),
  };
}

function parseChanged(v: unknown): ChangedFile | undefined {
  if (!isObj(v) || !str(v.path)) return undefined;
  const kind = (k: unknown) => kinds.find((one) => one === k);
  const lines = (n: unknown) => (isObj(n) ? { added: num(n.added), removed: num(n.removed) } : undefined);
  return {
    path: str(v.path),
    from: optStr(v.from),
    staged: kind(v.staged),
    unstaged: kind(v.unstaged),
    untracked: v.untracked === true,
    conflict: v.conflict === true,
    submodule: v.submodule === true,
    stagedLines: lines(v.stagedLines),
    unstagedLines: lines(v.unstagedLines),
  };
}

/** A commit that was made. */
export interface Committed {
  commit: string;
  branch: string;
  differs: boolean; // it contains something else than what was staged
}

export function parseCommitted(v: unknown): Committed {
  const o = isObj(v) ? v : {};
  return { commit: str(o.commit), branch: str(o.branch), differs: o.differs === true };
}
