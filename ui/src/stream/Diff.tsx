import { Fragment, memo, useContext, useMemo, useState } from "react";
import { byFile, type Count, countChange, countChanges, hunksOf } from "../model/diff";
import { placeOfChange } from "../model/place";
import { FileLink, InProject } from "../text/FileLink";
import { plural, shortPath } from "../text/format";
import { languageOfFile } from "../text/language";
import type { FilePlace } from "../text/places";
import { Visible } from "../text/Shown";
import type { Change, Hunk } from "../wire/types";
import { Commenting, LineComments, type Spot, spotName, stepLines, useCommentsOn } from "./Comments";
import { Spans, useHunkColours } from "./colours";

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

/** A change with a remark about its place, which is shown below it. */
export interface Remarked extends Change {
  remark?: string;
}

/**
 * File changes, grouped by file. `done` reports that the files have these
 * changes, so their names lead to the changed lines.
 */
export const Diff = memo(function Diff({
  changes,
  dir,
  done,
}: {
  changes: readonly Remarked[];
  dir: string;
  done?: boolean;
}) {
  const project = useContext(InProject);
  const placeOf = (last?: Change) => (done && project && last ? placeOfChange(last, dir) : undefined);
  const commented = useContext(Commenting) !== undefined;
  return (
    <div className="flex flex-col gap-3">
      {commented && <CommentHint />}
      {byFile(changes).map((f) => (
        <div key={f.path} className="overflow-hidden rounded-md border">
          <div className="flex items-baseline gap-2 border-b bg-panel px-3 py-1 text-sm">
            <FileName
              path={f.path}
              movedTo={f.movedTo}
              kind={f.kind}
              dir={dir}
              session={project?.session}
              place={placeOf(f.steps.at(-1))}
            />
            <span className="ml-auto">
              <Counts n={countChanges(f.steps)} />
            </span>
          </div>
          <Steps steps={f.steps} dir={dir} />
        </div>
      ))}
    </div>
  );
});

/** What a tap on a line number does; without a mouse, nothing else shows it. */
export const CommentHint = () => (
  <p className="comment-hint text-sm text-muted">Tap a line number to comment on the line.</p>
);

/** The path of a changed file, which is a link if the file is at a place of the session. */
export function FileName({
  path,
  movedTo,
  kind,
  dir,
  session,
  place,
}: Pick<Change, "path" | "movedTo" | "kind"> & { dir: string; session?: string; place?: FilePlace }) {
  const name = (
    <code className="isolate-text min-w-0 font-mono">
      <Visible text={shortPath(path, dir)} />
      {movedTo && (
        <>
          {" → "}
          <Visible text={shortPath(movedTo, dir)} />
        </>
      )}
    </code>
  );
  return (
    <>
      {session && place ? (
        <FileLink session={session} place={place}>
          {name}
        </FileLink>
      ) : (
        name
      )}
      {kind !== "update" && <span className="shrink-0 text-muted">{kinds[kind]}</span>}
    </>
  );
}

const kinds = { create: "new file", update: "", delete: "deleted", move: "moved" };

/** The changes of one file, one after another. */
export function Steps({ steps, dir }: { steps: readonly Remarked[]; dir: string }) {
  return steps.map((c, i) => (
    <div key={i} className={i > 0 ? "border-t" : undefined}>
      <Hunks change={c} path={shortPath(c.movedTo ?? c.path, dir)} />
      {c.remark && <p className="isolate-text border-t px-3 py-1 text-sm text-mark">{c.remark}</p>}
    </div>
  ));
}

const firstLines = 200;

function Hunks({ change, path }: { change: Change; path: string }) {
  const [all, setAll] = useState(false);
  const hunks = useMemo(() => hunksOf(change), [change]);
  if (hunks.length === 0) return <p className="px-3 py-2 text-sm text-muted">{nothing(change)}</p>;
  const total = hunks.reduce((n, h) => n + h.lines.length, 0);
  let left = all ? total : firstLines;
  const out = hunks.map((h, i) => {
    if (left <= 0) return null;
    const shown = Math.min(left, h.lines.length);
    left -= shown;
    return <HunkLines key={i} hunk={h} shown={shown} gap={i > 0} path={path} first={i === 0} />;
  });
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: the keys are those of the numbers within
    <div onKeyDown={stepLines}>
      {out}
      {!all && total > firstLines && (
        <button type="button" className="quiet m-1" onClick={() => setAll(true)}>
          Show {plural(total - firstLines, "more line")}
        </button>
      )}
    </div>
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

function HunkLines({
  hunk,
  shown,
  gap,
  path,
  first,
}: {
  hunk: Hunk;
  shown: number; // of its lines, from the first
  gap: boolean;
  path: string;
  first: boolean; // of the file; its first line is the one that Tab reaches
}) {
  const { session, comments } = useCommentsOn(path);
  const [writing, setWriting] = useState<number>();
  const colours = useHunkColours(hunk.lines, languageOfFile(path));
  let oldNo = hunk.oldStart;
  let newNo = hunk.newStart;
  // Before an edit, the agent may not know its line numbers; both are then 0.
  const placed = oldNo > 0 || newNo > 0;
  return (
    <div className={gap ? "border-t" : undefined}>
      {hunk.lines.slice(0, shown).map((line, i) => {
        const sign = line[0] === "+" || line[0] === "-" ? line[0] : " ";
        const o = sign === "+" || !placed ? 0 : oldNo++;
        const n = sign === "-" || !placed ? 0 : newNo++;
        const side = sign === "-" ? "old" : "new";
        const spot: Spot = { path, side, line: n || o, code: line };
        const own = (of: "old" | "new", no: number) =>
          session && no > 0 && of === side ? (
            <button
              type="button"
              className={`no ${of}`}
              tabIndex={first && i === 0 ? 0 : -1}
              aria-label={`Comment on ${spotName(spot)}`}
              title="Comment on this line"
              data-keys="Enter: comment · ↑ ↓: other lines"
              onClick={() => setWriting(i)}
            >
              {no}
            </button>
          ) : (
            <span className={`no ${of}`} aria-hidden>
              {no || ""}
            </span>
          );
        return (
          <Fragment key={i}>
            <div className={`diff-line ${sign === "+" ? "add" : sign === "-" ? "del" : ""}`}>
              {own("old", o)}
              {own("new", n)}
              <span className="sign">{sign === "-" ? "−" : sign}</span>
              <span className="body">
                {colours?.[i] ? <Spans spans={colours[i]} /> : <Visible text={line.slice(1)} />}
              </span>
            </div>
            {session && spot.line > 0 && (
              <LineComments
                session={session}
                spot={spot}
                comments={comments}
                writing={writing === i}
                onDone={() => setWriting(undefined)}
              />
            )}
          </Fragment>
        );
      })}
    </div>
  );
}
