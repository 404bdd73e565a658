// Routes in the address bar, below the path of the page: "/" is the composer of a new session, with what
// waits and runs; "?new" is the same for a person who wants to write at once.
// "?list" is the list of sessions on a phone, "?session=ID" a session, and
// "&item=ID" one of its items. All load the same document, so a reload works on
// any server.

import { useSyncExternalStore } from "react";
import { base } from "../wire/base";

export type Route =
  | { at: "home" }
  | { at: "list" }
  | { at: "new" }
  | { at: "session"; id: string; item?: string };

export function parseRoute(search: string): Route {
  const q = new URLSearchParams(search);
  const id = q.get("session");
  if (id) return { at: "session", id, item: q.get("item") ?? undefined };
  return q.has("new") ? { at: "new" } : q.has("list") ? { at: "list" } : { at: "home" };
}

export function pathOf(r: Route): string {
  if (r.at === "session")
    return `${base}/?session=${encodeURIComponent(r.id)}${r.item ? `&item=${encodeURIComponent(r.item)}` : ""}`;
  return r.at === "home" ? `${base}/` : `${base}/?${r.at}`;
}

const listeners = new Set<() => void>();
const told = () => {
  for (const f of listeners) f();
};

export function go(r: Route) {
  if (pathOf(r) !== location.pathname + location.search) history.pushState(null, "", pathOf(r));
  told();
}

export function useRoute(): Route {
  const search = useSyncExternalStore(subscribe, () => location.search);
  return parseRoute(search);
}

function subscribe(f: () => void) {
  listeners.add(f);
  window.addEventListener("popstate", f);
  return () => {
    listeners.delete(f);
    window.removeEventListener("popstate", f);
  };
}

/**
 * Removes the one-time code from the address, so that the browser's history
 * does not keep it.
 */
export function takeCode(): string | undefined {
  const m = /^#c=([^&]+)/.exec(location.hash);
  if (!m) return undefined;
  history.replaceState(null, "", location.pathname + location.search);
  try {
    return decodeURIComponent(m[1] as string);
  } catch {
    return undefined;
  }
}
