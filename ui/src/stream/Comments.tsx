// Comments on the lines of a diff.

import { X } from "lucide-react";
import { createContext, type KeyboardEvent, useContext, useState } from "react";
import { addComment, type Comment, removeComments, useComments } from "../model/comments";
import { Visible } from "../text/Shown";

/** The session whose next prompt takes comments; lines have none without it. */
export const Commenting = createContext<string | undefined>(undefined);

export type Spot = Omit<Comment, "text">;

const sameSpot = (a: Spot, b: Spot) =>
  a.path === b.path && a.side === b.side && a.line === b.line && a.code === b.code;

/** The comments of the session on lines of a file. */
export function useCommentsOn(path: string): { session?: string; comments: readonly Comment[] } {
  const session = useContext(Commenting);
  const all = useComments(session);
  return { session, comments: all.filter((c) => c.path === path) };
}

export const spotName = (s: Spot) => `${s.side} line ${s.line}`;

/** Moves the focus to the number of the line above or below. */
export function stepLines(e: KeyboardEvent<HTMLElement>) {
  const by = e.key === "ArrowDown" ? 1 : e.key === "ArrowUp" ? -1 : 0;
  if (by === 0 || !(e.target instanceof HTMLElement) || !e.target.matches("button.no")) return;
  const all = [...e.currentTarget.querySelectorAll<HTMLElement>("button.no")];
  const to = all[all.indexOf(e.target) + by];
  if (!to) return;
  e.preventDefault();
  to.focus();
}

/** The comments on a line, and the field for a new one. */
export function LineComments({
  session,
  spot,
  comments,
  writing,
  onDone,
}: {
  session: string;
  spot: Spot;
  comments: readonly Comment[];
  writing: boolean;
  onDone: () => void;
}) {
  return (
    <>
      {comments
        .filter((c) => sameSpot(c, spot))
        .map((c, i) => (
          <div key={i} className="flex items-start gap-2 border-y bg-raised py-1 pr-1 pl-3">
            <p className="isolate-text min-w-0 flex-1 py-1 text-sm whitespace-pre-wrap">
              <Visible text={c.text} />
            </p>
            <button
              type="button"
              className="quiet"
              onClick={() => removeComments(session, [c])}
              aria-label={`Remove the comment on ${spotName(spot)}`}
              title="Remove the comment"
            >
              <X size={14} aria-hidden />
            </button>
          </div>
        ))}
      {writing && <Write session={session} spot={spot} onDone={onDone} />}
    </>
  );
}

function Write({ session, spot, onDone }: { session: string; spot: Spot; onDone: () => void }) {
  const [text, setText] = useState("");
  const add = () => {
    if (text.trim() === "") return;
    addComment(session, { ...spot, text: text.trim() });
    onDone();
  };
  return (
    <form
      className="flex flex-col gap-2 border-y bg-raised p-2"
      onSubmit={(e) => {
        e.preventDefault();
        add();
      }}
    >
      <textarea
        className="field"
        rows={2}
        aria-label={`Comment on ${spotName(spot)}`}
        placeholder="What should the agent change here?"
        value={text}
        // biome-ignore lint/a11y/noAutofocus: the user asked for this field
        autoFocus
        onChange={(e) => setText(e.target.value)}
        onKeyDown={(e) => {
          if (e.nativeEvent.isComposing) return;
          if (e.key === "Enter" && (e.ctrlKey || e.metaKey)) add();
          else if (e.key === "Escape") onDone();
          else return;
          e.preventDefault();
          e.stopPropagation();
        }}
      />
      <div className="flex justify-end gap-2">
        <button type="button" className="button" onClick={onDone}>
          Cancel
        </button>
        <button type="submit" className="button primary" disabled={text.trim() === ""}>
          Add to the prompt
        </button>
      </div>
    </form>
  );
}
