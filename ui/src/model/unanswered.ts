// Prompts that were sent and got no answer. The server may have them all the
// same, so that they keep the id of their turn: sent again, they make no second one.

import { ApiError } from "../wire/error";
import type { Sent } from "../wire/http";

/** A prompt as the server is asked to take it. */
export interface Prompt {
  session: string;
  content: string;
  queue: boolean;
  uploads: readonly string[];
  turnId?: string; // absent where the browser makes no ids: the address is not a secure one
}

const unanswered = new Map<string, Prompt>();

/** Sends a prompt. One that got no answer before is sent unchanged, also if it would now wait for a turn. */
export async function sendOnce(prompt: Prompt, send: (p: Prompt) => Promise<Sent>): Promise<Sent> {
  const { session, content, uploads } = prompt;
  const key = JSON.stringify([session, content, uploads]);
  const same = unanswered.get(key) ?? { ...prompt, turnId: crypto.randomUUID?.() };
  unanswered.set(key, same);
  try {
    const sent = await send(same);
    unanswered.delete(key);
    return sent;
  } catch (e) {
    if (!(e instanceof ApiError && e.status === 0)) unanswered.delete(key);
    throw e;
  }
}
