// The beginning of a session: what a person has chosen for it, and its creation
// together with its first prompt.

import { api } from "../wire/http";
import type { Agent, AgentCommand, Options, SessionStatus } from "../wire/types";
import { once } from "./once";
import { sendPrompt } from "./store";

/** What a person has chosen for the next session. It survives a reload. */
export interface Choices {
  agent?: string;
  dir?: string;
  persona?: string;
  worktree?: boolean; // the session gets a git worktree of its own
  values?: Readonly<Record<string, Readonly<Record<string, string>>>>; // of settings, by agent
}

export interface Beginning {
  cliType: string;
  dir: string;
  options: Options;
}

let waiting: { is: string; id: string } | undefined; // created, but its first prompt was not accepted

/**
 * Creates a session and sends its first prompt. After an error, the same call
 * uses the session that exists already.
 */
export async function begin(
  b: Beginning,
  content: string,
  uploads: readonly string[],
): Promise<{ id: string; warnings: string[] }> {
  const is = JSON.stringify(b);
  const id =
    waiting?.is === is ? waiting.id : await once(is, (key) => api.create(b.cliType, b.dir, b.options, key));
  waiting = { is, id };
  const { warnings } = await sendPrompt(id, content, false, uploads);
  waiting = undefined;
  return { id, warnings };
}

/**
 * The newest session of an agent, if possible in the same folder. Its commands
 * are those that a new session will most likely have. Sessions in `except` do
 * not count.
 */
export function likeliest(
  sessions: Iterable<SessionStatus>,
  agent: string,
  dir: string,
  except: ReadonlySet<string>,
): SessionStatus | undefined {
  let best: SessionStatus | undefined;
  for (const s of sessions) {
    if (s.cliType !== agent || except.has(s.sessionId)) continue;
    const here = s.projectDir === dir;
    const alike = best && here === (best.projectDir === dir);
    if (!best || (alike ? s.lastActiveAt > best.lastActiveAt : here)) best = s;
  }
  return best;
}

export const noCommands: readonly AgentCommand[] = [];

/** A prompt that a newcomer can run with one click. */
export interface Example {
  label: string;
  prompt: string;
  about?: string; // instead of the prompt, if that says little
}

export const exampleFor = (a: Agent, scripted: boolean): Example =>
  scripted
    ? {
        label: "Watch a scripted turn",
        prompt: "demo",
        about: `Plays “demo” with the agent ${a.displayName}, which is built in and uses no model.`,
      }
    : {
        label: "Explain this project",
        prompt:
          "Explain this project: what it does, how it is built, and where to start reading. Change nothing.",
      };
