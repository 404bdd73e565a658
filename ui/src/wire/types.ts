// The types of the API, from its document (npm run types). All values come from
// outside; parse.ts validates them. It drops fields that the page does not use
// and fills in defaults for others, and the types here reflect that.

import type { components } from "./api.gen";

type Schemas = components["schemas"];

/** T with the fields K present. */
type With<T, K extends keyof T> = Omit<T, K> & Required<Pick<T, K>>;

/** T with the fields K optional. */
type Maybe<T, K extends keyof T> = Omit<T, K> & Partial<Pick<T, K>>;

export type ToolKind = Schemas["ToolKind"];
export type Hunk = Schemas["Hunk"]; // each of its lines begins with ' ', '-' or '+'
export type Change = Schemas["Change"];
/** A diff of one file, of what an agent changed or would change, or from git. */
export type FileDiff = Schemas["FileDiff"];
/** The state of a session's folder in git. */
export type FolderStatus = Schemas["FolderStatus"];
export type ChangedFile = Schemas["ChangedFile"];
/** The state of the git worktree in which a session's agent works. */
export type WorktreeStatus = Schemas["WorktreeStatus"];
/** One of the two changes that a file may have in git. */
export type Side = "staged" | "unstaged";

export type Attachment = Schemas["SentAttachment"];
export type PlanEntry = Schemas["PlanEntry"];
export type ToolCall = Omit<Schemas["ToolCall"], "parentCallId">; // the upsert has that field

export type UpsertStatus = Schemas["UpsertStatus"];

type Shown<T extends Schemas["Upsert"]> = Maybe<
  Omit<T, "emittedAt">,
  "startedAt" & keyof Omit<T, "emittedAt">
>;

export type Upsert =
  | Shown<Schemas["MessageUpsert"]>
  | (Omit<Shown<Schemas["ThinkingUpsert"]>, "thinking"> & { thinking: Pick<Schemas["Reasoning"], "content"> })
  | (Omit<Shown<Schemas["ToolCallUpsert"]>, "tool_call"> & { tool_call: ToolCall })
  | Shown<Schemas["PlanUpsert"]>;

export type Usage = Schemas["Usage"];

type TurnStarted = Schemas["TurnStarted"];
type OfAllTurnEvents = "type" | "turnId" | "sessionId" | "seq" | "timestamp";

/** A turn event of one type lacks the fields of the other types. */
export type TurnEvent = Pick<TurnStarted, Exclude<OfAllTurnEvents, "type">> & {
  type: Schemas["TurnEvent"]["type"];
} & Partial<
    Omit<TurnStarted, OfAllTurnEvents> &
      Omit<Schemas["TurnComplete"], OfAllTurnEvents> &
      Omit<Schemas["TurnError"], OfAllTurnEvents>
  >;

export type ChoiceKind = Schemas["ChoiceKind"];
export type Choice = Schemas["Choice"];
export type Approval = Schemas["Approval"];
/** The state of an approval; askedAt is the time of the request, once it is resolved. */
export type ApprovalEvent = Schemas["UpsertApproval"] & { askedAt?: string };
export type Notice = Schemas["UpsertNotice"];
export type UsageEvent = Schemas["UpsertUsage"];

/**
 * The status of a session in one response. A response may omit the config, the
 * files, the resolved options, the queued prompts and the given values.
 */
export type SessionStatus = Omit<
  Schemas["SessionStatus"],
  "status" | "delegation" | "resolved" | "given" | "config" | "queue"
> & {
  queue?: QueuedPrompt[]; // lists omit it
  given: Readonly<Record<string, string>>; // the values that were set for options in config, by id
  config?: ConfigOption[]; // options that the agent offers
  resolved?: ResolvedOption[]; // by name
};

/** A prompt that waits for earlier turns to end. */
export type QueuedPrompt = With<Schemas["QueuedPrompt"], "truncated" | "files">;

/** A process outside of Runnel that has a conversation open. */
export type Writer = Schemas["Writer"];

/** The resolved value of an option and its sources, strongest first. */
export interface ResolvedOption {
  name: string;
  value?: string; // absent if only the agent knows it
  from: string[];
}

/**
 * A file of the agent itself: a plan that it wrote for itself, or a skill that
 * it read.
 */
export type AgentFile = Schemas["AgentFile"];

/** A command that an agent offers. A prompt "/name" runs it. */
export type AgentCommand = Schemas["AgentCommand"];

/** Files of a project that match what was typed. */
export interface Completion {
  files: { path: string; kind: "file" | "folder"; positions: number[] }[];
  partial: boolean; // the server is still searching
}

/** A file of a session's folder; of a text, the lines from to to. */
export type ProjectFile = Omit<
  With<Schemas["File"], "text" | "from" | "to" | "lines" | "cut">,
  "mediaType" | "modifiedAt"
>;

/** A directory in which a session could work. */
export interface Folder {
  name: string;
  path: string;
  git: boolean; // the root of a git repository
  refused?: string; // why no session can start there
}

export type Folders = Pick<Schemas["Folders"], "home" | "path" | "suggested" | "refused"> & {
  folders: Folder[];
  more: boolean;
  repositories: Folder[]; // near the home directory
};

/** Text to add to an item that the page has. */
export type Append = Schemas["Append"];

// An entry of a session's stream, live or from the history.
export type Entry =
  | { type: Schemas["SessionUpsertEntry"]["type"]; payload: Upsert }
  | { type: Schemas["SessionTurnEntry"]["type"]; payload: TurnEvent }
  | Schemas["SessionApprovalEntry"]
  | Schemas["SessionNoticeEntry"]
  | Schemas["SessionUsageEntry"];

type Verdict<Status extends Schemas["Resume"]["status"], K extends keyof Schemas["Resume"] = never> = {
  status: Status;
} & Required<Pick<Schemas["Resume"], K>> &
  Pick<Schemas["Resume"], "logId">;

export type Resume = Verdict<"ok"> | Verdict<"gap", "from" | "to"> | Verdict<"reset", "reason">;

export type Frame =
  | (Entry & { sessionId: string })
  | (Omit<Schemas["SessionHistoryMessage"], "entries" | "resume"> & { entries: Entry[]; resume?: Resume })
  | (Omit<Schemas["SessionStatusMessage"], "payload"> & { payload: SessionStatus })
  | { type: "session:append"; sessionId: string; payload: Append }
  | { type: "conversations:changed" }
  | (Pick<Schemas["SessionHelloAckMessage"], "type"> & { selectedFamily: string })
  | (Omit<Schemas["ErrorMessage"], "error"> & { error: ApiErrorBody });

/** The type may be unknown to this page. */
export type ApiErrorBody = Omit<Schemas["Problem"], "type"> & { type: string };

export type ConfigChoice = Schemas["ConfigChoice"];

/** An option that an agent offers under its own name. */
export type ConfigOption = With<Schemas["ConfigOption"], "choices">;

/** The options that can be set for a session, when it is created and later. */
export type Options = Pick<Schemas["Options"], "model" | "config" | "persona" | "worktree"> & {
  permissionMode?: string; // one of the agent's modes
};

/** The content of a rule that decides approvals. */
export interface RuleFields {
  effect: "allow" | "deny";
  kind: "execute" | "edit" | "read" | "fetch" | "connect" | "tool" | "sandbox_read" | "sandbox_write";
  cliType?: string; // absent: for all agents
  projectDir?: string; // absent: for all folders
  sessionId?: string; // absent: for all sessions
  tool?: string;
  pattern?: string;
  note?: string;
}

/** What the agent of a session reported about all of its turns. */
export interface SessionUsage {
  turns: number; // with reported usage
  unpricedTurns: number; // among turns, those without a reported cost
  costUsd: number;
  usage: Usage;
}

/** A stored rule. */
export interface Rule extends RuleFields {
  id: number;
  by: string; // name of the credential that created it
  createdAt: string;
  uses: number;
  lastUsedAt?: string;
}

/** A named set of options for an agent. */
export type Profile = With<
  Pick<Schemas["Profile"], "name" | "description" | "project" | "default" | "error">,
  "default"
>;

/**
 * modeLabels describes what a mode does with this agent, for modes whose names
 * are not clear.
 */
export type Agent = With<
  Omit<Schemas["Agent"], "aliases" | "capabilities" | "config">,
  "checking" | "models" | "modes" | "modeLabels"
> & { config: ConfigOption[] };

export type Project = Schemas["Project"];

/** The kind of an item that a search finds. */
export type SearchKind = "prompt" | "answer" | "command" | "diff";

/** What a search selects besides its words. An empty field selects everything. */
export interface SearchFilter {
  kind: SearchKind | "";
  cliType: string;
  projectDir: string;
  days: number; // age of the oldest items; 0: any
}

/** An item that matches a search. */
export interface SearchHit {
  sessionId?: string; // absent for a stored conversation that is no session yet
  agentSessionId?: string; // only without sessionId
  cliType: string;
  itemId: string;
  title: string;
  projectDir: string;
  kind: SearchKind;
  at: string;
  snippet: { text: string; match: boolean }[];
}

export interface SearchPage {
  hits: SearchHit[];
  next?: string; // position of the next page
  indexing: boolean; // earlier sessions may be missing
  disabled: boolean; // the server keeps no search index
}

/** A conversation that an agent of the server's machine has stored. */
export interface Conversation {
  cliType: string;
  agentSessionId: string;
  sessionId?: string; // absent if it is not a session yet
  projectDir: string;
  title: string;
  lastMessage?: string;
  updatedAt: string;
}

export interface ConversationPage {
  conversations: Conversation[];
  next?: string;
  checking: string[]; // kinds of agents that are still being asked
  disabled: boolean;
}
