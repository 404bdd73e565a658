// Words for things that have a name on the wire.

const modes: Record<string, string> = {
  default: "Ask first",
  acceptEdits: "Accept edits",
  plan: "Plan only",
  dontAsk: "Deny instead of asking",
  bypass: "Never ask (dangerous)",
};

/** What a permission mode does; `own` has an agent's words for it. */
export const modeLabel = (mode: string, own: Readonly<Record<string, string>> = {}) =>
  own[mode] ?? modes[mode] ?? mode;

const faults: Record<string, string> = {
  PROCESS_CRASH: "The agent’s process ended unexpectedly",
  AGENT_STALLED: "The agent went silent",
  AGENT_ERROR: "The agent reported an error",
  AGENT_NOT_LOGGED_IN: "The agent is not logged in",
  INVALID_API_KEY: "The API key was not accepted",
  RATE_LIMITED: "The rate limit is reached",
  TIMEOUT: "It took too long",
  PROTOCOL_ERROR: "The agent said something unexpected",
  STORE_UNAVAILABLE: "The record could not be written",
};

export const faultLabel = (code: string | undefined) => faults[code ?? ""] ?? "The turn failed";

const resolvers: Record<string, string> = {
  user: "by you",
  policy: "by a rule",
  timeout: "because nobody answered in time",
  agent: "by the agent",
};

export const resolverLabel = (by: string | undefined) => resolvers[by ?? ""] ?? "";
