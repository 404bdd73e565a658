import { memo, useMemo, useState } from "react";
import { type Span, terminalLines } from "../text/ansi";
import { bytes, plural } from "../text/format";
import { Mark } from "../text/Shown";

const first = 20; // lines shown at once: the last ones, where the result is

/** What a tool printed. */
export const Terminal = memo(function Terminal({
  output,
  truncated,
  totalBytes,
}: {
  output: string;
  truncated?: boolean;
  totalBytes?: number;
}) {
  const lines = useMemo(() => terminalLines(output), [output]);
  const [all, setAll] = useState(false);
  const hidden = all ? 0 : Math.max(0, lines.length - first);
  const shown = hidden ? lines.slice(hidden) : lines;
  if (output === "") return <p className="text-sm text-muted">No output.</p>;
  return (
    <div>
      {hidden > 0 && (
        <button type="button" className="quiet -ml-1.5" onClick={() => setAll(true)}>
          Show all {plural(lines.length, "line")}
        </button>
      )}
      <pre className="mono-block">
        {shown.map((line, i) => (
          <span key={i + hidden}>
            {line.map(draw)}
            {"\n"}
          </span>
        ))}
      </pre>
      {truncated && (
        <p className="mt-1 text-sm text-muted">
          The output was cut{totalBytes ? `; all of it is ${bytes(totalBytes)}` : ""}.
        </p>
      )}
    </div>
  );
});

function draw(s: Span, i: number) {
  if (s.mark)
    return (
      <Mark key={i} label="control sequence, not obeyed">
        {s.mark}
      </Mark>
    );
  return s.className ? (
    <span key={i} className={s.className}>
      {s.text}
    </span>
  ) : (
    s.text
  );
}
