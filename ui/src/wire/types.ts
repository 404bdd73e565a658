// The words of the wire, as the server says them. Everything here arrives from
// outside: parse.ts decides what is let in.

export type ToolKind =
  | "read"
  | "edit"
  | "delete"
  | "move"
  | "search"
  | "execute"
  | "think"
  | "fetch"
  | "switch_mode"
  | "delegate"
  | "other";

export interface Hunk {
  oldStart: number;
  oldLines: number;
  newStart: number;
  newLines: number;
  lines: string[]; // each begins with ' ', '-' or '+'
}

export interface Change {
  path: string;
  kind: "create" | "update" | "delete" | "move";
  movedTo?: string;
  oldText?: string;
  newText?: string;
  hunks: Hunk[];
}

export interface Attachment {
  name?: string;
  mediaType: string;
  size?: number;
}

export interface PlanEntry {
  content: string;
  status: string;
  priority?: string;
}

export interface ToolCall {
  toolName: string;
  toolArguments?: unknown; // absent while it streams
  toolArgumentsText?: string;
  callId: string;
  toolOutput?: string;
  toolOutputIsError?: boolean;
  kind?: ToolKind;
  title?: string;
  locations?: { path: string; line?: number }[];
  changes?: Change[];
  exitCode?: number;
  truncated?: boolean;
  totalBytes?: number;
}

export type UpsertStatus = "create" | "update" | "complete" | "error";

interface UpsertBase {
  turnId: string;
  sessionId: string;
  itemId: string;
  sourceTimestamp: string;
  startedAt?: string;
  status: UpsertStatus;
  errorCode?: string;
  errorMessage?: string;
  seq: number;
  parentCallId?: string;
}

export type Upsert = UpsertBase &
  (
    | {
        type: "message";
        message: { content: string; origin: "user" | "agent" | "system"; attachments?: Attachment[] };
      }
    | { type: "thinking"; thinking: { content: string } }
    | { type: "tool_call"; tool_call: ToolCall }
    | { type: "plan"; plan: { entries: PlanEntry[] } }
  );

export interface Usage {
  inputTokens: number;
  outputTokens: number;
  cacheReadInputTokens?: number;
  cacheCreationInputTokens?: number;
  reasoningTokens?: number;
}

export interface TurnEvent {
  type: "turn_started" | "turn_complete" | "turn_error";
  turnId: string;
  sessionId: string;
  seq: number;
  timestamp: string;
  modelId?: string;
  providerId?: string;
  status?: "completed" | "cancelled";
  usage?: Usage;
  errorCode?: string;
  errorMessage?: string;
}

export type ChoiceKind = "allow_once" | "allow_session" | "allow_always" | "deny" | "deny_stop";

export interface Choice {
  id: string;
  kind: ChoiceKind;
  label: string;
}

export interface Approval {
  id: string;
  itemId?: string;
  callId?: string;
  kind: "tool" | "plan" | "question" | "form";
  title: string;
  toolName?: string;
  arguments?: unknown;
  argumentsEditable?: boolean;
  argumentsDigest?: string;
  why?: string;
  changes?: Change[];
  choices: Choice[];
}

export interface ApprovalEvent {
  turnId: string;
  seq: number;
  timestamp: string;
  status: "pending" | "resolved";
  approval: Approval;
  choice?: string;
  by?: "user" | "policy" | "timeout" | "agent";
  reason?: string;
}

export interface Notice {
  turnId?: string;
  seq: number;
  timestamp: string;
  level: "info" | "warning" | "error";
  code: string;
  message: string;
}

export interface UsageEvent {
  turnId?: string;
  seq: number;
  timestamp: string;
  usage?: Usage;
  contextTokens?: number;
  contextWindow?: number;
  costUsd?: number;
  rateLimit?: { status: string; kind?: string; utilization?: number; resetsAt?: number };
}

export interface SessionStatus {
  sessionId: string;
  cliType: string;
  projectId: string;
  projectDir: string;
  title: string;
  state: "open" | "loading" | "dead";
  activity: "idle" | "working" | "waiting";
  turnId?: string;
  lastSeq: number;
  isAlive: boolean; // its agent runs
  modelId?: string;
  permissionMode?: string;
  persona?: string; // its profile
  config?: ConfigOption[]; // what the agent offers to set; absent: not told this time
  given: Readonly<Record<string, string>>; // what was set of it, by id
  files?: AgentFile[]; // absent: not told this time
  lastLine?: string;
  lastTurn?: "completed" | "cancelled" | "error";
  pendingApprovals: Approval[];
  queued: number;
  createdAt: string;
  lastActiveAt: string;
}

/** A file of the agent's own: a plan that it wrote for itself, a skill that it read. */
export interface AgentFile {
  path: string;
  kind: string;
}

// One thing that a session's stream says, live or as history.
export type Entry =
  | { type: "session:upsert"; payload: Upsert }
  | { type: "session:turn"; payload: TurnEvent }
  | { type: "session:approval"; payload: ApprovalEvent }
  | { type: "session:notice"; payload: Notice }
  | { type: "session:usage"; payload: UsageEvent };

export type Resume =
  | { status: "ok" }
  | { status: "gap"; from: number; to: number }
  | { status: "reset"; reason: string };

export type Frame =
  | (Entry & { sessionId: string })
  | {
      type: "session:history";
      sessionId: string;
      entries: Entry[];
      seq: number;
      resume?: Resume;
      done: boolean;
    }
  | { type: "session:status"; sessionId: string; payload: SessionStatus }
  | { type: "session:hello:ack"; selectedFamily: string }
  | { type: "error"; requestId?: string; error: ApiErrorBody };

export interface ApiErrorBody {
  type: string;
  message: string;
  details?: Record<string, unknown>;
}

export interface ConfigChoice {
  value: string;
  name: string;
  description?: string;
  group?: string;
}

/** A setting that an agent offers under its own name. */
export interface ConfigOption {
  id: string;
  name: string;
  description?: string;
  category?: string;
  type: "select" | "boolean";
  value: string; // of a choice; "true" or "false"
  choices: ConfigChoice[];
}

/** What can be set of a session, before and while it lives. */
export interface Options {
  model?: string;
  permissionMode?: string;
  config?: Record<string, string>;
  persona?: string; // a profile, for a new session
}

/** A named way to run an agent. */
export interface Profile {
  name: string;
  description?: string;
  project: boolean; // it is the folder's own
  default: boolean; // sessions that choose none have it
  error?: string; // why it cannot be chosen
}

export interface Agent {
  cliType: string;
  displayName: string;
  checking: boolean; // it is still being looked for
  installed: boolean;
  path?: string;
  version?: string;
  loggedIn?: boolean;
  install?: string;
  login?: string;
  problem?: string;
  models: { id: string; name?: string; description?: string }[];
  modes: string[];
  modeLabels: Readonly<Record<string, string>>; // what a mode does with this agent, where its name does not say it
  config: ConfigOption[];
}

export interface Project {
  projectId: string;
  projectDir: string;
  sessions: number;
  lastActiveAt: string;
}
