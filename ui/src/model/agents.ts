// Texts about agents for the form of a new session. Their names, versions and
// commands come from the server.

import type { Agent } from "../wire/types";

/**
 * Whether the agent is the scripted one, which plays scripts and runs no
 * program.
 */
export const scripted = (cliType: string) => cliType === "script";

export type Readiness = "ready" | "broken" | "silent" | "checking" | "missing" | "locked";

export function readiness(a: Agent): Readiness {
  if (a.loggedIn === false && (a.installed || a.path)) return "locked";
  if (a.installed) return a.problem ? "broken" : "ready"; // broken: the program exists but does not work
  if (a.checking) return "checking";
  return a.path ? "silent" : "missing"; // silent: the program exists but did not report its version
}

/** Whether a session can be started with the agent, as far as is known. */
export const usable = (a: Agent) => ["ready", "broken", "silent"].includes(readiness(a));

/**
 * The agent that the form of a new session selects by default: one that works,
 * if there is any. It waits for agents that are being checked, so that the
 * result of a check never replaces a working selection.
 */
export function preselected(agents: readonly Agent[], last: string | undefined): Agent | undefined {
  const list = sorted(agents);
  const ready = (a: Agent) => readiness(a) === "ready";
  const hopeful = (a: Agent) => ready(a) || readiness(a) === "checking";
  return (
    agents.find((a) => a.cliType === last && hopeful(a)) ??
    agents.find((a) => hopeful(a) && !scripted(a.cliType)) ??
    list.find(ready) ??
    list.find(usable) ??
    list[0]
  );
}

const order: Record<Readiness, number> = {
  ready: 0,
  locked: 1,
  broken: 1,
  silent: 1,
  checking: 2,
  missing: 3,
};

/**
 * Sorts agents: ready ones first, with the scripted one last among them, and
 * missing ones at the end.
 */
export function sorted(agents: readonly Agent[]): Agent[] {
  const rank = (a: Agent) => order[readiness(a)] + (scripted(a.cliType) ? 0.5 : 0);
  return [...agents].sort((a, b) => rank(a) - rank(b));
}

/** What a person can do to make an agent work on this machine. */
export interface Help {
  text: string;
  command: string;
}

export function help(a: Agent): Help[] {
  const out: Help[] = [];
  const state = readiness(a);
  if (a.install && state === "missing") out.push({ text: "Install it with", command: a.install });
  if (a.install && state === "checking")
    out.push({ text: "If it is not installed, install it with", command: a.install });
  if (a.login && state === "locked") out.push({ text: "Log in with", command: a.login });
  if (a.login && (state === "missing" || state === "checking"))
    out.push({ text: "Then log in with", command: a.login });
  if (a.login && state === "ready" && a.loggedIn === undefined)
    out.push({ text: "If it is not logged in, log in with", command: a.login });
  return out;
}
