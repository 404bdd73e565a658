// Terminal output to lines of styled text. Colours and weights (SGR) are drawn;
// every other control sequence is named where it stands and never obeyed.

import { visible } from "./visible";

export interface Span {
  text: string;
  className: string;
  mark?: string;
}

export type Line = Span[];

interface Style {
  fg: number; // 0-7, or -1
  bold: boolean;
  dim: boolean;
  italic: boolean;
  underline: boolean;
}

const plainStyle: Style = { fg: -1, bold: false, dim: false, italic: false, underline: false };

// CSI …, OSC … (ended by BEL or ST), DCS/SOS/PM/APC … ST, two-byte escapes.
const sequence =
  /(?:\x1b\[|\x9b)([0-?]*)[ -/]*([@-~])|(?:\x1b\]|\x9d)([^\x07\x1b\x9c]*)(?:\x07|\x1b\\|\x9c)?|(?:\x1b[PX^_]|[\x90\x98\x9e\x9f])([^\x1b\x9c]*)(?:\x1b\\|\x9c)?|\x1b[ -/]*[0-~]/g;

/** The lines of a terminal's output. CRLF is one line break. */
export function terminalLines(output: string): Line[] {
  const text = output.replace(/\r\n/g, "\n");
  const lines: Line[] = [[]];
  let style = plainStyle;
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
    if (m[2] === "m") style = sgr(style, m[1] ?? "");
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

function sgr(style: Style, params: string): Style {
  let s = { ...style };
  const codes = params.split(/[;:]/).map((p) => (p === "" ? 0 : Number(p)));
  for (let i = 0; i < codes.length; i++) {
    const c = codes[i] ?? 0;
    if (c === 0) s = { ...plainStyle };
    else if (c === 1) s.bold = true;
    else if (c === 2) s.dim = true;
    else if (c === 3) s.italic = true;
    else if (c === 4) s.underline = true;
    else if (c === 22) s.bold = s.dim = false;
    else if (c === 23) s.italic = false;
    else if (c === 24) s.underline = false;
    else if (c >= 30 && c <= 37) s.fg = c - 30;
    else if (c >= 90 && c <= 97) s.fg = c - 90;
    else if (c === 39) s.fg = -1;
    else if (c === 38 || c === 48) i += codes[i + 1] === 5 ? 2 : 4; // 256 and true colours keep the text's own
  }
  return s;
}

function classOf(s: Style): string {
  const c: string[] = [];
  if (s.fg >= 0) c.push(`ansi-${s.fg}`);
  if (s.bold) c.push("font-semibold");
  if (s.dim) c.push("text-muted");
  if (s.italic) c.push("italic");
  if (s.underline) c.push("underline");
  return c.join(" ");
}
