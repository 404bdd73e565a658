// Cuts coloured text into lines.

/** A coloured part of a text. */
export interface Token {
  from: number;
  to: number;
  style: string; // name of a class
}

/** A part of a line; uncoloured without style. */
export interface Span {
  text: string;
  style?: string;
}

/**
 * Cuts a text at its line breaks. The spans of a line together are exactly the
 * line. The tokens must be in order, without overlaps.
 */
export function byLine(text: string, tokens: readonly Token[]): Span[][] {
  const out: Span[][] = [];
  let start = 0;
  let next = 0;
  for (const line of text.split("\n")) {
    const end = start + line.length;
    const spans: Span[] = [];
    let at = start;
    while ((tokens[next]?.to ?? Infinity) <= start) next++;
    for (let i = next; i < tokens.length; i++) {
      const t = tokens[i] as Token;
      if (t.from >= end) break;
      const from = Math.max(t.from, at);
      const to = Math.min(t.to, end);
      if (from > at) spans.push({ text: text.slice(at, from) });
      if (to > from) spans.push({ text: text.slice(from, to), style: t.style });
      at = Math.max(at, to);
    }
    if (at < end) spans.push({ text: text.slice(at, end) });
    out.push(spans);
    start = end + 1;
  }
  return out;
}

/**
 * Colours the lines of a hunk, each of which begins with ' ', '-' or '+'. The
 * old and the new text of the hunk are coloured separately, because a line of
 * one is no part of the other.
 */
export function colourHunk(lines: readonly string[], colour: (text: string) => Token[]): Span[][] {
  const side = (other: string) => {
    const text = lines.flatMap((l) => (l[0] === other ? [] : l.slice(1))).join("\n");
    return byLine(text, colour(text)).values();
  };
  const removed = lines.some((l) => l[0] === "-");
  const older = removed ? side("+") : undefined;
  const newer = side("-");
  return lines.map((l) => {
    const old = l[0] === "+" ? undefined : older?.next().value;
    return (l[0] === "-" ? old : newer.next().value) ?? [];
  });
}
