// Formats foreign values as JSON text, with every invisible character as an
// escape.

import { ExactNumber } from "../wire/parse";
import { visible } from "./visible";

/** JSON with two spaces per level. Numbers keep their original digits. */
export function jsonText(v: unknown, level = 0): string {
  const pad = "  ".repeat(level + 1);
  const end = "  ".repeat(level);
  if (v instanceof ExactNumber) return v.source;
  if (typeof v === "string") return quoted(v);
  if (Array.isArray(v))
    return v.length === 0 ? "[]" : `[\n${v.map((x) => pad + jsonText(x, level + 1)).join(",\n")}\n${end}]`;
  if (typeof v === "object" && v !== null) {
    const entries = Object.entries(v);
    if (entries.length === 0) return "{}";
    return `{\n${entries.map(([k, x]) => `${pad}${quoted(k)}: ${jsonText(x, level + 1)}`).join(",\n")}\n${end}}`;
  }
  return JSON.stringify(v) ?? "null";
}

function quoted(s: string): string {
  return visible(JSON.stringify(s))
    .map((p) => (p.mark ? escaped(p.text) : p.text))
    .join("");
}

const escaped = (s: string) =>
  Array.from({ length: s.length }, (_, i) => `\\u${s.charCodeAt(i).toString(16).padStart(4, "0")}`).join("");
