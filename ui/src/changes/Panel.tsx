import { RotateCw, X } from "lucide-react";
import { useMemo, useState } from "react";
import { useComments } from "../model/comments";
import type { Transcript } from "../model/transcript";
import { plural } from "../text/format";
import { Git } from "./Git";
import { Net } from "./Net";

type View = "session" | "git";

/** The changes of a session: what its agent reported, and what git finds. */
export function Panel({
  session,
  transcript,
  dir,
  waiting,
  onClose,
}: {
  session: string;
  transcript: Transcript;
  dir: string;
  waiting: boolean; // an approval waits, which a narrow page hides behind the panel
  onClose: () => void;
}) {
  const [view, setView] = useState<View>("session");
  const [asked, setAsked] = useState(0); // how often the user asked for a new load
  const done = useMemo(() => finished(transcript), [transcript]);
  const comments = useComments(session);
  const version = `${done}.${asked}`;
  return (
    <aside
      aria-label="Changes"
      className="flex w-[min(48rem,56%)] shrink-0 flex-col border-l bg-bg max-[72rem]:absolute max-[72rem]:inset-0 max-[72rem]:z-[5] max-[72rem]:w-full max-[72rem]:border-l-0"
    >
      <div className="flex min-h-12 shrink-0 items-center gap-1 border-b pr-2 pl-4 pt-[env(safe-area-inset-top)]">
        <h2 className="sr-only">Changes</h2>
        <Tab now={view} to="session" onView={setView} label="This session" />
        <Tab now={view} to="git" onView={setView} label="Git" />
        <button
          type="button"
          className="quiet ml-auto"
          onClick={() => setAsked((n) => n + 1)}
          aria-label="Load the changes again"
          title="Load again"
        >
          <RotateCw size={14} aria-hidden />
        </button>
        <button
          type="button"
          className="quiet"
          onClick={onClose}
          aria-label="Close changes"
          title="Close (c)"
        >
          <X size={16} aria-hidden />
        </button>
      </div>
      {view === "session" ? (
        <section
          className="min-h-0 flex-1 overflow-y-auto p-4"
          tabIndex={0}
          aria-label="Changes of this session"
        >
          <Net session={session} dir={dir} version={version} />
        </section>
      ) : (
        <Git session={session} version={version} />
      )}
      {waiting ? (
        <Behind text="The agent waits for your answer" action="Answer" onAction={onClose} />
      ) : (
        comments.length > 0 && (
          <Behind
            text={`${plural(comments.length, "comment")} for the next prompt`}
            action="Write the prompt"
            onAction={() => {
              onClose();
              document.getElementById("composer")?.focus();
            }}
          />
        )
      )}
    </aside>
  );
}

/** On a narrow page, leads to what is behind the panel. */
function Behind({ text, action, onAction }: { text: string; action: string; onAction: () => void }) {
  return (
    <div className="flex shrink-0 items-center gap-2 border-t px-4 py-2 text-sm min-[72rem]:hidden">
      <span className="text-muted" role="status">
        {text}
      </span>
      <button type="button" className="button ml-auto" onClick={onAction}>
        {action}
      </button>
    </div>
  );
}

function Tab({ now, to, onView, label }: { now: View; to: View; onView: (v: View) => void; label: string }) {
  return (
    <button
      type="button"
      className={`quiet ${now === to ? "bg-panel font-medium text-text" : ""}`}
      aria-pressed={now === to}
      onClick={() => onView(to)}
    >
      {label}
    </button>
  );
}

/** Counts what may have changed files: finished calls, and ended turns. */
function finished(t: Transcript): number {
  return t.turns.reduce(
    (n, turn) =>
      n +
      (turn.ended ? 1 : 0) +
      turn.items.filter((i) => i.type === "tool_call" && (i.status === "complete" || i.status === "error"))
        .length,
    0,
  );
}
