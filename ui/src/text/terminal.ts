// What a command printed, as a terminal shows it: colours and weights as classes,
// a line written over itself as it was in the end. All else that a terminal would
// obey is left out and counted. Pure, and never more than what came in.

import { visible } from "./visible";

export interface Span {
  text: string;
  className: string;
  mark?: string; // what the character is that text stands for
}

export type Line = Span[];

export interface Screen {
  lines: Line[];
  skipped: number; // control sequences that are not shown
}

interface Style {
  fg: number; // 0-7, or -1
  bg: number;
  bold: boolean;
  dim: boolean;
  italic: boolean;
  underline: boolean;
  strike: boolean;
  inverse: boolean;
}

const plain: Style = {
  fg: -1,
  bg: -1,
  bold: false,
  dim: false,
  italic: false,
  underline: false,
  strike: false,
  inverse: false,
};

const longestString = 4096; // characters of an OSC or DCS; what is longer is no such string, but text

// CSI; strings (OSC, DCS, SOS, PM, APC), which end with BEL or ST and at the latest
// with their line; other escapes; then the controls that move within a line.
const control = new RegExp(
  [
    "(?:\\x1b\\[|\\x9b)([0-?]*)[ -/]*([@-~])",
    `(?:\\x1b[\\]PX^_]|[\\x90\\x98\\x9d\\x9e\\x9f])[^\\x07\\x1b\\x9c\\n]{0,${longestString}}(?:\\x07|\\x1b\\\\|\\x9c|(?=\\n)|$)`,
    "\\x1b(?:\\[[0-?]*[ -/]*$|[ -/]*[0-Z\\\\^-~]|[\\]PX^_\\[]|$)",
    "([\\r\\b])",
    "(\\n)",
    "[\\0\\x07\\x0e\\x0f\\x7f]", // what rings, pads or switches sets
  ].join("|"),
  "g",
);

/** The screen after output. What is not finished at its end is left out. */
export function terminal(output: string): Screen {
  const lines: Line[] = [];
  let line = new Row();
  let style = plain;
  let className = "";
  let skipped = 0;
  let from = 0;
  for (const m of output.matchAll(control)) {
    line.put(output.slice(from, m.index), className);
    from = m.index + m[0].length;
    if (m[4] !== undefined) {
      lines.push(line.spans());
      line = new Row();
    } else if (m[3] === "\r") line.at = 0;
    else if (m[3] === "\b") line.at = Math.max(0, line.at - 1);
    else if (m[2] === "m" && /^[\d;:]*$/.test(m[1] ?? "")) {
      style = sgr(style, m[1] ?? "");
      className = classOf(style);
    } else if (m[2] === "K") line.erase(m[1] ?? "");
    else skipped++;
  }
  line.put(output.slice(from), className);
  if (line.length > 0 || lines.length === 0) lines.push(line.spans());
  return { lines, skipped };
}

/** The text of a screen, for the clipboard. */
export const textOf = (lines: readonly Line[]): string =>
  lines.map((l) => l.map((s) => s.text).join("")).join("\n");

// What is drawn with the character before it takes no place of its own.
const joins = /^[\p{M}\u200d\ufe00-\ufe0f]$/u;

// A line of a terminal. As long as text is only added to it, it is a few runs;
// once something is written over, it is a list of characters.
class Row {
  at = 0; // place of the cursor, in characters
  length = 0;
  private runs: { text: string; className: string }[] = [];
  private cells: { text: string; className: string }[] | undefined;
  private blank = 0; // so many cells are known to be erased

  put(text: string, className: string) {
    if (text === "") return;
    if (!this.cells && this.at === this.length) {
      this.runs.push({ text, className });
      this.length += width(text);
      this.at = this.length;
      return;
    }
    const cells = this.split();
    this.blank = Math.min(this.blank, Math.max(0, this.at - 1));
    for (const c of text) {
      const before = cells[this.at - 1];
      if (before && joins.test(c)) before.text += c;
      else cells[this.at++] = { text: c, className };
    }
    this.length = cells.length;
  }

  /** Erases to the end of the line, to its beginning, or all of it. */
  erase(how: string) {
    const cells = this.split();
    if (how !== "1") cells.length = this.at;
    if (how === "1" || how === "2")
      for (; this.blank <= this.at && this.blank < cells.length; this.blank++)
        cells[this.blank] = { text: " ", className: "" };
    this.length = cells.length;
  }

  private split() {
    if (this.cells) return this.cells;
    this.cells = [];
    for (const r of this.runs)
      for (const c of r.text) {
        const before = this.cells.at(-1);
        if (before && joins.test(c)) before.text += c;
        else this.cells.push({ text: c, className: r.className });
      }
    this.runs = [];
    return this.cells;
  }

  spans(): Line {
    const runs = this.cells ? joined(this.cells) : this.runs;
    return runs.flatMap((r) =>
      visible(r.text).map((p) => ({ text: p.text, className: r.className, mark: p.mark })),
    );
  }
}

function joined(cells: readonly { text: string; className: string }[]) {
  const out: { text: string; className: string }[] = [];
  for (const c of cells) {
    const last = out.at(-1);
    if (last && last.className === c.className) last.text += c.text;
    else out.push({ ...c });
  }
  return out;
}

// Characters that have a place of their own. As split does, but without splitting.
function width(text: string): number {
  if (/^[\x20-\x7e\t]*$/.test(text)) return text.length;
  let n = 0;
  for (const c of text) if (!joins.test(c)) n++;
  return n;
}

function sgr(style: Style, params: string): Style {
  let s = { ...style };
  // "38:2:…" is one attribute, "38;2;…" three or five.
  const codes = params.split(";").flatMap((p) => {
    const parts = p.split(":");
    return [parts.map((x) => (x === "" ? 0 : Number(x)))];
  });
  for (let i = 0; i < codes.length; i++) {
    const sub = codes[i] ?? [0];
    const c = sub[0] ?? 0;
    if (c === 38 || c === 48) {
      const rest = sub.length > 1 ? sub.slice(1) : codes.slice(i + 1, i + 5).map((x) => x[0] ?? 0);
      const colour = hueOf(rest, sub.length > 1);
      if (sub.length === 1) i += rest[0] === 5 ? 2 : 4;
      if (c === 38) s.fg = colour;
      else s.bg = colour;
    } else if (c === 0) s = { ...plain };
    else apply(s, c, sub[1]);
  }
  return s;
}

function apply(s: Style, c: number, sub: number | undefined) {
  if (c >= 30 && c <= 37) s.fg = c - 30;
  else if (c >= 90 && c <= 97) s.fg = c - 90;
  else if (c >= 40 && c <= 47) s.bg = c - 40;
  else if (c >= 100 && c <= 107) s.bg = c - 100;
  else
    switch (c) {
      case 1:
        s.bold = true;
        break;
      case 2:
        s.dim = true;
        break;
      case 3:
        s.italic = true;
        break;
      case 4:
        s.underline = sub !== 0; // "4:0" is none
        break;
      case 7:
        s.inverse = true;
        break;
      case 9:
        s.strike = true;
        break;
      case 22:
        s.bold = s.dim = false;
        break;
      case 23:
        s.italic = false;
        break;
      case 24:
        s.underline = false;
        break;
      case 27:
        s.inverse = false;
        break;
      case 29:
        s.strike = false;
        break;
      case 39:
        s.fg = -1;
        break;
      case 49:
        s.bg = -1;
        break;
    }
}

// Of many colours the nearest of the eight, which the page can draw so that they
// are read in light and in dark. -1 for what is next to black, grey or white.
function hueOf(rest: readonly number[], colons: boolean): number {
  if (rest[0] === 5) {
    const n = rest[1] ?? 0;
    if (n < 16) return n % 8;
    if (n >= 232) return -1;
    const level = (x: number) => (x === 0 ? 0 : 55 + 40 * x);
    const i = n - 16;
    return nearest(level(Math.floor(i / 36)), level(Math.floor(i / 6) % 6), level(i % 6));
  }
  if (rest[0] !== 2) return -1;
  const rgb = colons && rest.length > 4 ? rest.slice(2, 5) : rest.slice(1, 4); // a colour space may stand first
  return nearest(rgb[0] ?? 0, rgb[1] ?? 0, rgb[2] ?? 0);
}

function nearest(r: number, g: number, b: number): number {
  const top = Math.max(r, g, b);
  const low = Math.min(r, g, b);
  if (!Number.isFinite(top - low) || top - low < 0.25 * top || top < 40) return -1;
  const mid = low + (top - low) / 2;
  return (r > mid ? 1 : 0) | (g > mid ? 2 : 0) | (b > mid ? 4 : 0);
}

function classOf(s: Style): string {
  const c: string[] = [];
  if (s.inverse) c.push("ansi-inverse");
  else if (s.bg >= 0) c.push(`ansi-on ansi-on-${s.bg}`);
  else if (s.fg >= 0) c.push(`ansi-${s.fg}`);
  else if (s.dim) c.push("text-muted");
  if (s.bold) c.push("font-semibold");
  if (s.italic) c.push("italic");
  if (s.underline) c.push("underline");
  if (s.strike) c.push("line-through");
  return c.join(" ");
}
