import type { SessionStatus } from "../wire/types";

/** The directory that the agent of a session works in. */
export const workDir = (s: Pick<SessionStatus, "projectDir" | "worktree">): string =>
  s.worktree?.dir ?? s.projectDir;
