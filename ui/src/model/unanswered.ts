// Prompts that were sent without a response of the server. It may have received
// them, so they keep their turn id: a repeated request does not start a second
// turn. They survive a reload of the tab, which can cut off a request.

import { isRefusal } from "../wire/error";
import type { Sent } from "../wire/http";
import { loadOfTab, saveOfTab } from "./keep";

/** A prompt in the request to the server. */
export interface Prompt {
  session: string;
  content: string;
  queue: boolean;
  uploads: readonly string[];
  turnId?: string; // absent on an insecure address, where browsers cannot make ids
}

let known: Map<string, Prompt> | undefined;

/** The prompts by what they contain. */
function unanswered(): Map<string, Prompt> {
  if (known) return known;
  const kept = loadOfTab<unknown>("unanswered", []);
  const prompts = Array.isArray(kept) ? kept.filter(isPrompt) : [];
  known = new Map(prompts.map((p) => [keyOf(p), p]));
  return known;
}

function isPrompt(v: Partial<Prompt> | null): v is Prompt {
  return (
    typeof v?.session === "string" &&
    typeof v.content === "string" &&
    typeof v.queue === "boolean" &&
    Array.isArray(v.uploads) &&
    typeof v.turnId === "string"
  );
}

const keyOf = ({ session, content, uploads }: Prompt) => JSON.stringify([session, content, uploads]);

function change(f: (prompts: Map<string, Prompt>) => void) {
  const prompts = unanswered();
  f(prompts);
  saveOfTab("unanswered", prompts.size > 0 ? [...prompts.values()] : undefined);
}

/**
 * Sends a prompt. A prompt that got no response is repeated unchanged, even if
 * it would now be queued.
 */
export async function sendOnce(prompt: Prompt, send: (p: Prompt) => Promise<Sent>): Promise<Sent> {
  const key = keyOf(prompt);
  const same = unanswered().get(key) ?? { ...prompt, turnId: crypto.randomUUID?.() };
  change((all) => all.set(key, same));
  try {
    const sent = await send(same);
    change((all) => all.delete(key));
    return sent;
  } catch (e) {
    if (isRefusal(e)) change((all) => all.delete(key));
    throw e;
  }
}

/**
 * Forgets and returns a session's unanswered prompt that the server has
 * received: `arrived` says so of a turn id.
 */
export function received(session: string, arrived: (turnId: string) => boolean): Prompt | undefined {
  for (const [key, p] of unanswered())
    if (p.session === session && p.turnId !== undefined && arrived(p.turnId)) {
      change((all) => all.delete(key));
      return p;
    }
  return undefined;
}
