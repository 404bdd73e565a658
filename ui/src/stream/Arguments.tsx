import { memo, useState } from "react";
import { plural } from "../text/format";
import { jsonText } from "../text/json";
import { Exact, Visible } from "../text/Shown";

/**
 * Exactly what would run: every character is present, invisible characters are
 * named, and collapsed text is counted.
 */
export const Arguments = memo(function Arguments({ value, lines = 12 }: { value: unknown; lines?: number }) {
  if (value === undefined || value === null) return null;
  if (typeof value !== "object" || Array.isArray(value) || Object.getPrototypeOf(value) !== Object.prototype)
    return <Text text={typeof value === "string" ? value : jsonText(value)} lines={lines} />;
  const entries = Object.entries(value);
  if (entries.length === 0) return <p className="text-sm text-muted">No arguments.</p>;
  return (
    <dl className="flex flex-col gap-2">
      {entries.map(([k, v]) => (
        <div key={k}>
          <dt className="text-xs text-muted">
            <Visible text={k} />
          </dt>
          <dd>
            <Text text={typeof v === "string" ? v : jsonText(v)} lines={lines} json={typeof v !== "string"} />
          </dd>
        </div>
      ))}
    </dl>
  );
});

const perLine = 400; // characters; a longer line counts as several

function Text({ text, lines, json }: { text: string; lines: number; json?: boolean }) {
  const [all, setAll] = useState(false);
  const parts = text.split("\n");
  let end = 0;
  let budget = lines;
  for (const p of parts) {
    const cost = Math.max(1, Math.ceil(p.length / perLine));
    if (budget < cost) break;
    budget -= cost;
    end++;
  }
  const rest = end < parts.length ? "\n" : ""; // keep the line break before the collapsed text
  const cutText = end === 0 ? text.slice(0, perLine * lines) : parts.slice(0, end).join("\n") + rest;
  const hidden = all ? 0 : text.length - cutText.length;
  const size = [
    text.length > 80 || parts.length > 1 ? plural(text.length, "character") : "",
    parts.length > 1 ? plural(parts.length, "line") : "",
  ].filter(Boolean);
  return (
    <>
      <pre className="mono-block">
        {json ? <Visible text={hidden ? cutText : text} /> : <Exact text={hidden ? cutText : text} />}
      </pre>
      {(hidden > 0 || size.length > 0) && (
        <p className="text-xs text-muted">
          {hidden > 0 && (
            <button type="button" className="quiet -ml-1.5 text-accent" onClick={() => setAll(true)}>
              {parts.length > end && end > 0
                ? `${plural(parts.length - end, "more line")}`
                : plural(hidden, "more character")}
            </button>
          )}
          {size.join(" · ")}
        </p>
      )}
    </>
  );
}
