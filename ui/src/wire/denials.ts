// What the sandbox of a session denied, and what a change of its rules did.

import type { components } from "./api.gen";
import { isObj, list, optStr, str } from "./values";

/** A path outside of the sandbox that a program in it could not reach, as the output of a tool says. */
export interface Denial {
  path: string;
  access: "read" | "write";
  tool?: string;
  at: string;
}

/** For which sessions a change of a rule about sandboxes has taken effect. */
export type SandboxChange = components["schemas"]["SandboxChange"];

export function parseDenials(v: unknown): Denial[] {
  if (!isObj(v)) return [];
  return list(v.denials, (d) =>
    isObj(d) && str(d.path) && (d.access === "read" || d.access === "write")
      ? { path: str(d.path), access: d.access, tool: optStr(d.tool), at: str(d.at) }
      : undefined,
  );
}

/** Parses the answer to a change of a rule about sandboxes. */
export function parseSandboxChange(v: unknown): SandboxChange | undefined {
  if (!isObj(v) || !isObj(v.sandboxes)) return undefined;
  const ids = (of: unknown) => list(of, (id) => (typeof id === "string" ? id : undefined));
  return { stopped: ids(v.sandboxes.stopped), nextTurn: ids(v.sandboxes.nextTurn) };
}
