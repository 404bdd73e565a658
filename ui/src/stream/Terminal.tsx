import { memo, useMemo, useState } from "react";
import { CopyButton } from "../app/Copy";
import { terminalLines } from "../text/ansi";
import { LinkedText } from "../text/FileLink";
import { bytes, plural } from "../text/format";
import { Mark } from "../text/Shown";
import type { Line } from "../text/sgr";
import { terminal, textOf } from "../text/terminal";

const first = 20; // lines shown at first: the last ones, where the result is
const more = 5000; // lines added by a click
const longLine = 2000; // characters of a line shown at first

/**
 * The output of a tool. `screen` marks output that was printed to a terminal.
 */
export const Terminal = memo(function Terminal({
  output,
  screen,
  truncated,
  totalBytes,
  exitCode,
  running,
}: {
  output: string;
  screen?: boolean;
  truncated?: boolean;
  totalBytes?: number;
  exitCode?: number;
  running?: boolean;
}) {
  const [exact, setExact] = useState(false);
  const [shown, setShown] = useState(first);
  const asScreen = screen && !exact;
  const drawn = useMemo(() => (asScreen ? terminal(output) : undefined), [output, asScreen]);
  const lines = useMemo(() => drawn?.lines ?? terminalLines(output), [output, drawn]);
  const [skipped, setSkipped] = useState(0); // number of removed sequences; kept while the exact output is shown
  if (drawn && drawn.skipped !== skipped) setSkipped(drawn.skipped);
  const hidden = Math.max(0, lines.length - shown);
  const bare = lines.every((l) => l.length === 0);
  const all =
    hidden > more ? `Show ${plural(more, "more line")}` : `Show all ${plural(lines.length, "line")}`;
  return (
    <div data-terminal={screen ? "" : undefined}>
      {screen && (
        <div className="-mt-1 flex min-h-7 items-center gap-2 text-xs">
          {exitCode !== undefined && <ExitCode code={exitCode} />}
          {running && <span className="text-muted">running</span>}
          <span className="ml-auto" />
          {skipped > 0 && (
            <button
              type="button"
              className="quiet text-xs"
              aria-pressed={exact}
              onClick={() => setExact(!exact)}
              title={`${plural(skipped, "control sequence")} hidden`}
            >
              Show raw
            </button>
          )}
          {!bare && <CopyOutput lines={lines} />}
        </div>
      )}
      {hidden > 0 && (
        <button
          type="button"
          className="quiet -ml-1.5"
          onClick={() => setShown((n) => (hidden > more ? n + more : Number.MAX_SAFE_INTEGER))}
        >
          {all}
        </button>
      )}
      {bare ? (
        <p className="text-sm text-muted">{running ? "No output yet." : "No output."}</p>
      ) : (
        <pre
          className={`mono-block ${screen ? "terminal" : ""} ${shown > first ? "max-h-[70dvh] overflow-y-auto" : ""}`}
          tabIndex={shown > first ? 0 : undefined}
        >
          {lines.slice(hidden).map((line, i) => (
            <ShownLine key={i + hidden} line={line} />
          ))}
        </pre>
      )}
      {truncated && (
        <p className="mt-1 text-sm text-muted">
          The output was cut{totalBytes ? `; its full size is ${bytes(totalBytes)}` : ""}.
        </p>
      )}
    </div>
  );
});

/** Makes the text to copy only on a click. */
function CopyOutput({ lines }: { lines: readonly Line[] }) {
  return <CopyButton text={() => textOf(lines)} label="Copy output" />;
}

export function ExitCode({ code }: { code: number }) {
  return (
    <span
      className={`rounded-md border px-1.5 font-mono ${code === 0 ? "text-muted" : "border-del text-del"}`}
      data-exit={code}
    >
      exit {code}
    </span>
  );
}

function ShownLine({ line }: { line: Line }) {
  const [all, setAll] = useState(false);
  const length = line.reduce((n, s) => n + s.text.length, 0);
  const long = !all && length > longLine;
  return (
    <span>
      {(long ? cut(line) : line).map((s, i) =>
        s.mark ? (
          <Mark key={i} label="control sequence, shown as text">
            {s.mark}
          </Mark>
        ) : s.className ? (
          <span key={i} className={s.className}>
            <Text text={s.text} />
          </span>
        ) : (
          <Text key={i} text={s.text} />
        ),
      )}
      {long && (
        <button type="button" className="quiet font-sans text-accent" onClick={() => setAll(true)}>
          … {plural(length - longLine, "more character")}
        </button>
      )}
      {"\n"}
    </span>
  );
}

/** Text whose places in files, such as "greet_test.go:14", are links. */
const Text = ({ text }: { text: string }) => (/[:#(]L?\d/.test(text) ? <LinkedText text={text} /> : text);

function cut(line: Line): Line {
  const out: Line = [];
  let left = longLine;
  for (const s of line) {
    if (left <= 0) break;
    out.push(s.text.length > left ? { ...s, text: s.text.slice(0, left) } : s);
    left -= s.text.length;
  }
  return out;
}
