// What a person is writing at the caret: the path of a file after an "@", or
// the name of a command after a "/" at the beginning. Pure functions.

import type { AgentCommand } from "../wire/types";

export interface Token {
  kind: "file" | "command";
  query: string; // what was typed after the "@" or "/"
  from: number; // position of the "@" or "/"
  to: number; // the caret
}

const mention = /(?:^|[\s([{<'"`])@(?:"([^"\n]*)|([^\s"@]*))$/;

export function tokenAt(text: string, caret: number): Token | undefined {
  const before = text.slice(0, caret);
  if (/^\/\S*$/.test(before)) return { kind: "command", query: before.slice(1), from: 0, to: caret };
  const m = mention.exec(before);
  if (!m) return undefined;
  const query = m[1] ?? m[2] ?? "";
  return { kind: "file", query, from: caret - query.length - (m[1] === undefined ? 1 : 2), to: caret };
}

export interface Edit {
  text: string;
  caret: number;
}

/**
 * Replaces a token by the path of a file. After a folder, the person goes on
 * with what is in it. A path with spaces is put in quotation marks.
 */
export function withFile(text: string, token: Token, path: string, folder: boolean): Edit {
  const quoted = /\s/.test(path);
  const name = folder ? `${path}/` : path;
  const written = quoted ? `@"${name}${folder ? "" : '"'}` : `@${name}`;
  return replaced(text, token, written, folder);
}

/** Replaces a token by a command, whose argument follows. */
export const withCommand = (text: string, token: Token, name: string): Edit =>
  replaced(text, token, `/${name}`, false);

function replaced(text: string, token: Token, written: string, open: boolean): Edit {
  const rest = text.slice(token.to);
  const gap = open || /^\s/.test(rest) ? "" : " ";
  const before = text.slice(0, token.from) + written + gap;
  return { text: before + rest, caret: before.length + (open || gap ? 0 : 1) };
}

const most = 50; // commands that are offered at once

/**
 * The commands that match what was typed: first those whose name begins with
 * it, then those whose name or description contains it.
 */
export function matching(commands: readonly AgentCommand[], query: string): AgentCommand[] {
  const q = query.toLowerCase();
  const rank = (c: AgentCommand) => {
    const name = c.name.toLowerCase();
    if (name.startsWith(q)) return 0;
    if (name.includes(q)) return 1;
    return q.length > 1 && c.description?.toLowerCase().includes(q) ? 2 : 3;
  };
  return commands
    .map((c) => ({ c, r: rank(c) }))
    .filter(({ r }) => r < 3)
    .sort((a, b) => a.r - b.r || a.c.name.localeCompare(b.c.name))
    .slice(0, most)
    .map(({ c }) => c);
}

/** A text in parts, in which the characters at some positions are marked. */
export function marked(text: string, positions: readonly number[]): { text: string; match: boolean }[] {
  const at = new Set(positions);
  const out: { text: string; match: boolean }[] = [];
  Array.from(text).forEach((c, i) => {
    const last = out.at(-1);
    if (last?.match === at.has(i)) last.text += c;
    else out.push({ text: c, match: at.has(i) });
  });
  return out;
}
