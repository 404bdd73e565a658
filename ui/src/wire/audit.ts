// Parses the audit log.

import type { components } from "./api.gen";
import { isObj, list, num, optNum, optStr, str } from "./values";

type Schemas = components["schemas"];

export type AuditEntry = Pick<
  Schemas["Record"],
  "n" | "at" | "who" | "what" | "why" | "choice" | "address" | "session" | "rule" | "count"
> & { kind: string; by?: string };

export interface AuditPage {
  entries: AuditEntry[];
  last: number; // number of the newest entry
}

/** The result of checking the chain of all entries. */
export interface Verified {
  ok: boolean;
  entries: number;
  problems: { n: number; what: string }[];
}

export function parseAudit(v: unknown): AuditPage {
  const o = isObj(v) ? v : {};
  return {
    last: num(o.last),
    entries: list(o.entries, (e) =>
      isObj(e) && num(e.n) > 0
        ? {
            n: num(e.n),
            at: str(e.at),
            kind: str(e.kind),
            by: optStr(e.by),
            who: optStr(e.who),
            what: optStr(e.what),
            why: optStr(e.why),
            choice: optStr(e.choice),
            address: optStr(e.address),
            session: optStr(e.session),
            rule: optNum(e.rule),
            count: optNum(e.count),
          }
        : undefined,
    ),
  };
}

export function parseVerified(v: unknown): Verified {
  const o = isObj(v) ? v : {};
  return {
    ok: o.ok === true,
    entries: num(o.entries),
    problems: list(o.problems, (p) => (isObj(p) ? { n: num(p.n), what: str(p.what) } : undefined)),
  };
}
