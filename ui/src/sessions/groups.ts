// The order of the session list.

import { unseen } from "../model/seen";
import type { SessionStatus } from "../wire/types";
import { markOf } from "./StateMark";

export interface Group {
  key: string;
  dir?: string; // absent for the sessions that wait for an answer
  sessions: SessionStatus[];
}

/**
 * Waiting sessions first, the others grouped by folder. In each group the
 * latest activity comes first. Archived sessions are left out, unless `archived`
 * asks for only these.
 */
export function groups(all: Iterable<SessionStatus>, filter: string, archived = false): Group[] {
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  const sorted = [...all]
    .filter((s) => {
      if (Boolean(s.archived) !== archived) return false;
      const text =
        `${s.title} ${s.projectDir} ${s.cliType} ${s.modelId ?? ""} ${s.lastLine ?? ""}`.toLowerCase();
      return words.every((w) => text.includes(w));
    })
    .sort((a, b) => b.lastActiveAt.localeCompare(a.lastActiveAt) || a.sessionId.localeCompare(b.sessionId));
  const waiting = sorted.filter((s) => markOf(s) === "waiting");
  const out: Group[] = waiting.length ? [{ key: "needs-you", sessions: waiting }] : [];
  const folders = new Map<string, Group>();
  for (const s of sorted) {
    if (markOf(s) === "waiting") continue;
    const g = folders.get(s.projectDir);
    if (g) g.sessions.push(s);
    else folders.set(s.projectDir, { key: s.projectDir, dir: s.projectDir, sessions: [s] });
  }
  return [...out, ...folders.values()];
}

/** The sessions that wait for a person, without archived ones. */
export const needsYou = (all: Iterable<SessionStatus>): SessionStatus[] =>
  [...all].filter((s) => !s.archived && markOf(s) === "waiting");

/** What a person who opens the page wants to know first. */
export interface News {
  needsYou: SessionStatus[];
  running: SessionStatus[];
  finished: SessionStatus[]; // since they were last looked at
}

/**
 * Sorts sessions by what they want from a person, each list newest first.
 * `seen` has the last position of each session that was visible in this tab.
 */
export function news(all: Iterable<SessionStatus>, seen: Readonly<Record<string, number>>): News {
  const out: News = { needsYou: [], running: [], finished: [] };
  const newest = [...all]
    .filter((s) => !s.archived)
    .sort((a, b) => b.lastActiveAt.localeCompare(a.lastActiveAt) || a.sessionId.localeCompare(b.sessionId));
  for (const s of newest) {
    const mark = markOf(s);
    if (mark === "waiting") out.needsYou.push(s);
    else if (mark === "working") out.running.push(s);
    else if (unseen(s, seen)) out.finished.push(s);
  }
  return out;
}
