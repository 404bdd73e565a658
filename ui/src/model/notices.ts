// Which notices are due, from the sessions as they change.

import { markOf } from "../sessions/StateMark";
import { plain } from "../text/visible";
import type { SessionStatus } from "../wire/types";
import type { Notice, NoticeKind } from "../worker/messages";
import { load, save } from "./keep";
import { pathOf } from "./routes";
import { describeAsked } from "./rows";
import { workDir } from "./worktree";

/** What a person wants to be told about, in this browser. */
export interface Wishes {
  tab: boolean; // by an open tab
  kinds: NoticeKind[];
}

export const wishes = (): Wishes => ({
  tab: load("notices.tab", false),
  kinds: load<NoticeKind[]>("notices.kinds", ["needs-you", "finished"]),
});

export function wish(w: Partial<Wishes>) {
  if (w.tab !== undefined) save("notices.tab", w.tab || undefined);
  if (w.kinds) save("notices.kinds", w.kinds);
}

/** Finds the sessions that begin to need somebody, or finish. */
export class Changes {
  private before: ReadonlyMap<string, { waiting: boolean; busy: boolean }> | undefined;

  /**
   * Takes the sessions as they are now. Returns those that have changed since
   * the last call. The first call returns none. A turn that somebody stopped
   * does not count as finished.
   */
  take(sessions: Iterable<SessionStatus>): Record<NoticeKind, SessionStatus[]> {
    const now = new Map<string, { waiting: boolean; busy: boolean }>();
    const out: Record<NoticeKind, SessionStatus[]> = { "needs-you": [], finished: [] };
    for (const s of sessions) {
      if (s.archived) continue;
      const state = { waiting: waits(s), busy: works(s) };
      now.set(s.sessionId, state);
      const was = this.before?.get(s.sessionId);
      if (!this.before) continue;
      if (state.waiting && !was?.waiting) out["needs-you"].push(s);
      if (!state.busy && was?.busy && s.lastTurn !== "cancelled") out.finished.push(s);
    }
    this.before = now;
    return out;
  }
}

export const waits = (s: SessionStatus) => markOf(s) === "waiting";
export const works = (s: SessionStatus) => waits(s) || markOf(s) === "working" || s.queued > 0;

const few = 5; // titles in a notice

/** The notice about sessions, of which there is at least one. */
export function noticeOf(kind: NoticeKind, sessions: readonly SessionStatus[]): Notice {
  const titles = sessions.map((s) => plain(s.title, 80) || "New session");
  const [one] = sessions;
  if (one && sessions.length === 1)
    return {
      kind,
      title: titles[0] as string,
      body: kind === "finished" ? (one.lastTurn === "error" ? "Failed" : "Finished") : asked(one),
      open: pathOf({ at: "session", id: one.sessionId }),
    };
  return {
    kind,
    title: `${sessions.length} sessions ${kind === "finished" ? "have finished" : "need you"}`,
    body: titles.slice(0, few).join(", ") + (titles.length > few ? ", …" : ""),
    open: pathOf({ at: "home" }),
  };
}

function asked(s: SessionStatus): string {
  const first = s.pendingApprovals[0];
  return first ? `Asks: ${plain(describeAsked(first, workDir(s)), 200)}` : "Needs you";
}
