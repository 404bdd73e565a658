// The state of the page and its actions. Components read the state with
// selectors.

import { create } from "zustand";
import { base } from "../wire/base";
import { ApiError, api, type Sent } from "../wire/http";
import { proof, proofHolds } from "../wire/proof";
import { Link, type LinkStatus } from "../wire/socket";
import type { Agent, Frame, Project, SessionStatus } from "../wire/types";
import { load, save } from "./keep";
import { once } from "./once";
import { go } from "./routes";
import { empty, prepend, reduce, resumeFrom, type Transcript } from "./transcript";
import { sendOnce } from "./unanswered";

export type Phase = "starting" | "in" | "out";

export interface State {
  phase: Phase;
  why?: string; // why the browser is logged out
  link: LinkStatus;
  everOpen: boolean;
  sessions: ReadonlyMap<string, SessionStatus>;
  listed: boolean; // the list was loaded at least once
  missing: ReadonlySet<string>; // sessions unknown to the server
  transcripts: ReadonlyMap<string, Transcript>;
  seen: Readonly<Record<string, number>>; // last position that was visible in this tab, by session
  opened: ReadonlySet<string>; // keys of expanded elements
  agents?: Agent[];
  projects?: Project[];
  problem?: Problem; // error of the last action or load, or news of it
  sent: number; // number of prompts sent from this tab
  stored: number; // number of changes of the list of stored conversations
}

export interface Problem {
  text: string;
  at: number;
  unreachable?: boolean; // removed once the server responds
  good?: boolean; // no error
  action?: { name: string; run: () => void };
}

export const useStore = create<State>(() => ({
  phase: "starting",
  link: "connecting",
  everOpen: false,
  sessions: new Map(),
  listed: false,
  missing: new Set(),
  transcripts: new Map(),
  seen: {},
  opened: new Set(),
  sent: 0,
  stored: 0,
}));

const set = useStore.setState;
const get = useStore.getState;

const opening = 100; // about how many entries of a session are loaded first
const olderPage = 200; // and about how many with each older page
const largePage = 1000; // the same on the way to the beginning

const kept = 4; // number of transcripts kept, of the sessions opened last

let shown: string | undefined; // id of the session on the screen

const link = new Link(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}${base}/api/ws`, {
  frames: take,
  status: (status) => {
    proofHolds(status === "open");
    if (status === "refused") out("Your login has expired.");
    else {
      // After a reconnect the server may be another one. On the first
      // connection, begin loads the data.
      const again = status === "open" && (get().everOpen || (!get().listed && !reading));
      set((s) => ({ link: status, everOpen: s.everOpen || status === "open" }));
      if (again) {
        set((s) => ({ stored: s.stored + 1 })); // it may have changed meanwhile
        void refresh();
      }
      if (status === "open") reached();
      if (status === "open" && shown) {
        void tell(shown);
        look(shown);
      }
    }
  },
  after: (id) => {
    const t = get().transcripts.get(id);
    const after = t && resumeFrom(t);
    return after === undefined ? { limit: opening } : { after, logId: t?.logId, limit: opening };
  },
  proof,
  admitted,
});

async function admitted(): Promise<boolean> {
  try {
    await api.me();
    return true;
  } catch (e) {
    return !(e instanceof ApiError && (e.status === 401 || e.status === 403));
  }
}

/**
 * Starts the page, with the code of a login link if there is one, or with this
 * browser's existing login.
 */
export async function begin(code: string | undefined) {
  let known = false;
  try {
    if (code) await api.login(code);
    const first = read();
    const ignored = () => {}; // reported below
    reading = first.catch(ignored).finally(() => {
      reading = undefined;
    });
    link.start(); // it needs nothing of the lists
    await first;
    known = true;
  } catch (e) {
    const err = e as ApiError;
    const refused = err.status === 401 || err.status === 403;
    // If the server is not reachable yet (0), a bar reports that. A used login
    // link is ignored if the browser is already logged in.
    if (err.status !== 0 && (code ? !(await admitted()) : refused))
      return out(code ? err.message : undefined);
  }
  set({ phase: "in", why: undefined });
  link.start();
  if (!known) void refresh();
}

function out(why?: string) {
  link.stop();
  set({ phase: "out", why });
}

/** The display name of an agent. */
export const useAgentName = (cliType: string): string =>
  useStore((s) => s.agents?.find((a) => a.cliType === cliType)?.displayName ?? cliType);

/**
 * Reloads the list of agents. With `again`, the server detects them again, too.
 */
export async function lookForAgents(again = false) {
  const agents = await api.agents(again).catch(() => undefined);
  if (agents) found(agents);
}

const looking = 1500; // ms between two requests while the server is still detecting agents
let later: ReturnType<typeof setTimeout> | undefined;

// found stores the list of agents, and requests it again while some are still
// being checked. The settings of a session depend on it, too.
function found(agents: Agent[]) {
  set({ agents });
  clearTimeout(later);
  later = agents.some((a) => a.checking) ? setTimeout(() => void lookForAgents(), looking) : undefined;
}

let reading: Promise<void> | undefined; // loads the sessions, agents and folders
let next: Promise<void> | undefined; // the load after the current one
let readAt = -Infinity;

/**
 * Reloads the sessions, agents and folders. With `fresh`, a load that is
 * running or at most that many ms old is enough. Without it, a running load is
 * not enough, because its response may be older than the caller's last action.
 */
export function refresh(fresh = 0): Promise<void> {
  if (reading && fresh === 0) {
    next ??= reading.then(() => {
      next = undefined;
      return refresh();
    });
    return next;
  }
  if (!reading && performance.now() - readAt < fresh) return Promise.resolve();
  reading ??= readAll().finally(() => {
    reading = undefined;
  });
  return reading;
}

async function readAll() {
  try {
    await read();
    if (unread && get().problem?.text === unread) complain(undefined);
    unread = undefined;
  } catch (e) {
    if (e instanceof ApiError && e.status === 401) return out("Your login has expired.");
    // Without a connection, a bar reports that, and the lists are loaded once
    // there is one.
    if (e instanceof ApiError && e.status === 0 && get().link !== "open") return;
    notRead(`The sessions could not be loaded: ${e instanceof Error ? e.message : String(e)}`);
  }
}

let unread: string | undefined; // error of the last load
let rereading: ReturnType<typeof setTimeout> | undefined;

// notRead shows why the lists could not be loaded, and loads them again later.
// An error that the user dismisses is not shown again.
function notRead(error: string) {
  if (unread !== error) complain(error);
  unread = error;
  clearTimeout(rereading);
  rereading = setTimeout(() => {
    if (get().phase === "in") void refresh();
  }, askAgain);
}

// read loads what the first view shows, with one request. The server responds
// at once, even if it has not checked some agents yet. For these, read sends a
// second request, and the server responds to it after the checks.
async function read() {
  const { sessions, agents, projects } = await api.overview();
  readAt = performance.now();
  set((s) => ({ listed: true, sessions: merge(s.sessions, sessions), projects }));
  if (agents.every((a) => a.checkedAt)) return found(agents);
  const unchecked = () => agents; // found requests them again
  void api.agents().catch(unchecked).then(found);
}

function merge(old: ReadonlyMap<string, SessionStatus>, list: SessionStatus[]) {
  const sessions = new Map(old);
  for (const s of list) if ((old.get(s.sessionId)?.lastSeq ?? -1) <= s.lastSeq) put(sessions, s);
  return sessions;
}

// Lists omit the settings and commands that the agent offers, its files, the
// resolved options and the queued prompts, so the known ones are kept.
function put(sessions: Map<string, SessionStatus>, s: SessionStatus) {
  const old = sessions.get(s.sessionId);
  sessions.set(s.sessionId, {
    ...s,
    queue: s.queue ?? (s.queued > 0 ? old?.queue : undefined),
    seenSeq: Math.max(s.seenSeq, old?.seenSeq ?? 0), // a response may be older than a message
    config: s.config ?? old?.config,
    files: s.files ?? old?.files,
    commands: s.commands ?? old?.commands,
    resolved: s.resolved ?? old?.resolved,
  });
}

/** Stores a session status from the server's response. */
export function learn(s: SessionStatus | undefined) {
  if (s) set((st) => ({ sessions: merge(st.sessions, [s]) }));
}

function take(frames: Frame[]) {
  const bySession = new Map<string, Frame[]>();
  const status = new Map<string, SessionStatus>();
  const gone: string[] = [];
  let stored = false;
  for (const f of frames) {
    if (f.type === "session:status") status.set(f.sessionId, f.payload);
    else if (f.type === "conversations:changed") stored = true;
    else if (f.type === "error") {
      if (f.error.type === "SESSION_NOT_FOUND" && f.requestId) gone.push(f.requestId);
    } else if ("sessionId" in f) {
      const fs = bySession.get(f.sessionId);
      if (fs) fs.push(f);
      else bySession.set(f.sessionId, [f]);
    }
  }
  set((s) => {
    const next: Partial<State> = {};
    if (status.size) {
      const sessions = new Map(s.sessions);
      for (const st of status.values()) {
        if (st.deleted) gone.push(st.sessionId);
        else put(sessions, st);
      }
      for (const id of gone) sessions.delete(id);
      next.sessions = sessions;
    }
    if (stored) next.stored = s.stored + 1;
    if (gone.length) next.missing = new Set([...s.missing, ...gone]);
    if (bySession.size) {
      const transcripts = new Map(s.transcripts);
      for (const [id, fs] of bySession) transcripts.set(id, reduce(transcripts.get(id) ?? empty, fs));
      next.transcripts = transcripts;
    }
    return next;
  });
  if (shown) look(shown);
}

/** Makes changes of the list of stored conversations count in State.stored. */
export const listenStored = () => link.listen();

/** Subscribes to the session on the screen, and to no other. */
export function show(id: string | undefined) {
  if (shown === id) return;
  if (shown) {
    link.unwatch(shown);
    report(shown);
  }
  shown = id;
  if (!id) return;
  set((s) => {
    const transcripts = new Map(s.transcripts);
    const mine = transcripts.get(id);
    transcripts.delete(id);
    if (mine) transcripts.set(id, mine); // move to the end, as the newest
    for (const old of transcripts.keys()) if (transcripts.size > kept && old !== id) transcripts.delete(old);
    return { transcripts };
  });
  link.watch(id);
  look(id);
  if (get().link === "open") void tell(id); // else once the link is open
}

// Loads the full status of the session on the screen, because lists omit parts
// of it. Errors are ignored here: the other requests for the session report
// them.
async function tell(id: string) {
  learn(await api.status(id).catch(() => undefined));
}

const loading = new Set<string>(); // sessions whose older entries are being loaded

/**
 * Loads the page before the first entries of a session, unless it is being
 * loaded: a large one if the user wants to see the beginning. Errors are
 * ignored: scrolling on tries again.
 */
export async function loadOlder(id: string, toBeginning = false) {
  const before = get().transcripts.get(id)?.first;
  if (before === undefined || loading.has(id)) return;
  loading.add(id);
  try {
    const limit = toBeginning ? largePage : olderPage;
    let page = await api.items(id, before, limit);
    while (page.entries.length === 0 && page.first !== undefined)
      page = await api.items(id, page.first, limit);
    set((s) => {
      const now = s.transcripts.get(id);
      if (now?.first !== before) return {}; // it was replaced meanwhile
      return { transcripts: new Map(s.transcripts).set(id, prepend(now, page.entries, page.first)) };
    });
  } catch {
    // see above
  } finally {
    loading.delete(id);
  }
}

function look(id: string) {
  if (document.visibilityState !== "visible") return;
  const { seen, sessions, transcripts } = get();
  const s = sessions.get(id);
  const at = Math.max(s?.lastSeq ?? 0, transcripts.get(id)?.seq ?? 0);
  if ((seen[id] ?? 0) < at) set({ seen: { ...seen, [id]: at } });
  if (s && (s.activity === "idle" || s.pendingApprovals.length > 0)) report(id);
}

const reported = new Map<string, number>(); // position that the server has or is about to have, by session

// report tells the server, and so other devices, up to which position a session
// was seen. Without a connection, the next look at the session reports it.
function report(id: string) {
  const at = get().seen[id] ?? 0;
  const known = Math.max(reported.get(id) ?? 0, get().sessions.get(id)?.seenSeq ?? 0);
  if (at <= known || get().link !== "open") return;
  reported.set(id, at);
  void api.seen(id, at).catch(() => {
    if (reported.get(id) === at) reported.delete(id);
  });
}

let hiddenAt = 0;
const sleepy = 20_000; // ms in the background after which the socket is not trusted

/**
 * Reconnects when the network returns, when the browser restores the page, and
 * when the page becomes visible after more than 20 s or without a connection.
 * Marks the shown session as seen whenever the page becomes visible.
 */
export function followTheMachine(): () => void {
  const wake = () => {
    if (get().phase !== "in") return;
    link.wake(hiddenAt > 0 && Date.now() - hiddenAt > sleepy);
    hiddenAt = 0;
    if (shown) look(shown);
  };
  const visibility = () => {
    if (document.visibilityState === "visible") return wake();
    hiddenAt = Date.now();
    if (shown) report(shown);
  };
  const online = () => link.wake(true);
  const pageshow = (e: PageTransitionEvent) => e.persisted && link.wake(true);
  document.addEventListener("visibilitychange", visibility);
  window.addEventListener("online", online);
  window.addEventListener("pageshow", pageshow);
  return () => {
    document.removeEventListener("visibilitychange", visibility);
    window.removeEventListener("online", online);
    window.removeEventListener("pageshow", pageshow);
  };
}

export function toggle(key: string, to?: boolean) {
  set((s) => {
    const opened = new Set(s.opened);
    if (to ?? !opened.has(key)) opened.add(key);
    else opened.delete(key);
    return { opened };
  });
}

const remembered = 50; // number of prompts whose uploads this browser remembers

/** Sends a prompt, and scrolls to the end, where it will appear. */
export async function sendPrompt(
  id: string,
  content: string,
  queue: boolean,
  uploads: readonly string[] = [],
): Promise<Sent> {
  set((s) => ({ sent: s.sent + 1 }));
  const sent = await sendOnce({ session: id, content, queue, uploads }, (p) =>
    api.send(p.session, p.content, p.queue, p.uploads, p.turnId),
  );
  if (sent.turnId && uploads.length > 0) {
    const kept = Object.entries(load<Record<string, readonly string[]>>("uploads", {}));
    save("uploads", Object.fromEntries([...kept.slice(1 - remembered), [sent.turnId, uploads]]));
  }
  return sent;
}

/**
 * The uploads of a prompt that was sent from this browser. The server keeps
 * uploads for a day.
 */
export const uploadsOf = (turnId: string): readonly string[] =>
  load<Record<string, readonly string[]>>("uploads", {})[turnId] ?? [];

export function complain(text: string | undefined) {
  set({ problem: text ? { text, at: Date.now() } : undefined });
}

/**
 * Says that a part of the page needs a reload, and lets the user choose the
 * moment. The promise never settles: the part is not shown before.
 */
export function offerReload(): Promise<never> {
  const text = "The server was restarted. Reload the page to see this part; drafts are kept.";
  set({ problem: { text, at: Date.now(), action: { name: "Reload", run: () => location.reload() } } });
  return new Promise(() => {});
}

const newsTime = 10_000; // ms

/** Says for 10 s what was done, and offers a further action. */
export function say(text: string, name: string, run: () => void) {
  const problem = { text, at: Date.now(), good: true, action: { name, run } };
  set({ problem });
  setTimeout(() => get().problem === problem && complain(undefined), newsTime);
}

/** Moves a session into the archive, or out of it. */
export async function archive(id: string, archived: boolean) {
  if (!(await attempt(async () => learn(await api.archive(id, archived))))) return;
  if (archived) say("The session is in the archive.", "Undo", () => void archive(id, false));
}

/**
 * Forks a session after one of its turns, or after the last one, and opens the
 * fork. A notice says which of them is open.
 * Resolves to false after an error, which is shown.
 */
export async function fork(id: string, turn?: string): Promise<boolean> {
  const done = await attempt(async () => {
    const after = turn ?? get().sessions.get(id)?.lastSeq;
    const request = JSON.stringify(["fork", id, after]);
    const { sessionId, draft } = await once(request, (key) => api.fork(id, turn, key));
    if (draft) save(`draft.${sessionId}`, draft);
    await tell(sessionId);
    go({ at: "session", id: sessionId });
  });
  const back = () => go({ at: "session", id });
  if (done) say("This is a copy. The original session stays as it is.", "Open the original", back);
  return done;
}

const askAgain = 3000; // ms between two checks whether the server responds

// unreachable shows the error that the server does not respond, until it does.
function unreachable(text: string) {
  const problem = { text, at: Date.now(), unreachable: true };
  set({ problem });
  const ask = async () => {
    if (get().problem !== problem) return; // dismissed or replaced by another error
    if (await api.me().then(isTrue, (e) => e instanceof ApiError && e.status !== 0)) reached();
    else setTimeout(ask, askAgain);
  };
  setTimeout(ask, askAgain);
}

const isTrue = () => true;

// reached removes the error that the server does not respond.
function reached() {
  if (get().problem?.unreachable) complain(undefined);
}

/**
 * Runs the action of a button; an error is shown at the foot of the page. Success
 * removes the error that was shown when the action began.
 */
export async function attempt(f: () => Promise<unknown>): Promise<boolean> {
  const before = get().problem;
  try {
    await f();
    if (get().problem === before) complain(undefined);
    return true;
  } catch (e) {
    failed(e);
    return false;
  }
}

/** Shows an error at the foot of the page. */
export function failed(e: unknown) {
  if (e instanceof ApiError && e.status === 401) out("Your login has expired.");
  else if (e instanceof ApiError && e.status === 0) unreachable(e.message);
  else complain(e instanceof Error ? e.message : String(e));
}
