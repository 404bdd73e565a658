// Shows foreign text so that nothing in it can hide, reorder or imitate other
// text. Characters that a browser would not draw, or would interpret, are named
// instead.

export interface Piece {
  text: string;
  mark?: string; // name of the character that text stands for
}

const names: Record<number, string> = {
  0: "NUL",
  7: "BEL",
  8: "BS",
  10: "LF",
  11: "VT",
  12: "FF",
  13: "CR",
  27: "ESC",
  127: "DEL",
  133: "NEL",
  144: "DCS",
  155: "CSI",
  156: "ST",
  157: "OSC",
  160: "NBSP",
  173: "SHY",
  1564: "ALM",
  6158: "MVS",
  8203: "ZWSP",
  8204: "ZWNJ",
  8205: "ZWJ",
  8206: "LRM",
  8207: "RLM",
  8232: "LS",
  8233: "PS",
  8234: "LRE",
  8235: "RLE",
  8236: "PDF",
  8237: "LRO",
  8238: "RLO",
  8288: "WJ",
  8294: "LRI",
  8295: "RLI",
  8296: "FSI",
  8297: "PDI",
  65279: "BOM",
}; // prettier-ignore

// C0 controls except tab and newline, DEL, C1 controls, soft hyphen, every
// format character without a glyph, line and paragraph separators, fillers and
// blanks, variation selectors except behind an emoji or in a keycap, tags, lone
// surrogates.
const hidden =
  /(?<!\p{Extended_Pictographic})(?!\ufe0f\u20e3)[\ufe0e\ufe0f]|[\0-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb\u{13430}-\u{1343f}\u{1bca0}-\u{1bca3}\u{1d173}-\u{1d17a}\u{e0000}-\u{e0fff}]|\p{Cs}/gu;

// A ZWJ that joins emoji changes what is drawn, so it is not marked.
const joined = /\p{Extended_Pictographic}\ufe0f?$/u;
const joins = /^\p{Extended_Pictographic}/u;

/**
 * Splits text into parts that can be drawn unchanged and marks for the other
 * characters.
 */
export function visible(text: string, also?: RegExp): Piece[] {
  const out: Piece[] = [];
  let from = 0;
  for (const m of text.matchAll(also ?? hidden)) {
    const at = m.index;
    const after = at + m[0].length;
    if (
      m[0] === "\u200d" &&
      joined.test(text.slice(Math.max(0, at - 3), at)) &&
      joins.test(text.slice(after, after + 2))
    )
      continue;
    if (at > from) out.push({ text: text.slice(from, at) });
    out.push({ text: m[0], mark: nameOf(m[0].codePointAt(0) ?? 0) });
    from = after;
  }
  if (from < text.length) out.push({ text: text.slice(from) });
  return out;
}

const strict = new RegExp(
  `[\\n\\t\\u00a0\\u1680\\u2000-\\u200a\\u202f\\u205f\\u3000]|${hidden.source}`,
  "gu",
);

/** Like visible, but line breaks, tabs and unusual spaces are marked, too. */
export const exact = (text: string): Piece[] => visible(text, strict);

export function nameOf(code: number): string {
  return names[code] ?? `U+${code.toString(16).toUpperCase().padStart(4, "0")}`;
}

/** The text of visible without pieces: marks are in angle brackets. */
export const named = (text: string): string => visible(text).map(nameIn).join("");

/** A piece as text. */
export const nameIn = (p: Piece): string => (p.mark ? `‹${p.mark}›` : p.text);

const anyHidden = new RegExp(hidden.source, "u"); // not global: a global expression keeps a position between calls

/** Whether visible would mark anything in the text. */
export const hasHidden = (text: string): boolean => anyHidden.test(text);

/**
 * One line of plain text for titles and labels, with marks in angle brackets.
 */
export function plain(text: string, max = 300): string {
  const cut = text.length > max ? `${text.slice(0, max)}…` : text;
  return named(cut.replace(/\s+/g, " ")).trim();
}
