// The Session API as functions. A response other than 2xx is thrown as an
// ApiError with the server's own message, which is meant for users.

import type { NoticeKind } from "../worker/messages";
import { alone } from "./alone";
import { type AuditPage, parseAudit, parseVerified, type Verified } from "./audit";
import { base } from "./base";
import { type Committed, type Diffs, parseCommitted, parseDiff, parseDiffs, parseFolder } from "./changes";
import { type Denial, parseDenials, parseSandboxChange, type SandboxChange } from "./denials";
import { type Device, parseDevices } from "./devices";
import { ApiError, sentence } from "./error";
import { parseCompletion, parseFolder as parseCreated, parseFile, parseFolders } from "./files";
import { keepLogin, keyChanges, login } from "./key";
import { type MCPDefinition, type MCPServers, parseMCPServers } from "./mcp";
import {
  type ItemsPage,
  parseAgents,
  parseConversations,
  parseItems,
  parseJSON,
  parseProfiles,
  parseProjects,
  parseRules,
  parseSearch,
  parseSessions,
  parseStatus,
  parseSuggestedRules,
} from "./parse";
import { proof } from "./proof";
import { type PushState, parsePush } from "./push";
import { parseQueuedPrompt } from "./queue";
import { type Expiry, parseExpiry } from "./retention";
import type {
  Agent,
  Completion,
  ConversationPage,
  FileDiff,
  Folder,
  FolderStatus,
  Folders,
  Options,
  Profile,
  Project,
  ProjectFile,
  QueuedPrompt,
  Rule,
  RuleFields,
  SearchFilter,
  SearchPage,
  SessionStatus,
  SessionUsage,
  Side,
  WorktreeStatus,
} from "./types";
import { parseSessionUsage } from "./usage";
import { type Merged, parseMerged, parseWorktree } from "./worktree";

export { ApiError };

const requestTimeout = 30_000; // ms; no response waits for a model

const slow = 120_000; // ms; for uploads

type Method = "GET" | "POST" | "DELETE";

/**
 * Sends a request with this browser's login, after the server has proved its
 * identity.
 */
async function call(
  method: Method,
  path: string,
  body?: string | Blob,
  headers: Record<string, string> = {},
): Promise<unknown> {
  const res = await authorized(method, path, body, headers);
  let text: string;
  try {
    text = await res.text();
  } catch {
    throw new ApiError("UNREACHABLE", "The server’s response was cut off. Is it running?", 0);
  }
  try {
    return text === "" ? {} : parseJSON(text);
  } catch {
    throw unexplained(res);
  }
}

async function authorized(
  method: Method,
  path: string,
  body?: string | Blob,
  headers: Record<string, string> = {},
  signal?: AbortSignal, // ends the request; without it, a deadline does
): Promise<Response> {
  await proof();
  const key = login()?.key;
  const attempt = (key: string | undefined) =>
    request(
      method,
      path,
      body,
      { ...headers, ...(key && { "Runnel-Key": key }) },
      key ? "same-origin" : "omit",
      signal,
    );
  try {
    return await attempt(key);
  } catch (e) {
    // Another tab may have logged in: its cookie replaces ours at once, and its
    // key arrives here a little later.
    if (!(e instanceof ApiError) || e.status !== 401 || !key || !(await keyChanges(key))) throw e;
    return attempt(login()?.key);
  }
}

// request returns a successful response, and throws any other as an ApiError.
async function request(
  method: Method,
  path: string,
  body: string | Blob | undefined,
  headers: Record<string, string>,
  credentials: RequestCredentials,
  signal?: AbortSignal,
): Promise<Response> {
  alone();
  const file = typeof body === "object";
  if (body !== undefined) headers["Content-Type"] = file ? "application/octet-stream" : "application/json";
  let res: Response;
  try {
    res = await fetch(base + path, {
      method,
      body,
      headers,
      credentials,
      signal: signal ?? AbortSignal.timeout(file ? slow : requestTimeout),
    });
  } catch {
    throw new ApiError("UNREACHABLE", "The server is not responding. Is it running?", 0);
  }
  if (res.ok) return res;
  let v: unknown;
  try {
    v = parseJSON(await res.text());
  } catch {
    throw unexplained(res);
  }
  const e = (v as { error?: { type?: unknown; message?: unknown; details?: unknown } } | undefined)?.error;
  if (typeof e?.message !== "string") throw unexplained(res);
  throw new ApiError(
    typeof e.type === "string" ? e.type : "INTERNAL",
    sentence(e.message),
    res.status,
    typeof e.details === "object" && e.details !== null ? (e.details as Record<string, unknown>) : {},
  );
}

const unexplained = (res: Response) =>
  new ApiError("INTERNAL", `The server responded with status ${res.status} and no message.`, res.status);

const post = (path: string, body: unknown, key?: string) =>
  call("POST", path, JSON.stringify(body), key ? { "Idempotency-Key": key } : {});
const queued = (id: string, turnId: string) => `${session(id)}/queue/${encodeURIComponent(turnId)}`;
const session = (id: string) => `/api/session/${encodeURIComponent(id)}`;

const mcp = (cliType: string) => `/api/agents/${encodeURIComponent(cliType)}/mcp`;

const query = (values: Record<string, string | number | undefined>) => {
  const p = new URLSearchParams();
  for (const [k, v] of Object.entries(values)) if (v !== undefined) p.set(k, String(v));
  return p.size > 0 ? `?${p}` : "";
};

export interface Decision {
  choice: string;
  reason?: string;
  argumentsDigest?: string;
  remember?: RuleFields; // a rule to store, which decides similar calls in the same way
  updatedArguments?: string; // JSON text, sent unchanged so that numbers keep their digits
}

export type ExportFormat = "jsonl" | "md" | "html";

/** What the deletion of a session frees. */
export interface Deletion {
  bytes: number; // approximately
  transcript?: string; // path of the agent's own file, which stays
  worktree?: { root: string; stays: boolean; why: string };
}

export interface Overview {
  sessions: SessionStatus[];
  agents: Agent[];
  projects: Project[];
}

/** A prompt that the server has accepted. */
export interface Sent {
  turnId: string;
  warnings: string[]; // for example about attachments that were left out
}

export const api = {
  async login(code: string): Promise<void> {
    const body = JSON.stringify({ code });
    const res = await request("POST", "/api/login", body, {}, "same-origin");
    const v = parseJSON(await res.text()) as Record<string, unknown>;
    const { key, login: id, proofKey } = v;
    if (typeof key !== "string" || typeof id !== "string" || typeof proofKey !== "string")
      throw new ApiError("INTERNAL", "The server’s login response has no key.", 0);
    keepLogin({ id, key, proofKey });
  },
  me: () => call("GET", "/api/me"),
  devices: async (): Promise<Device[]> => parseDevices(await call("GET", "/api/tokens")),
  /** Returns the id of this browser's own login. */
  ownDevice: async (): Promise<string | undefined> => {
    const v = (await call("GET", "/api/me")) as { id?: unknown };
    return typeof v.id === "string" ? v.id : undefined;
  },
  /** Whether this browser's login may read the audit log. */
  isAdmin: async (): Promise<boolean> => {
    const v = (await call("GET", "/api/me")) as { scopes?: unknown };
    return Array.isArray(v.scopes) && v.scopes.includes("admin");
  },
  renameDevice: (id: string, name: string) => post(`/api/tokens/${encodeURIComponent(id)}/rename`, { name }),
  revokeDevice: (id: string) => post(`/api/tokens/${encodeURIComponent(id)}/revoke`, {}),
  push: async (): Promise<PushState> => parsePush(await call("GET", "/api/push")),
  subscribePush: async (
    endpoint: string,
    keys: { p256dh: string; auth: string },
    kinds: NoticeKind[],
  ): Promise<PushState> => parsePush(await post("/api/push", { endpoint, keys, kinds })),
  unsubscribePush: async (): Promise<PushState> => parsePush(await call("DELETE", "/api/push")),
  agents: async (again = false): Promise<Agent[]> =>
    parseAgents(await call("GET", again ? "/api/agents?refresh=true" : "/api/agents")),
  /** Returns everything that the first view shows. */
  overview: async (): Promise<Overview> => {
    const v = await call("GET", "/api/overview");
    return { sessions: parseSessions(v), agents: parseAgents(v), projects: parseProjects(v) };
  },
  profiles: async (dir: string): Promise<Profile[]> =>
    parseProfiles(await call("GET", `/api/profiles${dir ? `?projectDir=${encodeURIComponent(dir)}` : ""}`)),

  /**
   * Creates a session. A repeated request with the same key creates no second
   * session.
   */
  async create(cliType: string, projectDir: string, options: Options, key?: string): Promise<string> {
    const v = (await post("/api/session/create", { cliType, projectDir, options }, key)) as {
      sessionId?: unknown;
    };
    if (typeof v.sessionId !== "string")
      throw new ApiError("INTERNAL", "The server’s response has no session id.", 0);
    return v.sessionId;
  },
  /** Returns the page of a session's history that ends before a position. */
  items: async (id: string, before: number, limit: number): Promise<ItemsPage> =>
    parseItems(await call("GET", `${session(id)}/items?before=${before}&limit=${limit}`)),
  load: (id: string, takeOver?: boolean) => post(`${session(id)}/load`, { takeOver }),
  /** Returns a page of the conversations that agents have stored. */
  conversations: async (after?: string): Promise<ConversationPage> =>
    parseConversations(
      await call("GET", `/api/conversations${after ? `?after=${encodeURIComponent(after)}` : ""}`),
    ),
  /** Makes a stored conversation a session, and returns the session's id. */
  async open(c: { cliType: string; agentSessionId: string }): Promise<string> {
    const v = (await post(`${session(`${c.cliType}:${c.agentSessionId}`)}/load`, {})) as {
      sessionId?: unknown;
    };
    if (typeof v.sessionId !== "string")
      throw new ApiError("INTERNAL", "The server’s response has no session id.", 0);
    return v.sessionId;
  },
  async send(
    id: string,
    content: string,
    queue: boolean,
    uploads: readonly string[] = [],
    turnId?: string,
  ): Promise<Sent> {
    const body: Record<string, unknown> = { content, turnId };
    if (queue) body.queue = true;
    if (uploads.length > 0) body.attachments = uploads.map((uploadId) => ({ uploadId }));
    const v = (await post(`${session(id)}/send`, body)) as { turnId?: unknown; warnings?: unknown };
    return {
      turnId: typeof v.turnId === "string" ? v.turnId : "",
      warnings: Array.isArray(v.warnings) ? v.warnings.filter((w) => typeof w === "string") : [],
    };
  },
  async upload(file: File): Promise<string> {
    const v = (await call("POST", `/api/uploads?name=${encodeURIComponent(file.name)}`, file)) as {
      uploadId?: unknown;
    };
    if (typeof v.uploadId !== "string")
      throw new ApiError("INTERNAL", "The server’s response has no upload id.", 0);
    return v.uploadId;
  },
  /** Returns files of a session's project whose paths match what was typed. */
  files: async (id: string, query: string): Promise<Completion> =>
    parseCompletion(await call("GET", `${session(id)}/files?query=${encodeURIComponent(query)}`)),
  /** The same for a directory that may have no session yet. */
  projectFiles: async (dir: string, query: string): Promise<Completion> => {
    const p = new URLSearchParams({ projectDir: dir, query });
    return parseCompletion(await call("GET", `/api/files?${p}`));
  },
  /** Returns a file of a session's folder, with the lines from to to of a text. */
  file: async (id: string, path: string, from: number, to: number): Promise<ProjectFile> =>
    parseFile(await call("GET", `${session(id)}/file${query({ path, from, to })}`)),
  /** Returns an image of a session's folder. */
  image: async (id: string, path: string): Promise<Blob> =>
    (await authorized("GET", `${session(id)}/image${query({ path })}`)).blob(),
  /** Returns directories of the server's machine for the choice of a folder. */
  folders: async (path: string): Promise<Folders> =>
    parseFolders(await call("GET", `/api/folders${path ? `?path=${encodeURIComponent(path)}` : ""}`)),
  cancel: (id: string) => post(`${session(id)}/cancel`, {}),
  kill: (id: string) => post(`${session(id)}/kill`, {}),
  /** Holds or continues the queue. The socket delivers the changed queue. */
  holdQueue: (id: string, held: boolean) => post(`${session(id)}/queue`, { held }),
  /** Changes the text of a queued prompt, or moves it before another one, or to the end (""). */
  editQueued: (id: string, turnId: string, edit: { content?: string; before?: string }) =>
    post(queued(id, turnId), edit),
  removeQueued: (id: string, turnId: string) => call("DELETE", queued(id, turnId)),
  /** Returns a queued prompt with its whole text. */
  queuedPrompt: async (id: string, turnId: string): Promise<QueuedPrompt | undefined> =>
    parseQueuedPrompt(await call("GET", queued(id, turnId))),
  /** Records up to which position a session was seen, for all devices. */
  seen: (id: string, seq: number) => post(`${session(id)}/seen`, { seq }),
  /**
   * Creates a session that continues after a turn, or after the last one. The
   * draft is the beginning of its first prompt; it is empty if the agent itself
   * goes back to the turn. A repeated request with the same key makes no second
   * fork.
   */
  async fork(id: string, turnId?: string, key?: string): Promise<{ sessionId: string; draft: string }> {
    const v = (await post(`${session(id)}/fork`, { turnId }, key)) as {
      sessionId?: unknown;
      draft?: unknown;
    };
    if (typeof v.sessionId !== "string")
      throw new ApiError("INTERNAL", "The server’s response has no session id.", 0);
    return { sessionId: v.sessionId, draft: typeof v.draft === "string" ? v.draft : "" };
  },
  rename: async (id: string, title: string): Promise<SessionStatus | undefined> =>
    parseStatus(await post(`${session(id)}/rename`, { title })),
  archive: async (id: string, archived: boolean): Promise<SessionStatus | undefined> =>
    parseStatus(await post(`${session(id)}/archive`, { archived })),
  export: async (id: string, format: ExportFormat): Promise<Blob> =>
    (await authorized("GET", `${session(id)}/export?format=${format}`)).blob(),
  /** Returns an image that a prompt of the session contained. */
  picture: async (id: string, picture: string): Promise<Blob> =>
    (await authorized("GET", `${session(id)}/pictures/${encodeURIComponent(picture)}`)).blob(),
  /** Returns what a deletion would free, and where the agent's transcript stays. */
  deletion: async (id: string): Promise<Deletion> => {
    const v = (await call("GET", `${session(id)}/deletion`)) as Record<string, unknown>;
    const transcript = v.transcript as { path?: unknown } | undefined;
    const w = v.worktree as { root?: unknown; stays?: unknown; why?: unknown } | undefined;
    return {
      bytes: typeof v.freedBytes === "number" ? v.freedBytes : 0,
      transcript: typeof transcript?.path === "string" ? transcript.path : undefined,
      worktree:
        typeof w?.root === "string"
          ? { root: w.root, stays: w.stays === true, why: typeof w.why === "string" ? w.why : "" }
          : undefined,
    };
  },
  remove: (id: string) => call("DELETE", session(id)),
  status: async (id: string): Promise<SessionStatus | undefined> =>
    parseStatus(await call("GET", `${session(id)}/status`)),
  /** Returns the status of the session after the change. */
  options: async (id: string, options: Options): Promise<SessionStatus | undefined> =>
    parseStatus(await post(`${session(id)}/options`, options)),

  decide(id: string, approval: string, d: Decision): Promise<unknown> {
    const { updatedArguments, ...rest } = d;
    let body = JSON.stringify(rest);
    if (updatedArguments !== undefined) body = `${body.slice(0, -1)},"updatedArguments":${updatedArguments}}`;
    return call("POST", `${session(id)}/approvals/${encodeURIComponent(approval)}`, body);
  },

  /**
   * Rules that would allow calls like the one of the approval, the narrowest
   * first.
   */
  suggestedRules: async (id: string, approval: string): Promise<RuleFields[]> =>
    parseSuggestedRules(await call("GET", `${session(id)}/approvals/${encodeURIComponent(approval)}`)),
  /** The changes that an approval would allow, with their places in the files. */
  intended: async (id: string, approval: string): Promise<FileDiff[]> =>
    parseDiffs(await call("GET", `${session(id)}/approvals/${encodeURIComponent(approval)}/changes`)).files,
  /**
   * The combined changes of a session, of one turn or of all, and of one file or
   * of all.
   */
  changes: async (id: string, of: { turn?: string; path?: string; context?: number }): Promise<Diffs> =>
    parseDiffs(await call("GET", `${session(id)}/changes${query(of)}`)),
  createFolder: async (path: string, name: string): Promise<Folder> => {
    const made = parseCreated(await post("/api/folders", { path, name }));
    if (!made) throw new ApiError("INTERNAL", "The server’s response has no folder.", 0);
    return made;
  },
  folder: async (id: string): Promise<FolderStatus> => parseFolder(await call("GET", `${session(id)}/git`)),
  folderDiff: async (id: string, path: string, side: Side, context?: number): Promise<FileDiff> => {
    const diff = parseDiff(await call("GET", `${session(id)}/git/diff${query({ path, side, context })}`));
    if (!diff) throw new ApiError("INTERNAL", "The server’s response has no diff.", 0);
    return diff;
  },
  /** Returns the state of the folder after the change. */
  stage: async (
    id: string,
    files: { path: string; seen?: string }[],
    staged: boolean,
  ): Promise<FolderStatus> => parseFolder(await post(`${session(id)}/git/stage`, { files, staged })),
  commit: async (id: string, message: string, seen: string): Promise<Committed> =>
    parseCommitted(await post(`${session(id)}/git/commit`, { message, seen })),
  /** Returns the id of the git object that keeps the previous content, if any. */
  revert: async (id: string, path: string, seen: string, losesUnstaged: boolean): Promise<string> => {
    const v = (await post(`${session(id)}/git/revert`, { path, seen, losesUnstaged })) as { kept?: unknown };
    return typeof v.kept === "string" ? v.kept : "";
  },
  worktree: async (id: string): Promise<WorktreeStatus> =>
    parseWorktree(await call("GET", `${session(id)}/worktree`)),
  /**
   * Merges the worktree into the project, if it is as `seen` says. A message
   * commits all files before.
   */
  mergeWorktree: async (id: string, message: string, seen: string): Promise<Merged> =>
    parseMerged(
      await post(`${session(id)}/worktree/merge`, message.trim() === "" ? { seen } : { message, seen }),
    ),
  /** Removes the worktree. Work is discarded only if the worktree is as `seen` says. */
  removeWorktree: (id: string, discard: boolean, seen: string) =>
    post(`${session(id)}/worktree/remove`, discard ? { discard, seen } : {}),
  /**
   * Finds items of all sessions and stored conversations. `before` is the next
   * of the page before.
   */
  search: async (q: string, f: SearchFilter, before?: string): Promise<SearchPage> => {
    const p = new URLSearchParams({ q });
    if (f.kind) p.set("kind", f.kind);
    if (f.cliType) p.set("cliType", f.cliType);
    if (f.projectDir) p.set("projectDir", f.projectDir);
    if (f.days > 0) p.set("since", new Date(Date.now() - f.days * 86_400_000).toISOString());
    if (before) p.set("before", before);
    return parseSearch(await call("GET", `/api/search?${p}`));
  },
  /** Streams the events of a session after a position, until the signal ends it. */
  events: (id: string, after: number, signal: AbortSignal): Promise<Response> =>
    authorized("GET", `${session(id)}/events${query({ after })}`, undefined, {}, signal),
  usage: async (session: string): Promise<SessionUsage> =>
    parseSessionUsage(await call("GET", `/api/usage?sessionId=${encodeURIComponent(session)}&limit=1`)),
  /** Returns the entries of the audit log after one; waits some seconds for the first. */
  audit: async (after: number, limit: number, wait: number): Promise<AuditPage> =>
    parseAudit(await call("GET", `/api/audit${query({ after, limit, wait })}`)),
  verifyAudit: async (): Promise<Verified> => parseVerified(await call("GET", "/api/audit/verify")),
  rules: async (): Promise<Rule[]> => parseRules(await call("GET", "/api/rules")),
  mcpServers: async (cliType: string): Promise<MCPServers> =>
    parseMCPServers(await call("GET", mcp(cliType))),
  addMCPServer: (cliType: string, d: MCPDefinition) => post(mcp(cliType), d),
  removeMCPServer: (cliType: string, name: string) =>
    call("DELETE", `${mcp(cliType)}/${encodeURIComponent(name)}`),
  /** What would be deleted by the server's settings, or of the sessions that were not active for `days`. */
  retention: async (days?: number): Promise<Expiry> =>
    parseExpiry(
      await call(
        "GET",
        `/api/retention${query({ olderThan: days === undefined ? undefined : `${Math.max(1, Math.round(days * 86_400_000))}ms` })}`,
      ),
    ),
  denials: async (id: string): Promise<Denial[]> => parseDenials(await call("GET", `${session(id)}/denials`)),
  /** Lets the sandbox of a session, or those of a project, reach a path. */
  allowInSandbox: async (
    kind: "sandbox_read" | "sandbox_write",
    pattern: string,
    place: { sessionId: string } | { projectDir: string },
  ): Promise<SandboxChange | undefined> =>
    parseSandboxChange(await post("/api/rules", { effect: "allow", kind, pattern, ...place })),
  removeRule: (id: number) => call("DELETE", `/api/rules/${id}`),
};
