// Parses the preview of the sessions that the server deletes.

import { isObj, list, num, optStr, str } from "./values";

/** What becomes of the worktree of a session that is deleted. */
export interface ExpiredWorktree {
  root: string;
  stays: boolean;
  why: string;
  uncommitted: number; // files
  ignored: string[];
  unexamined: boolean;
}

export interface Expired {
  sessionId: string;
  title: string;
  projectDir: string;
  lastActiveAt: string;
  bytes: number; // approximately
  reason: string; // age or size
  worktree?: ExpiredWorktree;
}

export interface Expiry {
  limited: boolean; // an age or a size is set
  storedBytes: number;
  freedBytes: number;
  count: number;
  sessions: Expired[]; // the first of them
}

export function parseExpiry(v: unknown): Expiry {
  const o = isObj(v) ? v : {};
  return {
    limited: optStr(o.olderThan) !== undefined || num(o.maxBytes) > 0,
    storedBytes: num(o.storedBytes),
    freedBytes: num(o.freedBytes),
    count: num(o.count),
    sessions: list(o.sessions, (s) =>
      isObj(s) && str(s.sessionId)
        ? {
            sessionId: str(s.sessionId),
            title: str(s.title),
            projectDir: str(s.projectDir),
            lastActiveAt: str(s.lastActiveAt),
            bytes: num(s.bytes),
            reason: str(s.reason),
            worktree: parseExpiredWorktree(s.worktree),
          }
        : undefined,
    ),
  };
}

function parseExpiredWorktree(v: unknown): ExpiredWorktree | undefined {
  if (!isObj(v) || !str(v.root)) return undefined;
  return {
    root: str(v.root),
    stays: v.stays === true,
    why: str(v.why),
    uncommitted: num(v.uncommitted),
    ignored: list(v.ignored, (f) => (typeof f === "string" ? f : undefined)),
    unexamined: v.unexamined === true,
  };
}
