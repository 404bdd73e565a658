// Pieces that the views of changes share.

import { ChevronRight } from "lucide-react";
import { type ReactNode, useId } from "react";
import type { Count } from "../model/diff";
import { Counts, FileName, Steps } from "../stream/Diff";
import { plain } from "../text/visible";
import type { Change, FileDiff } from "../wire/types";
import type { Loaded } from "./loaded";

/** What is shown in place of a value that is not there yet. */
export function Pending<T>({ of }: { of: Loaded<T> }) {
  if (of.error === undefined)
    return (
      <div role="status" aria-label="Loading" className="flex flex-col gap-3 py-2">
        <div className="shape h-4 w-2/3" />
        <div className="shape h-4 w-1/2" />
      </div>
    );
  return (
    <div role="alert" className="flex flex-wrap items-center gap-3 py-2">
      <p className="isolate-text min-w-0 flex-1">{plain(of.error, 1000)}</p>
      <button type="button" className="button" onClick={() => void of.reload()}>
        Try again
      </button>
    </div>
  );
}

/** A file that opens in place; `actions` stay beside its name. */
export function File({
  file,
  name,
  count,
  dir,
  open,
  onToggle,
  actions,
  children,
}: {
  file: Pick<Change, "path" | "movedTo" | "kind">;
  name: string; // for screen readers
  count?: Count;
  dir: string;
  open: boolean;
  onToggle: () => void;
  actions?: ReactNode;
  children: ReactNode;
}) {
  const body = useId();
  return (
    <section aria-label={name} className="overflow-hidden rounded-md border">
      <div className="flex items-center bg-panel pr-1">
        <button
          type="button"
          aria-expanded={open}
          aria-controls={open ? body : undefined}
          onClick={onToggle}
          className="flex min-h-9 min-w-0 flex-1 items-center gap-2 px-2 py-1 text-left text-sm [@media(pointer:coarse)]:min-h-11"
        >
          <ChevronRight size={14} aria-hidden className={`shrink-0 text-muted ${open ? "rotate-90" : ""}`} />
          <FileName {...file} dir={dir} />
          <span className="ml-auto pl-2">{count && <Counts n={count} />}</span>
        </button>
        {actions}
      </div>
      {open && (
        <div id={body} className="border-t">
          {children}
        </div>
      )}
    </section>
  );
}

/** The lines of a diff, and what they leave out. */
export function DiffBody({ diff, dir, onWhole }: { diff: FileDiff; dir: string; onWhole?: () => void }) {
  const notes = [
    diff.steps &&
      "The server does not know enough of this file to combine its changes, so they are shown one after another.",
    diff.outside &&
      "Something else changed this file between two changes of the agent. The diff shows that, too.",
    diff.newMode && `The mode of the file changes from ${diff.oldMode ?? "none"} to ${diff.newMode}.`,
    diff.newline &&
      `The change ${diff.newline === "added" ? "adds" : "removes"} the newline at the end of the file.`,
    diff.binary && "This file is not text.",
    diff.cut && "The end of the diff is left out, because it is too long.",
  ].filter((n) => typeof n === "string");
  const textless = diff.binary || (diff.hunks.length === 0 && (diff.newMode || diff.newline));
  return (
    <>
      {!textless && <Steps steps={diff.steps ?? [diff]} dir={dir} />}
      {notes.map((n) => (
        <p key={n} className="border-t px-3 py-1 text-sm text-muted first:border-t-0">
          {n}
        </p>
      ))}
      {diff.whole && (diff.kind === "update" || diff.kind === "move") && onWhole && (
        <button type="button" className="quiet m-1" onClick={onWhole}>
          Show the whole file
        </button>
      )}
    </>
  );
}

/** As much context as a file has. */
export const wholeFile = 1_000_000;
