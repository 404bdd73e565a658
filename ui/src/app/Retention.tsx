import { useEffect, useId, useState } from "react";
import { ago, bytes, plural } from "../text/format";
import { Visible } from "../text/Shown";
import { plain } from "../text/visible";
import { api } from "../wire/http";
import type { Expired, ExpiredWorktree, Expiry } from "../wire/retention";
import { Dialog } from "./Dialog";
import { useNow } from "./hooks";

/** The old sessions that the server deletes, before it deletes them. */
export function Retention({ onClose }: { onClose: () => void }) {
  const [days, setDays] = useState<number>();
  const [found, setFound] = useState<Expiry>();
  const [problem, setProblem] = useState<string>();
  const id = useId();
  useEffect(() => {
    let over = false;
    setFound(undefined);
    setProblem(undefined);
    api.retention(days).then(
      (x) => !over && setFound(x),
      (e) => !over && setProblem(e instanceof Error ? e.message : String(e)),
    );
    return () => {
      over = true;
    };
  }, [days]);

  return (
    <Dialog title="Old sessions" onClose={onClose} sheet>
      <p className="mb-3 text-sm text-muted">
        The server deletes these sessions by its settings{" "}
        <code className="font-mono whitespace-nowrap">retention-age</code> and{" "}
        <code className="font-mono whitespace-nowrap">retention-mib</code>. This dialog deletes nothing.
      </p>
      <form
        className="mb-3"
        onSubmit={(e) => {
          e.preventDefault();
          const typed = Number(new FormData(e.currentTarget).get("days"));
          setDays(typed > 0 ? typed : undefined);
        }}
      >
        <label htmlFor={id} className="text-sm">
          Show sessions that were not active for this many days, instead of the settings
        </label>
        <div className="mt-1 flex gap-2">
          <input
            id={id}
            name="days"
            type="number"
            min={0}
            step="any"
            inputMode="decimal"
            className="field min-w-0 flex-1"
          />
          <button type="submit" className="button">
            Show
          </button>
        </div>
      </form>
      {problem && (
        <p role="alert" className="isolate-text mb-3 text-sm text-del">
          {problem}
        </p>
      )}
      {!problem && (
        <p role="status" className="mb-2 text-sm">
          {found ? summary(found) : "Loading the old sessions…"}
        </p>
      )}
      <ul className="flex flex-col gap-2">
        {found?.sessions.map((s) => (
          <Row key={s.sessionId} s={s} />
        ))}
      </ul>
    </Dialog>
  );
}

function summary(x: Expiry): string {
  const all = `All sessions together have about ${bytes(x.storedBytes)}.`;
  if (!x.limited) return `The settings delete no session. ${all}`;
  if (x.count === 0) return `No session is old enough to be deleted. ${all}`;
  return `${plural(x.count, "session")} would be deleted, which frees about ${bytes(x.freedBytes)} of ${bytes(x.storedBytes)}.`;
}

function Row({ s }: { s: Expired }) {
  const now = useNow(30_000);
  return (
    <li className="border-t pt-2">
      <p className="isolate-text truncate font-medium">{plain(s.title, 100) || "Untitled"}</p>
      <p className="isolate-text text-xs text-muted">
        <code className="font-mono break-all">
          <Visible text={s.projectDir} />
        </code>{" "}
        · {ago(s.lastActiveAt, now)} · {bytes(s.bytes)} · by {s.reason === "size" ? "size" : "age"}
      </p>
      {s.worktree && <Tree w={s.worktree} />}
    </li>
  );
}

function Tree({ w }: { w: ExpiredWorktree }) {
  return (
    <p className="isolate-text mt-1 text-xs">
      Worktree{" "}
      <code className="font-mono break-all">
        <Visible text={w.root} />
      </code>
      {w.uncommitted > 0 && `, ${plural(w.uncommitted, "file")} not committed`}
      <span className={w.stays ? "block text-mark" : "block text-muted"}>{plain(fate(w), 600)}</span>
    </p>
  );
}

function fate(w: ExpiredWorktree): string {
  if (w.unexamined) return "It was not examined. It is removed unless that loses work.";
  if (w.stays) return `It stays. ${w.why}`;
  if (w.ignored.length > 0)
    return `It is removed with its branch and with the files that git ignores: ${w.ignored.join(", ")}.`;
  return "It is removed with its branch.";
}
