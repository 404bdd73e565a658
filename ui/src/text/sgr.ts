// Colours and weights of terminal output (SGR, "select graphic rendition").
// Converts the parameters of a sequence to a style, and a style to CSS classes.

export interface Span {
  text: string;
  className: string;
  mark?: string; // name of the character that text stands for
}

export type Line = Span[];

export interface Style {
  fg: number; // 0-7, or -1 for the default
  bg: number;
  bold: boolean;
  dim: boolean;
  italic: boolean;
  underline: boolean;
  strike: boolean;
  inverse: boolean;
}

export const plain: Style = {
  fg: -1,
  bg: -1,
  bold: false,
  dim: false,
  italic: false,
  underline: false,
  strike: false,
  inverse: false,
};

/**
 * Whether these are SGR parameters. Private sequences of terminals begin with
 * another character.
 */
export const isSgr = (params: string) => /^[\d;:]*$/.test(params);

/** The style after an SGR sequence with these parameters. */
export function sgr(style: Style, params: string): Style {
  let s = { ...style };
  // A colour is one parameter with parts, such as "38:2:…", or several
  // parameters: three for "38;5;…" and five for "38;2;…".
  const codes = params.split(";").flatMap((p) => {
    const parts = p.split(":");
    return [parts.map((x) => (x === "" ? 0 : Number(x)))];
  });
  for (let i = 0; i < codes.length; i++) {
    const sub = codes[i] ?? [0];
    const c = sub[0] ?? 0;
    if (c === 38 || c === 48) {
      const rest = sub.length > 1 ? sub.slice(1) : codes.slice(i + 1, i + 5).map((x) => x[0] ?? 0);
      if (sub.length === 1) i += rest[0] === 5 ? 2 : rest[0] === 2 ? 4 : 1;
      if (rest[0] !== 5 && rest[0] !== 2) continue; // names no colour
      const colour = hueOf(rest, sub.length > 1);
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
        s.underline = sub !== 0; // "4:0" means no underline
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

// Maps a colour to the nearest of the eight colours that the page can draw
// legibly in light and dark mode. Returns -1 for a colour close to black, grey
// or white.
function hueOf(rest: readonly number[], colons: boolean): number {
  if (rest[0] === 5) {
    const n = rest[1] ?? 0;
    if (n < 16) return n % 8;
    if (n >= 232) return -1;
    const level = (x: number) => (x === 0 ? 0 : 55 + 40 * x);
    const i = n - 16;
    return nearest(level(Math.floor(i / 36)), level(Math.floor(i / 6) % 6), level(i % 6));
  }
  const rgb = colons && rest.length > 4 ? rest.slice(2, 5) : rest.slice(1, 4); // a colour space may come first
  return nearest(rgb[0] ?? 0, rgb[1] ?? 0, rgb[2] ?? 0);
}

function nearest(r: number, g: number, b: number): number {
  const top = Math.max(r, g, b);
  const low = Math.min(r, g, b);
  if (!Number.isFinite(top - low) || top - low < 0.25 * top || top < 40) return -1;
  const mid = low + (top - low) / 2;
  return (r > mid ? 1 : 0) | (g > mid ? 2 : 0) | (b > mid ? 4 : 0);
}

/** The CSS classes that draw a style. */
export function classOf(s: Style): string {
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
