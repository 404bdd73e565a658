import { useEffect, useState } from "react";
import { load, save } from "../model/keep";
import { attempt } from "../model/store";
import { plural } from "../text/format";
import { plain } from "../text/visible";
import { api } from "../wire/http";
import type { FolderStatus } from "../wire/types";

/** Commits what is staged. The message is kept until it is committed. */
export function Commit({
  session,
  st,
  onDone,
}: {
  session: string;
  st: FolderStatus;
  onDone: (said: string | undefined) => Promise<void>;
}) {
  const key = `commit.${session}`;
  const [message, setMessage] = useState(() => load(key, ""));
  const [busy, setBusy] = useState(false);
  useEffect(() => save(key, message), [key, message]);
  const staged = st.files.filter((f) => f.staged).length;
  const obstacle = obstacleOf(st);
  if (staged === 0 && message === "")
    return st.files.length === 0 ? null : (
      <p className="shrink-0 border-t px-4 py-3 text-sm text-muted">Stage files to commit them here.</p>
    );
  const ready = !busy && staged > 0 && message.trim() !== "" && obstacle === undefined;
  const commit = async () => {
    if (!ready) return;
    setBusy(true);
    let said: string | undefined;
    const ok = await attempt(async () => {
      const c = await api.commit(session, message, st.seen);
      said = `Committed ${c.commit.slice(0, 7)} to ${plain(c.branch)}.${c.differs ? " A hook or another program changed what was committed." : ""}`;
    });
    if (ok) setMessage("");
    await onDone(said); // after a refusal, too: something else may be staged
    setBusy(false);
  };
  return (
    <form
      aria-label="Commit"
      className="flex shrink-0 flex-col gap-2 border-t px-4 py-3"
      onSubmit={(e) => {
        e.preventDefault();
        void commit();
      }}
    >
      <textarea
        className="field"
        rows={2}
        aria-label="Commit message"
        placeholder="Commit message"
        value={message}
        onChange={(e) => setMessage(e.target.value)}
        onKeyDown={(e) => {
          if (e.key !== "Enter" || !(e.ctrlKey || e.metaKey) || e.nativeEvent.isComposing) return;
          e.preventDefault();
          void commit();
        }}
      />
      <div className="flex items-center gap-3">
        <p className="min-w-0 flex-1 text-xs text-muted">{obstacle ?? noteOf(st)}</p>
        <button type="submit" className="button primary" disabled={!ready}>
          Commit {plural(staged, "file")}
        </button>
      </div>
    </form>
  );
}

function obstacleOf(st: FolderStatus): string | undefined {
  if (st.elsewhere)
    return `${plural(st.elsewhere, "file")} outside of this folder ${st.elsewhere === 1 ? "is" : "are"} staged, too. Commit in a terminal.`;
  if (!st.branch) return "No branch is checked out. Create one in a terminal.";
  if (st.operation) return `A ${plain(st.operation)} is not finished.`;
  if (!st.author)
    return "Git does not know your name. Set user.name and user.email with git config, then load again.";
  return undefined;
}

function noteOf(st: FolderStatus): string {
  const hooks = st.hooks
    ? " Hooks of the repository run."
    : st.skipped
      ? " The folder is not trusted, so the hooks of the repository do not run."
      : "";
  return `As ${plain(st.author ?? "")}.${hooks}`;
}
