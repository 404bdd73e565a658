// The server's answers about the logins of browsers.

import { isObj, list, optStr, str } from "./values";

/** A browser that is logged in to the page. */
export interface Device {
  id: string;
  name: string;
  createdAt: string;
  lastUsedAt: string; // recorded at most once an hour
  expiresAt?: string;
}

/** Leaves out the credentials of programs. */
export function parseDevices(v: unknown): Device[] {
  if (!isObj(v)) return [];
  return list(v.tokens, (t) =>
    isObj(t) && t.kind === "browser" && str(t.id)
      ? {
          id: str(t.id),
          name: str(t.name),
          createdAt: str(t.createdAt),
          lastUsedAt: str(t.lastUsedAt),
          expiresAt: optStr(t.expiresAt),
        }
      : undefined,
  );
}
