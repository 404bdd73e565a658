import { memo, type ReactNode } from "react";
import { exact, hasHidden, nameOf, type Piece, visible } from "./visible";

/**
 * Foreign text. Characters that a browser would not draw, or would interpret,
 * are named.
 */
export const Visible = memo(function Visible({ text }: { text: string }) {
  return <>{hasHidden(text) ? visible(text).map(draw) : text}</>;
});

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
