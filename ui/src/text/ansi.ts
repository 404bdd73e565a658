// Converts terminal output to lines of styled text. Colours and weights (SGR)
// are drawn. Every other control sequence is shown by name and never
// interpreted.

import { classOf, isSgr, type Line, plain, sgr } from "./sgr";
import { visible } from "./visible";

// Matches control sequences: CSI; OSC, ended by BEL or ST; DCS, SOS, PM and
// APC, ended by ST; and short escapes.
const sequence =
  /(?:\x1b\[|\x9b)([0-?]*)[ -/]*([@-~])|(?:\x1b\]|\x9d)([^\x07\x1b\x9c]*)(?:\x07|\x1b\\|\x9c)?|(?:\x1b[PX^_]|[\x90\x98\x9e\x9f])([^\x1b\x9c]*)(?:\x1b\\|\x9c)?|\x1b[ -/]*[0-~]/g;

/** The lines of a terminal's output. CRLF counts as one line break. */
export function terminalLines(output: string): Line[] {
  const text = output.replace(/\r\n/g, "\n");
  const lines: Line[] = [[]];
  let style = plain;
  let from = 0;
  const put = (s: string) => {
    const parts = s.split("\n");
    parts.forEach((part, i) => {
      if (i > 0) lines.push([]);
      if (part === "") return;
      const className = classOf(style);
      for (const p of visible(part)) lines.at(-1)?.push({ text: p.text, mark: p.mark, className });
    });
  };
  for (const m of text.matchAll(sequence)) {
    put(text.slice(from, m.index));
    from = m.index + m[0].length;
    if (m[2] === "m" && isSgr(m[1] ?? "")) style = sgr(style, m[1] ?? "");
    else lines.at(-1)?.push({ text: m[0], mark: describe(m), className: "" });
  }
  put(text.slice(from));
  if (lines.length > 1 && lines.at(-1)?.length === 0) lines.pop();
  return lines;
}

function describe(m: RegExpMatchArray): string {
  if (m[2]) return `CSI ${m[1] ?? ""}${m[2]}`;
  if (m[3] !== undefined) return `OSC ${cut(m[3])}`;
  if (m[4] !== undefined) return `DCS ${cut(m[4])}`;
  return `ESC ${m[0].slice(1)}`;
}

const cut = (s: string) =>
  visible(s.length > 60 ? `${s.slice(0, 60)}…` : s)
    .map((p) => p.mark ?? p.text)
    .join("");
