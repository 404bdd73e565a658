import { memo, useRef } from "react";
import { type Block, MarkdownBlock, split } from "../text/markdown";

/**
 * Markdown text that may still grow. Only changed blocks are rendered again.
 */
export const Prose = memo(function Prose({ text, live }: { text: string; live: boolean }) {
  const before = useRef<{ text: string; blocks: Block[] }>(undefined);
  const blocks = split(text, before.current);
  before.current = { text, blocks };
  return (
    <div className={`prose-block ${live ? "growing" : ""}`}>
      {blocks.map((b, i) => (
        <MarkdownBlock key={b.key} raw={b.raw} live={live && i === blocks.length - 1} plain={b.plain} />
      ))}
    </div>
  );
});
