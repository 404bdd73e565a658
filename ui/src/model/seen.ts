import type { SessionStatus } from "../wire/types";

/**
 * Whether a session has events that nobody has seen on any device. `seen` has
 * the last position of each session that was visible in this tab: the server
 * gets it a little later.
 */
export const unseen = (
  s: Pick<SessionStatus, "sessionId" | "seenSeq" | "lastSeq">,
  seen: Readonly<Record<string, number>>,
): boolean => Math.max(seen[s.sessionId] ?? 0, s.seenSeq) < s.lastSeq;
