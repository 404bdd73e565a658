// The words of the wire, as the API's document has them (npm run types). Everything
// here arrives from outside: parse.ts decides what is let in. It leaves out what the
// page does not read, and fills in what it always wants to have; a type says so.

import type { components } from "./api.gen";

type Schemas = components["schemas"];

/** T with these fields present. */
type With<T, K extends keyof T> = Omit<T, K> & Required<Pick<T, K>>;

/** T with these fields absent or present. */
type Maybe<T, K extends keyof T> = Omit<T, K> & Partial<Pick<T, K>>;

export type ToolKind = Schemas["ToolKind"];
export type Hunk = Schemas["Hunk"]; // each of its lines begins with ' ', '-' or '+'
export type Change = Schemas["Change"];
export type Attachment = Schemas["SentAttachment"];
export type PlanEntry = Schemas["PlanEntry"];
export type ToolCall = Omit<Schemas["ToolCall"], "parentCallId">; // the upsert has it

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

/** The fields of one type of turn event are absent in the others. */
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
export type ApprovalEvent = Schemas["UpsertApproval"];
export type Notice = Schemas["UpsertNotice"];
export type UsageEvent = Schemas["UpsertUsage"];

/** Its config, files, options and given settings are those that were told this time. */
export type SessionStatus = Omit<
  Schemas["SessionStatus"],
  "status" | "agentSessionId" | "delegation" | "resolved" | "given" | "config"
> & {
  given: Readonly<Record<string, string>>; // what was set of its config, by id
  config?: ConfigOption[]; // what the agent offers to set
  resolved?: ResolvedOption[]; // by name
};

/** What an option was resolved to, and which sources that is from, strongest first. */
export interface ResolvedOption {
  name: string;
  value?: string; // absent: only the agent knows it
  from: string[];
}

/** A file of the agent's own: a plan that it wrote for itself, a skill that it read. */
export type AgentFile = Schemas["AgentFile"];

// One thing that a session's stream says, live or as history.
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
  | (Pick<Schemas["SessionHelloAckMessage"], "type"> & { selectedFamily: string })
  | (Omit<Schemas["ErrorMessage"], "error"> & { error: ApiErrorBody });

/** Its type may be one that this page does not know. */
export type ApiErrorBody = Omit<Schemas["Problem"], "type"> & { type: string };

export type ConfigChoice = Schemas["ConfigChoice"];

/** A setting that an agent offers under its own name. */
export type ConfigOption = With<Schemas["ConfigOption"], "choices">;

/** What can be set of a session, before and while it lives. */
export type Options = Pick<Schemas["Options"], "model" | "config" | "persona"> & {
  permissionMode?: string; // one of those that the agent has
};

/** What a rule says that answers what agents ask. */
export interface RuleFields {
  effect: "allow" | "deny";
  kind: "execute" | "edit" | "read" | "fetch" | "tool";
  cliType?: string; // absent: for all agents
  projectDir?: string; // absent: for all folders
  tool?: string;
  pattern?: string;
  note?: string;
}

/** A stored rule. */
export interface Rule extends RuleFields {
  id: number;
  by: string; // name of the credential that made it
  createdAt: string;
  uses: number;
  lastUsedAt?: string;
}

/** A named way to run an agent. */
export type Profile = With<
  Pick<Schemas["Profile"], "name" | "description" | "project" | "default" | "error">,
  "default"
>;

/** The label of a mode says what it does with this agent, where its name does not. */
export type Agent = With<
  Omit<Schemas["Agent"], "aliases" | "capabilities" | "checkedAt" | "config">,
  "checking" | "models" | "modes" | "modeLabels"
> & { config: ConfigOption[] };

export type Project = Schemas["Project"];
