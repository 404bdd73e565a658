// Parses responses about the worktrees of sessions.

import type { SessionStatus, WorktreeStatus } from "./types";
import { isObj, list, num, oneOf, optStr, str } from "./values";

/** A merge of a worktree that was made. */
export interface Merged {
  branch: string;
  commit: string;
  commits: number;
}

export function parseSessionWorktree(v: unknown): SessionStatus["worktree"] {
  if (!isObj(v) || !str(v.root)) return undefined;
  return {
    root: str(v.root),
    dir: str(v.dir),
    branch: str(v.branch),
    base: str(v.base),
    from: optStr(v.from),
    removed: v.removed === true || undefined,
  };
}

export function parseWorktree(v: unknown): WorktreeStatus {
  const o = isObj(v) ? v : {};
  return {
    root: str(o.root),
    dir: str(o.dir),
    branch: str(o.branch),
    base: str(o.base),
    from: optStr(o.from),
    state: oneOf(o.state, ["ready", "missing", "refused"], "refused"),
    problem: optStr(o.problem),
    current: optStr(o.current),
    head: optStr(o.head),
    target: optStr(o.target),
    ahead: num(o.ahead),
    behind: num(o.behind),
    uncommitted: num(o.uncommitted),
    files: list(o.files, (f) => (typeof f === "string" ? f : undefined)),
    more: o.more === true,
    seen: str(o.seen),
    operation: optStr(o.operation),
  };
}

export function parseMerged(v: unknown): Merged {
  const o = isObj(v) ? v : {};
  return { branch: str(o.branch), commit: str(o.commit), commits: num(o.commits) };
}
