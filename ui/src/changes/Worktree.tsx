import { GitMerge, Trash2 } from "lucide-react";
import { type ReactNode, useCallback, useState } from "react";
import { Dialog } from "../app/Dialog";
import { attempt, useStore } from "../model/store";
import { plural } from "../text/format";
import { Visible } from "../text/Shown";
import { plain } from "../text/visible";
import { api } from "../wire/http";
import type { WorktreeStatus } from "../wire/types";
import { type Loaded, useLoaded } from "./loaded";
import { Pending } from "./parts";

/** The worktree of a session, and the ways to end it. Nothing without one. */
export function Worktree({
  session,
  version,
  onSaid,
}: {
  session: string;
  version: unknown;
  onSaid: (text: string | undefined) => void;
}) {
  const has = useStore((st) => st.sessions.get(session)?.worktree);
  const load = useCallback(() => api.worktree(session), [session]);
  if (!has) return null;
  return (
    <section aria-label="Worktree" className="mb-4 rounded-md border px-3 py-2 text-sm">
      {has.removed ? (
        <p className="text-muted">
          The worktree was removed. The session can only be read; create a new one to continue.
        </p>
      ) : (
        <Examined session={session} load={load} version={version} onSaid={onSaid} />
      )}
    </section>
  );
}

function Examined({
  session,
  load,
  version,
  onSaid,
}: {
  session: string;
  load: () => Promise<WorktreeStatus>;
  version: unknown;
  onSaid: (text: string | undefined) => void;
}) {
  const state = useLoaded(load, version);
  const st = state.value;
  if (!st || state.error !== undefined) return <Pending of={state} />;
  return (
    <>
      <p className="isolate-text font-mono text-xs break-all">
        <Visible text={st.root} />
      </p>
      {st.state === "ready" ? (
        <p className="pt-1">{summary(st)}</p>
      ) : (
        <p className="isolate-text pt-1 text-mark">
          <Visible text={st.problem ?? "The worktree cannot be examined."} />
        </p>
      )}
      <Ends session={session} st={st} state={state} onSaid={onSaid} />
    </>
  );
}

function summary(st: WorktreeStatus): ReactNode {
  const target = st.target ? plain(st.target, 80) : "";
  return (
    <>
      <span className="font-mono">{plain(st.current ?? "no branch", 80)}</span>
      {target === ""
        ? ": no branch is checked out in the project, so nothing can be merged"
        : ` has ${plural(st.ahead, "commit")} that ${target} lacks`}
      {st.behind > 0 && `, and ${target} has ${plural(st.behind, "new commit")}`}
      {st.uncommitted > 0 && `; ${plural(st.uncommitted, "file")} not committed`}.
      {st.operation && ` A ${plain(st.operation, 40)} is not finished in the worktree.`}
    </>
  );
}

function Ends({
  session,
  st,
  state,
  onSaid,
}: {
  session: string;
  st: WorktreeStatus;
  state: Loaded<WorktreeStatus>;
  onSaid: (text: string | undefined) => void;
}) {
  // A dialog shows the state at which it was opened, and acts on no other one.
  const [open, setOpen] = useState<{ what: "merge" | "remove"; st: WorktreeStatus }>();
  const [busy, setBusy] = useState(false);
  const close = () => setOpen(undefined);
  const act = async (what: () => Promise<string>) => {
    close();
    setBusy(true);
    onSaid(undefined);
    await attempt(async () => onSaid(await what()));
    await state.reload();
    setBusy(false);
  };
  const mergeable = st.state === "ready" && st.target && (st.ahead > 0 || st.uncommitted > 0);
  return (
    <div className="flex gap-2 pt-2">
      <button
        type="button"
        className="button"
        disabled={busy || !mergeable}
        onClick={() => setOpen({ what: "merge", st })}
      >
        <GitMerge size={14} aria-hidden /> Merge…
      </button>
      <button
        type="button"
        className="button"
        disabled={busy}
        onClick={() => setOpen({ what: "remove", st })}
      >
        <Trash2 size={14} aria-hidden /> Remove…
      </button>
      {open?.what === "merge" && (
        <Merge
          st={open.st}
          onClose={close}
          onMerge={(message) =>
            void act(async () => {
              const m = await api.mergeWorktree(session, message, open.st.seen);
              return `Merged ${plural(m.commits, "commit")} into ${plain(m.branch, 80)}.`;
            })
          }
        />
      )}
      {open?.what === "remove" && (
        <Remove
          st={open.st}
          onClose={close}
          onRemove={(discard) =>
            void act(async () => {
              await api.removeWorktree(session, discard, open.st.seen);
              return "Removed the worktree.";
            })
          }
        />
      )}
    </div>
  );
}

function Merge({
  st,
  onClose,
  onMerge,
}: {
  st: WorktreeStatus;
  onClose: () => void;
  onMerge: (message: string) => void;
}) {
  const [message, setMessage] = useState("");
  const target = plain(st.target ?? "", 80);
  const ready = st.uncommitted === 0 || message.trim() !== "";
  return (
    <Dialog title={`Merge into ${target}?`} onClose={onClose}>
      <form
        onSubmit={(e) => {
          e.preventDefault();
          if (ready) onMerge(message);
        }}
      >
        <p>
          The branch {target} of your project gets the commits of the worktree, and your files change.
          {st.behind > 0 && " It has other new commits, so a merge commit is made."} If the merge conflicts,
          nothing changes.
        </p>
        {st.uncommitted > 0 && (
          <>
            <p className="mt-3">
              {plural(st.uncommitted, "file")} of the worktree {st.uncommitted === 1 ? "is" : "are"} not
              committed. Say what the change does, and {st.uncommitted === 1 ? "it is" : "they are"} committed
              first:
            </p>
            <ul className="mt-1 max-h-32 overflow-y-auto font-mono text-xs">
              {st.files.map((f) => (
                <li key={f} className="truncate">
                  {plain(f)}
                </li>
              ))}
            </ul>
            <textarea
              className="field mt-2 w-full"
              rows={2}
              aria-label="Commit message"
              placeholder="Commit message"
              data-focus
              value={message}
              onChange={(e) => setMessage(e.target.value)}
            />
          </>
        )}
        <div className="mt-4 flex justify-end gap-2">
          <button type="button" className="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" className="button primary" disabled={!ready}>
            {st.uncommitted > 0 ? "Commit and merge" : "Merge"}
          </button>
        </div>
      </form>
    </Dialog>
  );
}

function Remove({
  st,
  onClose,
  onRemove,
}: {
  st: WorktreeStatus;
  onClose: () => void;
  onRemove: (discard: boolean) => void;
}) {
  const lost = [
    st.ahead > 0 && plural(st.ahead, "commit"),
    st.uncommitted > 0 &&
      `${plural(st.uncommitted, "file")} that ${st.uncommitted === 1 ? "is" : "are"} not committed`,
  ].filter(Boolean);
  const [discard, setDiscard] = useState(false);
  return (
    <Dialog title="Remove the worktree?" onClose={onClose}>
      <p>
        This removes the folder and its branch, and stops the agent. The session can then only be read.
        {lost.length === 0 && " It fails if commits, or files that are not committed, would be lost."} Files
        that git ignores, such as .env and local databases, are deleted.
      </p>
      <label className="mt-3 flex items-center gap-2">
        <input type="checkbox" checked={discard} onChange={(e) => setDiscard(e.target.checked)} />
        <span>
          Discard work that was not merged
          {lost.length > 0 && <strong>: {lost.join(", and ")}</strong>}
        </span>
      </label>
      <div className="mt-4 flex justify-end gap-2">
        <button type="button" className="button" onClick={onClose}>
          Cancel
        </button>
        <button type="button" className="button danger" onClick={() => onRemove(discard)}>
          {discard ? "Discard and remove" : "Remove"}
        </button>
      </div>
    </Dialog>
  );
}
