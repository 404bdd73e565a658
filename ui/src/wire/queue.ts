// Prompts that wait for earlier turns to end.

import type { QueuedPrompt } from "./types";
import { isObj, list, optStr, str } from "./values";

export function parseQueuedPrompt(v: unknown): QueuedPrompt | undefined {
  if (!isObj(v) || !str(v.turnId)) return undefined;
  return {
    turnId: str(v.turnId),
    text: str(v.text),
    truncated: v.truncated === true,
    files: list(v.files, (f) => optStr(f)),
    queuedAt: str(v.queuedAt),
  };
}
