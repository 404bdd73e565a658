// The server's answers about this browser's subscription to Web Push.

import type { NoticeKind } from "../worker/messages";

export interface PushState {
  publicKey?: string; // absent if the server sends no notes
  kinds: NoticeKind[]; // empty: no subscription
}

export function parsePush(v: unknown): PushState {
  const { publicKey, kinds } = (typeof v === "object" && v !== null ? v : {}) as Record<string, unknown>;
  return {
    publicKey: typeof publicKey === "string" && publicKey !== "" ? publicKey : undefined,
    kinds: Array.isArray(kinds) ? kinds.filter((k) => k === "needs-you" || k === "finished") : [],
  };
}
