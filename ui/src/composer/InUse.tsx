import { useState } from "react";
import { attempt, fork } from "../model/store";
import { api } from "../wire/http";
import type { SessionStatus, Writer } from "../wire/types";

/** Says which process has the conversation open, and how that is known. */
export function writerText(w: Writer): string {
  switch (w.source) {
    case "registry":
      return `Process ${w.pid} has this conversation open, as the agent’s list of its processes says.`;
    case "descriptors":
      return `Process ${w.pid} has this conversation open.`;
    case "recent":
      return "Another program changed this conversation in the last 30 seconds.";
  }
}

/**
 * Takes the place of the composer while a process outside of Runnel, such as
 * the agent in a terminal, has the conversation open.
 */
export function InUse({ s, writer, onReload }: { s: SessionStatus; writer: Writer; onReload: () => void }) {
  const [busy, setBusy] = useState(false);
  const choose = async (f: () => Promise<unknown>) => {
    setBusy(true);
    if (await attempt(f)) onReload();
    setBusy(false);
  };
  return (
    <section
      className="shrink-0 border-t pb-[max(12px,env(safe-area-inset-bottom))]"
      aria-label="Conversation in use"
    >
      <div className="mx-auto flex w-full max-w-[52rem] flex-wrap items-center gap-2 px-4 pt-3">
        <p className="min-w-[16rem] flex-1 text-muted">
          {writerText(writer)} Its work appears here live. You can write again when it ends.
        </p>
        <button
          type="button"
          className="button"
          disabled={busy}
          title="Continue in a copy of this session"
          onClick={async () => {
            setBusy(true);
            if (await fork(s.sessionId)) onReload();
            setBusy(false);
          }}
        >
          Fork
        </button>
        <button
          type="button"
          className="button primary"
          disabled={busy}
          title="Write here although the other program has the conversation open. It is asked to exit, or what it writes from then on may become a branch."
          onClick={() => void choose(() => api.load(s.sessionId, true))}
        >
          Take over
        </button>
      </div>
    </section>
  );
}
