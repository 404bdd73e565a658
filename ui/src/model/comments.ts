// Comments on lines of changes. They go into the next prompt of their session.

import { create } from "zustand";
import { load, save } from "./keep";

/** A comment on one line of a diff. */
export interface Comment {
  path: string; // relative to the session's folder, if the file is in it
  side: "old" | "new"; // whether line counts in the file before or after the change
  line: number;
  code: string; // the line with its sign: ' ', '-' or '+'
  text: string;
}

const useAll = create<Record<string, readonly Comment[]>>(() => ({}));

const none: readonly Comment[] = [];

const key = (session: string) => `comments.${session}`;

const read = (session: string): readonly Comment[] => {
  const kept = load<unknown>(key(session), none);
  return Array.isArray(kept) ? kept.filter(isComment) : none;
};

function isComment(v: Partial<Comment> | null): v is Comment {
  return (
    typeof v?.path === "string" &&
    (v.side === "old" || v.side === "new") &&
    typeof v.line === "number" &&
    typeof v.code === "string" &&
    typeof v.text === "string"
  );
}

const kept = new Map<string, readonly Comment[]>(); // as they were when this tab first needed them

function now(session: string, all = useAll.getState()): readonly Comment[] {
  const known = all[session] ?? kept.get(session);
  if (known) return known;
  const list = read(session);
  kept.set(session, list);
  return list;
}

function put(session: string, list: readonly Comment[]) {
  save(key(session), list.length > 0 ? list : undefined);
  useAll.setState({ [session]: list });
}

/** The comments of a session, in the order in which they were written. */
export const useComments = (session: string | undefined): readonly Comment[] =>
  useAll((all) => (session ? now(session, all) : none));

export const addComment = (session: string, c: Comment) => put(session, [...now(session), c]);

/** Removes comments: the objects that useComments returned. */
export const removeComments = (session: string, gone: readonly Comment[]) =>
  put(
    session,
    now(session).filter((c) => !gone.includes(c)),
  );

/** Where a comment belongs, such as "greet.go:12". */
export const placeOf = (c: Comment) => `${c.path}:${c.line}${c.side === "old" ? " (before the change)" : ""}`;

const longest = 300; // characters of a line that a prompt quotes

/** A prompt followed by the comments, each with its place and its line. */
export function withComments(prompt: string, comments: readonly Comment[]): string {
  const parts = comments.map((c) => {
    const code = c.code.length > longest ? `${c.code.slice(0, longest)}…` : c.code;
    return `${placeOf(c)}\n> ${code}\n${c.text}`;
  });
  return [...(prompt ? [prompt] : []), ...parts].join("\n\n");
}
