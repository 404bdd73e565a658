// What is to be said of agents before one is chosen. Their names, versions and
// commands are the server's.

import type { Agent } from "../wire/types";

/** The one that plays scripts and runs no agent. */
export const scripted = (cliType: string) => cliType === "script";

export type Readiness = "ready" | "broken" | "silent" | "checking" | "missing" | "locked";

export function readiness(a: Agent): Readiness {
  if (a.loggedIn === false && (a.installed || a.path)) return "locked";
  if (a.installed) return a.problem ? "broken" : "ready"; // its program is there, and does not work
  if (a.checking) return "checking";
  return a.path ? "silent" : "missing"; // its program is there, but did not say what it is
}

/** Whether a session can be begun with it, as far as one knows. */
export const usable = (a: Agent) => ["ready", "broken", "silent"].includes(readiness(a));

/**
 * The agent that a new session begins with, unless another is chosen: never one
 * that does not work while one does. It waits for an agent that is being
 * checked, so that no check that ends replaces a choice that can be started.
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

/** What is ready first, the scripted one last of those, what is missing at the end. */
export function sorted(agents: readonly Agent[]): Agent[] {
  const rank = (a: Agent) => order[readiness(a)] + (scripted(a.cliType) ? 0.5 : 0);
  return [...agents].sort((a, b) => rank(a) - rank(b));
}

/** What a person can do so that it runs here. */
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
    out.push({ text: "If it is not logged in", command: a.login });
  return out;
}
