import { memo, useState } from "react";
import { byFile, type Count, countChange, countChanges, hunksOf } from "../model/diff";
import { plural, shortPath } from "../text/format";
import { Visible } from "../text/Shown";
import type { Change, Hunk } from "../wire/types";

/** Added and removed lines such as "+12 −3"; nothing if both are 0. */
export function Counts({ n }: { n: Count }) {
  if (n.added + n.removed === 0) return null;
  return (
    <span className="shrink-0 font-mono text-xs">
      {n.added > 0 && <span className="text-add">+{n.added}</span>}
      {n.added > 0 && n.removed > 0 && " "}
      {n.removed > 0 && <span className="text-del">−{n.removed}</span>}
      <span className="sr-only">
        {" "}
        lines: {n.added} added, {n.removed} removed
      </span>
    </span>
  );
}

/** File changes, grouped by file. */
export const Diff = memo(function Diff({ changes, dir }: { changes: readonly Change[]; dir: string }) {
  return (
    <div className="flex flex-col gap-3">
      {byFile(changes).map((f) => (
        <div key={f.path} className="overflow-hidden rounded-md border">
          <div className="flex items-baseline gap-2 border-b bg-panel px-3 py-1 text-sm">
            <code className="isolate-text min-w-0 font-mono">
              <Visible text={shortPath(f.path, dir)} />
              {f.movedTo && (
                <>
                  {" → "}
                  <Visible text={shortPath(f.movedTo, dir)} />
                </>
              )}
            </code>
            {f.kind !== "update" && <span className="text-muted">{kinds[f.kind]}</span>}
            <span className="ml-auto">
              <Counts n={countChanges(f.steps)} />
            </span>
          </div>
          {f.steps.map((c, i) => (
            <div key={i} className={i > 0 ? "border-t" : undefined}>
              <Hunks change={c} />
            </div>
          ))}
        </div>
      ))}
    </div>
  );
});

const kinds = { create: "new file", update: "", delete: "deleted", move: "moved" };

const firstLines = 200;

function Hunks({ change }: { change: Change }) {
  const [all, setAll] = useState(false);
  const hunks = hunksOf(change);
  if (hunks.length === 0) return <p className="px-3 py-2 text-sm text-muted">{nothing(change)}</p>;
  const total = hunks.reduce((n, h) => n + h.lines.length, 0);
  let left = all ? total : firstLines;
  const out = hunks.map((h, i) => {
    if (left <= 0) return null;
    const lines = h.lines.slice(0, left);
    left -= lines.length;
    return <HunkLines key={i} hunk={h} lines={lines} gap={i > 0} />;
  });
  return (
    <>
      {out}
      {!all && total > firstLines && (
        <button type="button" className="quiet m-1" onClick={() => setAll(true)}>
          Show {plural(total - firstLines, "more line")}
        </button>
      )}
    </>
  );
}

function nothing(c: Change): string {
  if (c.kind === "create")
    return c.newText === "" ? "Empty file." : "New file. The agent did not report its content.";
  if (c.kind === "delete") return "Deleted file.";
  if (c.kind === "move") return "Moved without changes.";
  const n = countChange(c);
  return n.added + n.removed === 0 ? "The agent did not report the changes." : "";
}

function HunkLines({ hunk, lines, gap }: { hunk: Hunk; lines: string[]; gap: boolean }) {
  let oldNo = hunk.oldStart;
  let newNo = hunk.newStart;
  // Before an edit, the agent may not know its line numbers; both are then 0.
  const placed = oldNo > 0 || newNo > 0;
  return (
    <div className={gap ? "border-t" : undefined}>
      {lines.map((line, i) => {
        const sign = line[0] === "+" || line[0] === "-" ? line[0] : " ";
        const o = sign === "+" || !placed ? "" : oldNo++;
        const n = sign === "-" || !placed ? "" : newNo++;
        return (
          <div key={i} className={`diff-line ${sign === "+" ? "add" : sign === "-" ? "del" : ""}`}>
            <span className="no old" aria-hidden>
              {o}
            </span>
            <span className="no" aria-hidden>
              {n === "" ? <span className="wide:hidden">{o}</span> : n}
            </span>
            <span className="sign">{sign === "-" ? "−" : sign}</span>
            <span className="body">
              <Visible text={line.slice(1)} />
            </span>
          </div>
        );
      })}
    </div>
  );
}
