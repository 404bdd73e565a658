// Prompts that were sent without a response. The server may have received them,
// so they keep their turn id: a repeated request does not start a second turn.

import { ApiError } from "../wire/error";
import type { Sent } from "../wire/http";

/** A prompt in the request to the server. */
export interface Prompt {
  session: string;
  content: string;
  queue: boolean;
  uploads: readonly string[];
  turnId?: string; // absent on an insecure address, where browsers cannot make ids
}

const unanswered = new Map<string, Prompt>();

/**
 * Sends a prompt. A prompt that got no response is repeated unchanged, even if
 * it would now be queued.
 */
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
