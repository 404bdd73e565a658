// Parses what the server says about files, folders and an agent's commands.

import type { AgentCommand, Completion, Folder, Folders, ProjectFile } from "./types";
import { isObj, list, num, oneOf, optSentence, optStr, str } from "./values";

export function parseCommands(v: unknown): AgentCommand[] {
  return list(v, (c) =>
    isObj(c) && str(c.name)
      ? { name: str(c.name), description: optStr(c.description), hint: optStr(c.hint) }
      : undefined,
  );
}

export function parseCompletion(v: unknown): Completion {
  const o = isObj(v) ? v : {};
  return {
    files: list(o.files, (f) =>
      isObj(f) && str(f.path)
        ? {
            path: str(f.path),
            kind: oneOf(f.kind, ["file", "folder"], "file"),
            positions: list(f.positions, (n) => (typeof n === "number" ? num(n) : undefined)),
          }
        : undefined,
    ),
    partial: o.partial === true,
  };
}

export function parseFile(v: unknown): ProjectFile {
  const o = isObj(v) ? v : {};
  return {
    path: str(o.path),
    content: oneOf(o.content, ["text", "image", "binary"], "binary"),
    size: num(o.size),
    text: str(o.text),
    from: num(o.from),
    to: num(o.to),
    lines: num(o.lines),
    cut: o.cut === true,
  };
}

export function parseFolders(v: unknown): Folders {
  const o = isObj(v) ? v : {};
  return {
    home: optStr(o.home),
    path: str(o.path),
    refused: optSentence(o.refused),
    folders: list(o.folders, parseFolder),
    more: o.more === true,
    repositories: list(o.repositories, parseFolder),
    suggested: optStr(o.suggested),
  };
}

export function parseFolder(v: unknown): Folder | undefined {
  return isObj(v) && str(v.path)
    ? { name: str(v.name), path: str(v.path), git: v.git === true, refused: optSentence(v.refused) }
    : undefined;
}
