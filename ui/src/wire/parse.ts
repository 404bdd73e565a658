// Parses frames from the server to typed values. Unknown parts are left out,
// never guessed: an unknown type is ignored, and of a list only the malformed
// entries are dropped.

import { parseAttachment } from "./attachment";
import { sentence } from "./error";
import { parseCommands } from "./files";
import { parseQueuedPrompt } from "./queue";
import type {
  Agent,
  Append,
  Approval,
  Change,
  Choice,
  ConfigOption,
  Conversation,
  ConversationPage,
  Entry,
  Frame,
  Hunk,
  Profile,
  Project,
  ResolvedOption,
  Rule,
  RuleFields,
  SearchHit,
  SearchPage,
  SessionStatus,
  Upsert,
  Writer,
} from "./types";
import { parseRateLimit, parseUsage } from "./usage";
import { isObj, list, num, type Obj, oneOf, optNum, optSentence, optStr, str } from "./values";
import { parseSessionWorktree } from "./worktree";

/**
 * A number that JavaScript would round or would print in another form. It keeps
 * its source text, so that an approval shows exactly what would run.
 */
export class ExactNumber {
  constructor(readonly source: string) {}
}

type Reviver = (this: unknown, key: string, value: unknown, context?: { source?: string }) => unknown;

const keepExact: Reviver = (_key, value, context) =>
  typeof value === "number" && context?.source !== undefined && String(value) !== context.source
    ? new ExactNumber(context.source)
    : value;

// Finds numbers that may have more digits than JavaScript keeps.
const maybeLong = /\d{16}|\d[eE][+-]?\d|\.\d*0[,\s}\]]/;

/**
 * Parses JSON. If the text contains an approval, numbers that JavaScript would
 * change become an ExactNumber.
 */
export function parseJSON(text: string): unknown {
  const exact = text.includes('"approval') && maybeLong.test(text);
  return JSON.parse(text, exact ? (keepExact as Parameters<typeof JSON.parse>[1]) : undefined);
}

/** Returns undefined if the text is not JSON or has an unknown type. */
export function parseFrame(text: string): Frame | undefined {
  let v: unknown;
  try {
    v = parseJSON(text);
  } catch {
    return undefined;
  }
  if (!isObj(v)) return undefined;
  switch (v.type) {
    case "session:history":
      return {
        type: "session:history",
        sessionId: str(v.sessionId),
        entries: list(v.entries, parseEntry),
        seq: num(v.seq),
        first: optNum(v.first),
        resume: parseResume(v.resume),
        done: v.done === true,
      };
    case "session:status": {
      const payload = parseStatus(v.payload);
      return payload && { type: "session:status", sessionId: payload.sessionId, payload };
    }
    case "session:append": {
      const payload = parseAppend(v.payload);
      return payload && { type: "session:append", sessionId: str(v.sessionId), payload };
    }
    case "conversations:changed":
      return { type: "conversations:changed" };
    case "session:hello:ack":
      return { type: "session:hello:ack", selectedFamily: str(v.selectedFamily) };
    case "error":
      return isObj(v.error)
        ? {
            type: "error",
            requestId: optStr(v.requestId),
            error: { type: str(v.error.type), message: sentence(str(v.error.message)) },
          }
        : undefined;
  }
  const entry = parseEntry(v);
  return entry && { ...entry, sessionId: str(v.sessionId) };
}

/** A page of a session's history, and where the page before it ends. */
export interface ItemsPage {
  entries: Entry[];
  first?: number; // absent if the history has nothing older
}

export function parseItems(v: unknown): ItemsPage {
  if (!isObj(v)) return { entries: [] };
  return { entries: list(v.items, parseEntry), first: v.more === true ? optNum(v.first) : undefined };
}

function parseAppend(v: unknown): Append | undefined {
  if (!isObj(v) || !str(v.itemId)) return undefined;
  return { itemId: str(v.itemId), offset: num(v.offset), text: str(v.text), seq: num(v.seq) };
}

function parseResume(v: unknown): Extract<Frame, { type: "session:history" }>["resume"] {
  if (!isObj(v)) return undefined;
  const logId = optStr(v.logId);
  if (v.status === "gap") return { status: "gap", from: num(v.from), to: num(v.to), logId };
  if (v.status === "reset") return { status: "reset", reason: str(v.reason), logId };
  return { status: "ok", logId };
}

export function parseEntry(v: unknown): Entry | undefined {
  if (!isObj(v) || !isObj(v.payload)) return undefined;
  const p = v.payload;
  const at = { seq: num(p.seq), timestamp: str(p.timestamp) };
  switch (v.type) {
    case "session:upsert": {
      const payload = parseUpsert(p);
      return payload && { type: v.type, payload };
    }
    case "session:turn":
      if (p.type !== "turn_started" && p.type !== "turn_complete" && p.type !== "turn_error")
        return undefined;
      if (!str(p.turnId)) return undefined;
      return {
        type: v.type,
        payload: {
          ...at,
          type: p.type,
          turnId: str(p.turnId),
          sessionId: str(p.sessionId),
          modelId: optStr(p.modelId),
          providerId: optStr(p.providerId),
          status: p.status === "cancelled" ? "cancelled" : "completed",
          usage: parseUsage(p.usage),
          errorCode: optStr(p.errorCode),
          errorMessage: optSentence(p.errorMessage),
        },
      };
    case "session:approval": {
      const approval = parseApproval(p.approval);
      if (!approval) return undefined;
      const status = p.status === "resolved" ? "resolved" : "pending";
      return {
        type: v.type,
        payload: {
          ...at,
          turnId: str(p.turnId),
          status,
          approval,
          choice: optStr(p.choice),
          by: oneOf(p.by, ["user", "policy", "timeout", "agent"], "agent"),
          reason: optStr(p.reason),
          rule: optNum(p.rule),
        },
      };
    }
    case "session:notice":
      return {
        type: v.type,
        payload: {
          ...at,
          turnId: optStr(p.turnId),
          level: oneOf(p.level, ["info", "warning", "error"], "info"),
          code: str(p.code),
          message: sentence(str(p.message)),
        },
      };
    case "session:usage":
      return {
        type: v.type,
        payload: {
          ...at,
          turnId: optStr(p.turnId),
          usage: parseUsage(p.usage),
          contextTokens: optNum(p.contextTokens),
          contextWindow: optNum(p.contextWindow),
          costUsd: optNum(p.costUsd),
          rateLimit: parseRateLimit(p.rateLimit),
        },
      };
  }
  return undefined;
}

function parseUpsert(p: Obj): Upsert | undefined {
  if (!str(p.itemId) || !str(p.turnId)) return undefined;
  const base = {
    turnId: str(p.turnId),
    sessionId: str(p.sessionId),
    itemId: str(p.itemId),
    sourceTimestamp: str(p.sourceTimestamp),
    startedAt: optStr(p.startedAt),
    status: oneOf(p.status, ["create", "update", "complete", "error"], "update"),
    errorCode: optStr(p.errorCode),
    errorMessage: optSentence(p.errorMessage),
    seq: num(p.seq),
    parentCallId: optStr(p.parentCallId),
  };
  if (p.type === "message" && isObj(p.message)) {
    const origin = oneOf(p.message.origin, ["user", "agent", "system"], "agent");
    const attachments = list(p.message.attachments, parseAttachment);
    return { ...base, type: "message", message: { content: str(p.message.content), origin, attachments } };
  }
  if (p.type === "thinking" && isObj(p.thinking))
    return { ...base, type: "thinking", thinking: { content: str(p.thinking.content) } };
  if (p.type === "plan" && isObj(p.plan)) {
    const entries = list(p.plan.entries, (e) =>
      isObj(e) ? { content: str(e.content), status: str(e.status), priority: optStr(e.priority) } : undefined,
    );
    return { ...base, type: "plan", plan: { entries } };
  }
  if (p.type === "tool_call" && isObj(p.tool_call)) {
    const t = p.tool_call;
    return {
      ...base,
      parentCallId: base.parentCallId ?? optStr(t.parentCallId),
      type: "tool_call",
      tool_call: {
        toolName: str(t.toolName),
        toolArguments: t.toolArguments,
        toolArgumentsText: optStr(t.toolArgumentsText),
        callId: str(t.callId),
        toolOutput: typeof t.toolOutput === "string" ? t.toolOutput : undefined,
        toolOutputIsError: t.toolOutputIsError === true,
        kind: optStr(t.kind) as never,
        title: optStr(t.title),
        locations: list(t.locations, (l) =>
          isObj(l) && str(l.path) ? { path: str(l.path), line: optNum(l.line) } : undefined,
        ),
        changes: list(t.changes, parseChange),
        exitCode: optNum(t.exitCode),
        truncated: t.truncated === true,
        totalBytes: optNum(t.totalBytes),
      },
    };
  }
  return undefined;
}

export function parseChange(v: unknown): Change | undefined {
  if (!isObj(v) || !str(v.path)) return undefined;
  return {
    path: str(v.path),
    kind: oneOf(v.kind, ["create", "update", "delete", "move"], "update"),
    movedTo: optStr(v.movedTo),
    oldText: typeof v.oldText === "string" ? v.oldText : undefined,
    newText: typeof v.newText === "string" ? v.newText : undefined,
    hunks: list(v.hunks, parseHunk),
  };
}

export function parseHunk(v: unknown): Hunk | undefined {
  if (!isObj(v)) return undefined;
  return {
    oldStart: num(v.oldStart),
    oldLines: num(v.oldLines),
    newStart: num(v.newStart),
    newLines: num(v.newLines),
    lines: list(v.lines, (l) => (typeof l === "string" ? l : undefined)),
  };
}

const choiceKinds = ["allow_once", "allow_session", "allow_always", "deny", "deny_stop"] as const;

function parseChoice(v: unknown): Choice | undefined {
  if (!isObj(v) || !str(v.id)) return undefined;
  // An unknown kind counts as the widest permission, so that it is never the
  // first button.
  return {
    id: str(v.id),
    kind: oneOf(v.kind, choiceKinds, "allow_always"),
    label: str(v.label) || str(v.id),
  };
}

function parseApproval(v: unknown): Approval | undefined {
  if (!isObj(v) || !str(v.id)) return undefined;
  return {
    id: str(v.id),
    itemId: optStr(v.itemId),
    callId: optStr(v.callId),
    kind: oneOf(v.kind, ["tool", "plan", "question", "form"], "tool"),
    title: str(v.title),
    toolName: optStr(v.toolName),
    arguments: v.arguments,
    argumentsEditable: v.argumentsEditable === true,
    argumentsDigest: optStr(v.argumentsDigest),
    why: optStr(v.why),
    changes: list(v.changes, parseChange),
    choices: list(v.choices, parseChoice),
  };
}

/** Parses a row of the session list, or the payload of session:status. */
export function parseStatus(v: unknown): SessionStatus | undefined {
  if (!isObj(v) || !str(v.sessionId)) return undefined;
  return {
    sessionId: str(v.sessionId),
    cliType: str(v.cliType),
    projectId: str(v.projectId),
    projectDir: str(v.projectDir),
    title: str(v.title),
    archived: v.archived === true || undefined,
    deleted: v.deleted === true || undefined,
    state: oneOf(v.state, ["open", "loading", "dead"], "open"),
    activity: oneOf(v.activity, ["idle", "working", "waiting"], "idle"),
    turnId: optStr(v.turnId),
    lastSeq: num(v.lastSeq),
    isAlive: v.isAlive === true,
    bootedAt: optStr(v.bootedAt),
    agentSessionId: optStr(v.agentSessionId),
    modelId: optStr(v.modelId),
    permissionMode: optStr(v.permissionMode),
    persona: optStr(v.persona),
    config: v.config === undefined ? undefined : list(v.config, parseOption),
    given: strings(v.given),
    files:
      v.files === undefined
        ? undefined
        : list(v.files, (f) =>
            isObj(f) && str(f.path) ? { path: str(f.path), kind: str(f.kind) } : undefined,
          ),
    commands: v.commands === undefined ? undefined : parseCommands(v.commands),
    resolved: v.resolved === undefined ? undefined : parseResolved(v.resolved),
    worktree: parseSessionWorktree(v.worktree),
    writer: parseWriter(v.writer),
    lastLine: optStr(v.lastLine),
    lastTurn:
      v.lastTurn === undefined
        ? undefined
        : oneOf(v.lastTurn, ["completed", "cancelled", "error"], "completed"),
    pendingApprovals: list(v.pendingApprovals, parseApproval),
    queued: num(v.queued),
    queueHeld: v.queueHeld === true || undefined,
    queue: v.queue === undefined ? undefined : list(v.queue, parseQueuedPrompt),
    seenSeq: num(v.seenSeq),
    createdAt: str(v.createdAt),
    lastActiveAt: str(v.lastActiveAt),
  };
}

function parseWriter(v: unknown): Writer | undefined {
  if (!isObj(v)) return undefined;
  return {
    pid: typeof v.pid === "number" ? v.pid : undefined,
    source: oneOf(v.source, ["registry", "descriptors", "recent"], "recent"),
  };
}

function parseResolved(v: unknown): ResolvedOption[] {
  if (!isObj(v)) return [];
  const text = (value: unknown) =>
    Array.isArray(value)
      ? value.map(String).join(", ")
      : typeof value === "string"
        ? value
        : JSON.stringify(value);
  return Object.keys(v)
    .sort()
    .flatMap((name) => {
      const o = v[name];
      if (!isObj(o) || !str(o.from)) return [];
      const also = list(o.also, (f) => str(f) || undefined);
      return [
        { name, value: o.value === undefined ? undefined : text(o.value), from: [str(o.from), ...also] },
      ];
    });
}

function parseOption(v: unknown): ConfigOption | undefined {
  if (!isObj(v) || !str(v.id) || (v.type !== "select" && v.type !== "boolean")) return undefined;
  return {
    id: str(v.id),
    name: str(v.name) || str(v.id),
    description: optStr(v.description),
    category: optStr(v.category),
    type: v.type,
    value: str(v.value),
    choices: list(v.choices, (c) =>
      isObj(c) && typeof c.value === "string"
        ? {
            value: c.value,
            name: str(c.name) || c.value,
            description: optStr(c.description),
            group: optStr(c.group),
          }
        : undefined,
    ),
  };
}

const strings = (v: unknown): Record<string, string> =>
  isObj(v)
    ? Object.fromEntries(Object.entries(v).filter((e): e is [string, string] => typeof e[1] === "string"))
    : {};

export function parseSessions(v: unknown): SessionStatus[] {
  return isObj(v) ? list(v.sessions, parseStatus) : [];
}

export function parseConversations(v: unknown): ConversationPage {
  if (!isObj(v)) return { conversations: [], checking: [], disabled: false };
  return {
    conversations: list(v.conversations, parseConversation),
    next: optStr(v.next),
    checking: list(v.checking, optStr),
    disabled: v.disabled === true,
  };
}

function parseConversation(v: unknown): Conversation | undefined {
  if (!isObj(v) || !str(v.cliType) || !str(v.agentSessionId)) return undefined;
  return {
    cliType: str(v.cliType),
    agentSessionId: str(v.agentSessionId),
    sessionId: optStr(v.sessionId),
    projectDir: str(v.projectDir),
    title: str(v.title),
    lastMessage: optStr(v.lastMessage),
    updatedAt: str(v.updatedAt),
  };
}

export function parseAgents(v: unknown): Agent[] {
  return isObj(v) ? list(v.agents, parseAgent) : [];
}

function parseAgent(v: unknown): Agent | undefined {
  if (!isObj(v) || !str(v.cliType)) return undefined;
  return {
    cliType: str(v.cliType),
    displayName: str(v.displayName) || str(v.cliType),
    checking: v.checking === true,
    checkedAt: optStr(v.checkedAt),
    installed: v.installed === true,
    path: optStr(v.path),
    version: optStr(v.version),
    loggedIn: typeof v.loggedIn === "boolean" ? v.loggedIn : undefined,
    install: optStr(v.install),
    login: optStr(v.login),
    problem: optStr(v.problem),
    models: list(v.models, (m) =>
      isObj(m) && str(m.id)
        ? { id: str(m.id), name: optStr(m.name), description: optStr(m.description) }
        : undefined,
    ),
    modes: list(v.modes, (m) => (typeof m === "string" ? m : undefined)),
    modeLabels: strings(v.modeLabels),
    config: list(v.config, parseOption),
  };
}

export function parseProjects(v: unknown): Project[] {
  if (!isObj(v)) return [];
  return list(v.projects, (p) =>
    isObj(p) && str(p.projectDir)
      ? {
          projectId: str(p.projectId),
          projectDir: str(p.projectDir),
          sessions: num(p.sessions),
          lastActiveAt: str(p.lastActiveAt),
        }
      : undefined,
  );
}

const ruleKinds = [
  "execute",
  "edit",
  "read",
  "fetch",
  "connect",
  "tool",
  "sandbox_read",
  "sandbox_write",
] as const;

function ruleFields(v: unknown): RuleFields | undefined {
  if (!isObj(v)) return undefined;
  const kind = ruleKinds.find((k) => k === v.kind);
  if (!kind || (v.effect !== "allow" && v.effect !== "deny")) return undefined;
  const out: RuleFields = { effect: v.effect, kind };
  for (const key of ["cliType", "projectDir", "sessionId", "tool", "pattern", "note"] as const) {
    const text = optStr(v[key]);
    if (text !== undefined) out[key] = text;
  }
  return out;
}

/** Parses the rules that would decide calls like the one of an approval. */
export function parseSuggestedRules(v: unknown): RuleFields[] {
  return isObj(v) ? list(v.suggestedRules, ruleFields) : [];
}

export function parseRules(v: unknown): Rule[] {
  if (!isObj(v)) return [];
  return list(v.rules, (r) => {
    const fields = ruleFields(r);
    return fields && isObj(r) && typeof r.id === "number"
      ? {
          ...fields,
          id: r.id,
          by: str(r.by),
          createdAt: str(r.createdAt),
          uses: num(r.uses),
          lastUsedAt: optStr(r.lastUsedAt),
        }
      : undefined;
  });
}

export function parseProfiles(v: unknown): Profile[] {
  if (!isObj(v)) return [];
  return list(v.profiles, (p) =>
    isObj(p) && str(p.name)
      ? {
          name: str(p.name),
          description: optStr(p.description),
          project: p.project === true,
          default: p.default === true,
          error: optSentence(p.error),
        }
      : undefined,
  );
}

const searchKinds = ["prompt", "answer", "command", "diff"] as const;

/** Parses a page of search results. */
export function parseSearch(v: unknown): SearchPage {
  const o = isObj(v) ? v : {};
  return {
    hits: list(o.hits, parseHit),
    next: optStr(o.next),
    indexing: o.indexing === true,
    disabled: o.disabled === true,
  };
}

function parseHit(v: unknown): SearchHit | undefined {
  if (!isObj(v) || !str(v.itemId)) return undefined;
  const sessionId = optStr(v.sessionId) || undefined;
  const agentSessionId = sessionId ? undefined : optStr(v.agentSessionId) || undefined;
  if (!sessionId && !(agentSessionId && str(v.cliType))) return undefined;
  return {
    sessionId,
    agentSessionId,
    cliType: str(v.cliType),
    itemId: str(v.itemId),
    title: str(v.title),
    projectDir: str(v.projectDir),
    kind: oneOf(v.kind, searchKinds, "answer"),
    at: str(v.at),
    snippet: list(v.snippet, (p) => (isObj(p) ? { text: str(p.text), match: p.match === true } : undefined)),
  };
}
