// Finds places in files of a project in texts of an agent, such as
// "src/greet.go:42".

import { shortPath } from "./format";
import { languageOfFile } from "./language";
import { hasHidden } from "./visible";

/** A file of a session's folder, and a line in it. */
export interface FilePlace {
  path: string; // relative to the folder, with / between its elements
  line?: number; // from 1
}

// Endings of files, apart from those of the languages that the page colours. A
// word such as fmt.Println has an ending, too, so only known ones count.
const endings = new Set(
  (
    "txt toml ini cfg conf env lock log csv tsv sql sh bash zsh fish ps1 bat rb swift kt kts scala lua pl pm r dart " +
    "ex exs erl hs clj cs fs vb m mm proto graphql vue svelte astro scss sass less mod sum work diff patch tf hcl nix " +
    "gradle properties cmake mk rst adoc tex ipynb tmpl tpl example golden snap txtar png jpg jpeg gif webp ico pdf"
  ).split(" "),
);

const names = new Set(["Makefile", "Dockerfile", "Containerfile", "Jenkinsfile", "Procfile", "LICENSE"]);

const longest = 300; // characters of a text that can be a place

// A path, and its line in one of the usual notations: file:42, file:42:7,
// file:42-50, file#L42, file(42,7).
const notation =
  /^([^\r\n\t:*?"<>|#()]+)(?::(\d{1,7})(?:[:-]\d{1,7})?|#L(\d{1,7})(?:-L?\d{1,7})?|\((\d{1,7})(?:,\d{1,7})?\))?$/;

/** The place that a whole text names; undefined if it names none in the folder dir. */
export function placeOf(text: string, dir: string): FilePlace | undefined {
  const place = read(text, dir);
  if (!place || text.includes(" ")) return undefined;
  const named = known(place.path) || (place.line && /.\/.*[^/.]\.[A-Za-z]\w{0,9}$/.test(place.path));
  return named ? place : undefined;
}

/** The place to which a link of Markdown leads; undefined if it leads out of the folder. */
export function linkedPlace(href: string, dir: string): FilePlace | undefined {
  let text = href.replace(/^file:\/\//, "");
  try {
    text = decodeURI(text);
  } catch {
    return undefined;
  }
  return read(text, dir);
}

function read(text: string, dir: string): FilePlace | undefined {
  if (text.length > longest || hasHidden(text)) return undefined;
  const m = notation.exec(text);
  const path = m && inside(m[1] as string, dir);
  if (!path) return undefined;
  const number = Number(m[2] ?? m[3] ?? m[4] ?? 0);
  return { path, line: number > 0 ? number : undefined };
}

/** The path of a file relative to the folder dir; undefined if it is not in the folder. */
export function inside(path: string, dir: string): string | undefined {
  const rel = shortPath(path, dir).replace(/^(\.\/)+/, "");
  const parts = rel.split("/");
  if (rel === "" || rel.includes("\\") || parts.includes("..") || parts.includes("")) return undefined;
  return rel;
}

function known(path: string): boolean {
  const name = path.slice(path.lastIndexOf("/") + 1);
  if (names.has(name)) return true;
  if (languageOfFile(path)) return true;
  return endings.has(/[^.]\.([^.]+)$/.exec(name)?.[1]?.toLowerCase() ?? "");
}

/** A part of a text; a place if it names one. */
export interface Part {
  text: string;
  place?: FilePlace;
}

// Words that can be a place: between white space, brackets, quotes and commas.
const words = /[^\s()[\]{}"'`,;<>|]+/g;

/**
 * Cuts a text at the places in it. Only a place with a line counts, because
 * plain text contains many words that look like a file.
 */
export function placesIn(text: string, dir: string): Part[] {
  const out: Part[] = [];
  let from = 0;
  for (const m of text.matchAll(words)) {
    if (!/[:#]L?\d/.test(m[0])) continue;
    const word = m[0].replace(/[.:!?]+$/, "");
    const place = placeOf(word, dir);
    if (!place?.line) continue;
    if (m.index > from) out.push({ text: text.slice(from, m.index) });
    out.push({ text: word, place });
    from = m.index + word.length;
  }
  if (from < text.length) out.push({ text: text.slice(from) });
  return out;
}
