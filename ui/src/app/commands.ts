// The actions of the command palette.

import { openOver } from "../model/over";
import { go } from "../model/routes";
import { archive, attempt, fork, useStore } from "../model/store";
import { folderName } from "../text/format";
import { plain } from "../text/visible";
import { api } from "../wire/http";
import type { SessionStatus } from "../wire/types";

export interface Command {
  id: string;
  name: string;
  about?: string; // what distinguishes it, such as the folder of a session
  key?: string; // the key that does the same
  run: () => unknown;
}

const press = (selector: string) => () => document.querySelector<HTMLElement>(selector)?.click();
const focus = (id: string) => () => document.getElementById(id)?.focus();
const there = (selector: string) => document.querySelector(selector) !== null;

/** Calls a function in each frame until it returns true, for at most two seconds. */
function soon(done: () => boolean) {
  const end = performance.now() + 2000;
  const look = () => {
    if (!done() && performance.now() < end) requestAnimationFrame(look);
  };
  look();
}

/** Acts on an element of the session list. A phone shows the list first. */
const inList = (selector: string, act: (e: HTMLElement) => void) => () => {
  if (!there(selector)) go({ at: "list" });
  soon(() => {
    const found = document.querySelector<HTMLElement>(selector);
    if (found) act(found);
    return found !== null;
  });
};

/**
 * All actions that are possible now; `current` is the session on the screen, and
 * `admin` whether the login may read the audit log.
 */
export function commands(current: string | undefined, admin: boolean): Command[] {
  const s = current === undefined ? undefined : useStore.getState().sessions.get(current);
  const out: Command[] = s ? [...answers(), ...ofSession(s)] : [];
  const add = (when: boolean, c: Command) => when && out.push(c);
  add(true, { id: "new", name: "New session", key: "n", run: () => go({ at: "new" }) });
  add(current !== undefined, { id: "list", name: "All sessions", run: () => go({ at: "list" }) });
  add(true, {
    id: "search",
    name: "Search sessions and conversations",
    key: "/",
    run: inList("#filter", (e) => e.focus()),
  });
  const named: [string, string, string][] = [
    ["colours", "Change the colours", "button[aria-label^='Colours']"],
    ["devices", "Devices that are logged in", "button[aria-label='Devices']"],
    ["notifications", "Notifications", "button[aria-label='Notifications']"],
  ];
  for (const [id, name, button] of named) add(true, { id, name, run: inList(button, (e) => e.click()) });
  add(true, { id: "mcp", name: "MCP servers of agents", run: () => openOver("mcp") });
  add(true, { id: "retention", name: "Old sessions that are deleted", run: () => openOver("retention") });
  add(admin, { id: "audit", name: "Audit log", run: () => openOver("audit") });
  add(true, { id: "keys", name: "Keyboard shortcuts", key: "?", run: () => openOver("keys") });
  return out;
}

/**
 * The answers to the approval that waits, as its buttons name them. An answer is
 * given only to the approval that was on the screen when it was offered. The
 * buttons of an approval that has just appeared are disabled for a moment.
 */
function answers(): Command[] {
  const bar = document.querySelector<HTMLElement>("[data-approval-bar]");
  const id = bar?.dataset.approvalBar;
  const buttons = [...(bar?.querySelectorAll<HTMLButtonElement>("[data-choice]") ?? [])];
  const give = (button: HTMLButtonElement) => () =>
    soon(() => {
      const same = button.isConnected && bar?.dataset.approvalBar === id;
      if (same && !button.disabled) button.click();
      return !same || !button.disabled;
    });
  return buttons.map((button, i) => ({
    id: `answer${i}`,
    name: `Answer: ${plain(nameOf(button), 80)}`,
    run: give(button),
  }));
}

// The name of a button without its key.
function nameOf(button: HTMLElement): string {
  const copy = button.cloneNode(true) as HTMLElement;
  for (const key of copy.querySelectorAll("kbd")) key.remove();
  return copy.textContent ?? "";
}

function ofSession(s: SessionStatus): Command[] {
  const id = s.sessionId;
  const out: Command[] = [];
  const add = (when: boolean, c: Command) => when && out.push(c);
  const hold = (held: boolean) => () => attempt(() => api.holdQueue(id, held));
  const settings = "button[title='Agent settings']";
  const attach = "[aria-label='Attach files']";
  add(there("#composer"), { id: "write", name: "Write a prompt", key: "i", run: focus("composer") });
  add(there(attach), { id: "attach", name: "Attach files", run: press(attach) });
  add(there(settings), { id: "settings", name: "Mode, model and other settings", run: press(settings) });
  add(s.activity !== "idle", { id: "stop", name: "Stop the turn", run: () => attempt(() => api.cancel(id)) });
  add(s.queued > 0 && s.queueHeld === true, { id: "continue", name: "Continue the queue", run: hold(false) });
  add(s.queued > 0 && !s.queueHeld, { id: "hold", name: "Hold the queue", run: hold(true) });
  add(true, { id: "changes", name: "Changes", key: "c", run: press("button[aria-label='Changes']") });
  add(true, { id: "details", name: "Session details", key: "d", run: press("button[aria-label='Details']") });
  add(true, {
    id: "menu",
    name: "Rename, export or delete the session",
    run: press("button[aria-label='Rename, export, archive or delete']"),
  });
  add(s.archived === true || s.activity === "idle", {
    id: "archive",
    name: s.archived ? "Take the session out of the archive" : "Archive the session",
    run: () => archive(id, !s.archived),
  });
  add(s.state !== "dead", { id: "fork", name: "Fork the session", run: () => fork(id) });
  add(s.state !== "dead", {
    id: "end",
    name: "End the session",
    run: press("button[aria-label='End session']"),
  });
  return out;
}

const most = 30; // sessions in the palette

/**
 * The actions with a word that begins with each typed one, and then the sessions
 * that contain each typed word.
 */
export function matching(
  typed: string,
  actions: readonly Command[],
  sessions: Iterable<SessionStatus>,
): Command[] {
  const words = typed.toLowerCase().split(/\s+/).filter(Boolean);
  const has = (text: string) => words.every((w) => text.toLowerCase().includes(w));
  const found = [...sessions]
    .filter((s) => !s.archived && has(`${s.title} ${s.projectDir} ${s.cliType}`))
    .sort((a, b) => b.lastActiveAt.localeCompare(a.lastActiveAt))
    .slice(0, most);
  return [
    ...actions.filter((c) => words.every((w) => ` ${c.name.toLowerCase()}`.includes(` ${w}`))),
    ...found.map((s) => ({
      id: `session ${s.sessionId}`,
      name: plain(s.title, 100) || "New session",
      about: plain(folderName(s.projectDir), 60),
      run: () => go({ at: "session", id: s.sessionId }),
    })),
  ];
}
