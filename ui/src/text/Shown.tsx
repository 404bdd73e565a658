import { Fragment, memo, type ReactNode } from "react";
import { exact, hasHidden, nameIn, nameOf, type Piece, visible } from "./visible";

/**
 * Foreign text. Characters that a browser would not draw, or would interpret,
 * are named.
 */
export const Visible = memo(function Visible({ text }: { text: string }) {
  if (!hasHidden(text)) return <>{breakable(text)}</>;
  const pieces = visible(text);
  const rest = pieces.slice(mostPieces).map(nameIn).join("");
  return (
    <>
      {drawAll(pieces.slice(0, mostPieces))}
      {rest && breakable(rest)}
    </>
  );
});

// Number of pieces of a text that are drawn. Further marks are part of the text,
// because browsers need seconds for a line of many elements.
const mostPieces = 2_000;

// Letters between spaces at which a line may break. The start of each word is
// examined only once, so the time grows with the length of the text.
const longWord = /(?<![^ \t\n])[^ \t\n]{200,}/gu;

// Browsers shape the letters of some scripts together, so their time for a word
// that does not fit into a line grows with the square of its length. Letters of
// Latin, Chinese, Japanese and Korean are shaped alone, so their words may be longer.
const shapedTogether = /[^\0-\u024f\u2000-\u206f\u2e80-\u9fff\uac00-\ud7af\uff00-\uffef]/u;
const shortPart = part(200);
const longPart = part(1_000);

// The next part of a word, with at least n letters. It ends neither before a
// mark of its last letter, nor in an emoji of several characters, nor behind a
// sign that joins two Khmer or Burmese letters, unless there is no other place
// within 100 letters.
function part(n: number): RegExp {
  const joins = "\\u200d\\u17d2\\u1039";
  return new RegExp(`.{${n},${n + 100}}?(?<![${joins}])(?![${joins}\\p{M}\\p{EMod}])|.{${n + 100}}`, "suy");
}

// Marks are parts of words, so a word of short pieces can be very long, too.
function drawAll(pieces: readonly Piece[]): ReactNode {
  let length = 0; // letters since the last space or place to break
  return pieces.map((p, i) => {
    length = /[ \t\n]/.test(p.text) ? 0 : length + (p.mark ?? p.text).length;
    if (!p.mark) return breakable(p.text);
    if (length < 200) return draw(p, i);
    length = 0;
    return (
      <Fragment key={i}>
        {draw(p, i)}
        <wbr />
      </Fragment>
    );
  });
}

/** Text with places at which very long words may be broken. */
export function breakable(text: string): ReactNode {
  const out: ReactNode[] = [];
  let from = 0;
  for (const word of text.matchAll(longWord)) {
    const next = shapedTogether.test(word[0]) ? shortPart : longPart;
    next.lastIndex = 0;
    while (next.test(word[0])) {
      const end = word.index + next.lastIndex;
      out.push(text.slice(from, end), <wbr key={end} />);
      from = end;
    }
  }
  if (from === 0) return text;
  out.push(text.slice(from));
  return out;
}

/** Like Visible, and also marks line breaks, tabs and unusual spaces. */
export const Exact = memo(function Exact({ text }: { text: string }) {
  return <>{exact(text).map(draw)}</>;
});

function draw(p: Piece, i: number): ReactNode {
  if (!p.mark) return p.text;
  if (p.text === "\n")
    return (
      <span key={i}>
        <Mark label="line break">↵</Mark>
        {"\n"}
      </span>
    );
  if (p.text === "\t")
    return (
      <span key={i}>
        <Mark label="tab">→</Mark>
        {"\t"}
      </span>
    );
  return (
    <Mark key={i} label={`character ${code(p.text)}`}>
      {p.mark}
    </Mark>
  );
}

const code = (s: string) => {
  const c = s.codePointAt(0) ?? 0;
  const hex = `U+${c.toString(16).toUpperCase().padStart(4, "0")}`;
  return nameOf(c) === hex ? hex : `${hex} ${nameOf(c)}`;
};

export function Mark({ children, label }: { children: ReactNode; label: string }) {
  return (
    <span className="ctl" title={label}>
      {children}
    </span>
  );
}
