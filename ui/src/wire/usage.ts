// Parses what agents report about tokens and costs.

import type { SessionUsage, Usage, UsageEvent } from "./types";
import { isObj, num, optNum, optStr, str } from "./values";

export function parseUsage(v: unknown): Usage | undefined {
  if (!isObj(v)) return undefined;
  return {
    inputTokens: num(v.inputTokens),
    outputTokens: num(v.outputTokens),
    cacheReadInputTokens: optNum(v.cacheReadInputTokens),
    cacheCreationInputTokens: optNum(v.cacheCreationInputTokens),
    reasoningTokens: optNum(v.reasoningTokens),
  };
}

export function parseRateLimit(v: unknown): UsageEvent["rateLimit"] {
  if (!isObj(v)) return undefined;
  return {
    status: str(v.status),
    kind: optStr(v.kind),
    utilization: optNum(v.utilization),
    resetsAt: optNum(v.resetsAt),
  };
}

export function parseSessionUsage(v: unknown): SessionUsage {
  const total = isObj(v) && isObj(v.total) ? v.total : {};
  return {
    turns: num(total.turns),
    unpricedTurns: num(total.unpricedTurns),
    costUsd: num(total.costUsd),
    usage: parseUsage(total.usage) ?? { inputTokens: 0, outputTokens: 0 },
  };
}
