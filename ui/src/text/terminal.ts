// Converts the output of a command to the text that a terminal would show:
// colours and weights as classes, and the final state of lines that were
// overwritten. All other control sequences are removed and counted. A pure
// function whose result is never larger than its input.

import { classOf, isSgr, type Line, plain, sgr } from "./sgr";
import { visible } from "./visible";

export interface Screen {
  lines: Line[];
  skipped: number; // number of control sequences that were removed
}

const longestString = 4096; // characters of an OSC or DCS string; a longer one is treated as text

// CSI sequences; strings (OSC, DCS, SOS, PM, APC), which end with BEL or ST or
// at the latest with the line; other escapes; then controls that move within a
// line. A string contains no C1 control, such as the beginning of another
// string: otherwise the time would grow with the square of the output.
const control = new RegExp(
  [
    "(?:\\x1b\\[|\\x9b)([0-?]*)[ -/]*([@-~])",
    `(?:\\x1b[\\]PX^_]|[\\x90\\x98\\x9d\\x9e\\x9f])[^\\x07\\x1b\\n\\x80-\\x9f]{0,${longestString}}(?:\\x07|\\x1b\\\\|\\x9c|(?=\\n)|$)`,
    "\\x1b(?:\\[[0-?]*[ -/]*$|[ -/]*[0-Z\\\\^-~]|[\\]PX^_\\[]|$)",
    "([\\r\\b])",
    "(\\n)",
    "[\\0\\x07\\x0e\\x0f\\x7f]", // bell, padding, switch of character sets
  ].join("|"),
  "g",
);

/**
 * The screen after the output. An unfinished sequence at the end is left out.
 */
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
    else if (m[2] === "m" && isSgr(m[1] ?? "")) {
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

// Combining characters, which need no cell of their own.
const joins = /^[\p{M}\u200d\ufe00-\ufe0f]$/u;

// A line of a terminal. While text is only appended, it is a few runs; once
// text is overwritten, it is a list of cells.
class Row {
  at = 0; // position of the cursor, in characters
  length = 0;
  private runs: { text: string; className: string }[] = [];
  private cells: { text: string; className: string }[] | undefined;
  private blank = 0; // number of cells that are known to be erased

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

  /** Erases the line to its end, to its beginning, or completely. */
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

// The number of cells of a text. The same as the length of its split, but
// faster.
function width(text: string): number {
  if (/^[\x20-\x7e\t]*$/.test(text)) return text.length;
  let n = 0;
  for (const c of text) if (!joins.test(c)) n++;
  return n;
}
