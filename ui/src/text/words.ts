// Labels for names in the API.

const modes: Record<string, string> = {
  default: "Ask first",
  acceptEdits: "Accept edits",
  plan: "Plan only",
  dontAsk: "Never ask, deny",
  bypass: "Never ask (dangerous)",
};

/** A label for a permission mode; `own` has the agent's own labels. */
export const modeLabel = (mode: string, own: Readonly<Record<string, string>> = {}) =>
  own[mode] ?? modes[mode] ?? mode;

const faults: Record<string, string> = {
  PROCESS_CRASH: "The agent’s process ended unexpectedly",
  AGENT_STALLED: "The agent stopped responding",
  AGENT_ERROR: "The agent reported an error",
  AGENT_NOT_LOGGED_IN: "The agent is not logged in",
  INVALID_API_KEY: "The API key was rejected",
  RATE_LIMITED: "The rate limit was reached",
  TIMEOUT: "The turn timed out",
  PROTOCOL_ERROR: "The agent sent an invalid message",
  STORE_UNAVAILABLE: "The event log could not be written",
};

export const faultLabel = (code: string | undefined) => faults[code ?? ""] ?? "The turn failed";

const resolvers: Record<string, string> = {
  user: "by you",
  policy: "without asking you", // a profile, a mode, or the server
  timeout: "because the approval timed out",
  agent: "by the agent",
};

/** Who decided an approval. `rule` is the number of the rule that did. */
export const resolverLabel = (by: string | undefined, rule?: number) =>
  by === "policy" && rule !== undefined ? `by rule ${rule}` : (resolvers[by ?? ""] ?? "");
