import { ArrowDown, ArrowUp, Pause, Play, X } from "lucide-react";
import { useEffect, useLayoutEffect, useRef, useState } from "react";
import { attempt, sendPrompt, uploadsOf } from "../model/store";
import { plural } from "../text/format";
import { plain } from "../text/visible";
import { api } from "../wire/http";
import type { QueuedPrompt, SessionStatus } from "../wire/types";

interface Edited {
  turnId: string;
  text: string;
}

/** A prompt that was removed, so that it can be queued again. */
interface Removed {
  text: string;
  files: number;
  uploads: readonly string[]; // none if it was sent from another browser
  before: string; // turn id of the prompt below it, or ""
}

/** The prompts that wait, in the order in which they start. */
export function Queue({ s }: { s: SessionStatus }) {
  const id = s.sessionId;
  const prompts = s.queue ?? [];
  const [edited, setEdited] = useState<Edited>();
  const [removed, setRemoved] = useState<Removed>();
  const [busy, setBusy] = useState(false);
  const order = prompts.map((p) => p.turnId).join();
  const moved = useRef<{ turnId: string; order: string }>(undefined); // the last move, and the order before it
  const list = useRef<HTMLOListElement>(null);

  // A row that moves loses the focus, and the first one cannot move up.
  useLayoutEffect(() => {
    const move = moved.current;
    if (!move || busy || move.order === order) return;
    moved.current = undefined;
    const row = list.current?.querySelector(`[data-queued="${CSS.escape(move.turnId)}"]`);
    const buttons = [...(row?.querySelectorAll<HTMLButtonElement>("[data-move]") ?? [])];
    if (!buttons.some((b) => b === document.activeElement && !b.disabled))
      buttons.find((b) => !b.disabled && b.offsetParent)?.focus();
  });

  const gone = edited && !prompts.some((p) => p.turnId === edited.turnId);
  // In a queue that runs and is empty, the prompt would start at once.
  const undoable = s.activity !== "idle" || s.queueHeld ? removed : undefined;
  if (s.queued === 0 && !edited && !undoable) return null;

  // The socket delivers the changed queue, and delivers changes in order: the
  // response to a request may be older than what the socket has delivered.
  const change = async (f: () => Promise<unknown>): Promise<boolean> => {
    setBusy(true);
    const ok = await attempt(f);
    setBusy(false);
    return ok;
  };
  const move = (p: QueuedPrompt, before: string) => {
    moved.current = { turnId: p.turnId, order };
    void change(() => api.editQueued(id, p.turnId, { before }));
  };
  const edit = (p: QueuedPrompt) =>
    attempt(async () => {
      const whole = p.truncated ? await api.queuedPrompt(id, p.turnId) : p;
      if (whole) setEdited({ turnId: p.turnId, text: whole.text });
    });
  const remove = (p: QueuedPrompt, before: string) =>
    change(async () => {
      const whole = p.truncated ? await api.queuedPrompt(id, p.turnId) : p;
      await api.removeQueued(id, p.turnId);
      const uploads = uploadsOf(p.turnId);
      setRemoved({ text: whole?.text ?? p.text, files: p.files.length, uploads, before });
    });
  const undo = (r: Removed) =>
    change(async () => {
      const { turnId } = await sendPrompt(id, r.text, true, r.uploads);
      setRemoved(undefined);
      // The prompt below may have started meanwhile.
      if (r.before) await api.editQueued(id, turnId, { before: r.before }).catch(() => undefined);
    });
  const save = async (e: Edited) => {
    if (await change(() => api.editQueued(id, e.turnId, { content: e.text }))) setEdited(undefined);
  };
  const sendAgain = async (e: Edited) => {
    if (await attempt(() => sendPrompt(id, e.text, true))) setEdited(undefined);
  };

  return (
    <section aria-label="Queue" className="shrink-0 border-t bg-bg">
      <div className="mx-auto w-full max-w-[52rem] px-4 pt-1">
        {s.queued > 0 && (
          <div className="flex min-h-9 items-center gap-2">
            <p className={`min-w-0 flex-1 text-sm ${s.queueHeld ? "text-mark" : "text-muted"}`} role="status">
              {s.queueHeld
                ? `Queue held: ${plural(s.queued, "prompt")} ${s.queued === 1 ? "waits" : "wait"} until you continue.`
                : `${s.queued} queued`}
            </p>
            <button
              type="button"
              className={s.queueHeld ? "button" : "quiet"}
              disabled={busy}
              onClick={() => void change(() => api.holdQueue(id, !s.queueHeld))}
            >
              {s.queueHeld ? <Play size={13} aria-hidden /> : <Pause size={13} aria-hidden />}
              {s.queueHeld ? "Continue the queue" : "Hold"}
            </button>
          </div>
        )}
        {gone && edited && (
          <Editor
            edited={edited}
            problem="This prompt no longer waits, so your change was not saved."
            save="Queue as a new prompt"
            onChange={setEdited}
            onSave={sendAgain}
            onCancel={() => setEdited(undefined)}
          />
        )}
        {prompts.length > 0 && (
          <ol ref={list} className="-mx-1.5 max-h-[28dvh] divide-y overflow-y-auto">
            {prompts.map((p, i) => (
              <li key={p.turnId} data-queued={p.turnId} className="flex items-center">
                {edited?.turnId === p.turnId ? (
                  <Editor
                    edited={edited}
                    save="Save"
                    onChange={setEdited}
                    onSave={save}
                    onCancel={() => setEdited(undefined)}
                  />
                ) : (
                  <>
                    <Prompt p={p} onEdit={() => void edit(p)} />
                    <button
                      type="button"
                      data-move
                      className="quiet"
                      aria-label={`Move up: ${nameOf(p)}`}
                      title="Move up"
                      disabled={busy || i === 0}
                      onClick={() => move(p, prompts[i - 1]?.turnId ?? "")}
                    >
                      <ArrowUp size={14} aria-hidden />
                    </button>
                    <button
                      type="button"
                      data-move
                      className="quiet narrow:hidden"
                      aria-label={`Move down: ${nameOf(p)}`}
                      title="Move down"
                      disabled={busy || i === prompts.length - 1}
                      onClick={() => move(p, prompts[i + 2]?.turnId ?? "")}
                    >
                      <ArrowDown size={14} aria-hidden />
                    </button>
                    <button
                      type="button"
                      className="quiet"
                      aria-label={`Remove: ${nameOf(p)}`}
                      title="Remove from the queue"
                      disabled={busy}
                      onClick={() => void remove(p, prompts[i + 1]?.turnId ?? "")}
                    >
                      <X size={14} aria-hidden />
                    </button>
                  </>
                )}
              </li>
            ))}
          </ol>
        )}
        {undoable && <Undo removed={undoable} busy={busy} onUndo={() => void undo(undoable)} />}
      </div>
    </section>
  );
}

/** Offers to queue a removed prompt again. */
function Undo({ removed: r, busy, onUndo }: { removed: Removed; busy: boolean; onUndo: () => void }) {
  const bare = r.files > 0 && r.uploads.length === 0;
  return (
    <div className="flex min-h-9 items-center text-sm text-muted">
      <p role="status" className="isolate-text min-w-0 flex-1 truncate">
        Removed: {plain(r.text, 240)}
      </p>
      <button type="button" className="quiet shrink-0 text-accent" disabled={busy} onClick={onUndo}>
        {bare ? "Undo without the files" : "Undo"}
      </button>
    </div>
  );
}

const nameOf = (p: QueuedPrompt) => plain(p.text, 60) || plain(p.files.join(", "), 60);

/** The text of a queued prompt. A click edits it. */
function Prompt({ p, onEdit }: { p: QueuedPrompt; onEdit: () => void }) {
  const files = p.files.length;
  return (
    <button
      type="button"
      className="quiet min-w-0 flex-1 justify-start text-left text-text"
      onClick={onEdit}
      title="Edit this prompt"
    >
      <span className="sr-only">Edit: </span>
      <span className="isolate-text truncate">{plain(p.text, 240)}</span>
      {files > 0 && (
        <span className="shrink-0 text-xs text-muted" title={plain(p.files.join("\n"))}>
          {files === 20 ? "20 files or more" : plural(files, "file")}
        </span>
      )}
    </button>
  );
}

function Editor({
  edited,
  problem,
  save,
  onChange,
  onSave,
  onCancel,
}: {
  edited: Edited;
  problem?: string;
  save: string;
  onChange: (e: Edited) => void;
  onSave: (e: Edited) => void;
  onCancel: () => void;
}) {
  const field = useRef<HTMLTextAreaElement>(null);
  useEffect(() => {
    const el = field.current;
    el?.focus();
    el?.setSelectionRange(el.value.length, el.value.length);
  }, []);
  return (
    <form
      className="min-w-0 flex-1 px-1.5 py-2"
      aria-label="Edit a queued prompt"
      onSubmit={(e) => {
        e.preventDefault();
        onSave(edited);
      }}
    >
      {problem && (
        <p role="alert" className="mb-1 text-sm text-mark">
          {problem}
        </p>
      )}
      <textarea
        ref={field}
        rows={Math.min(6, edited.text.split("\n").length + 1)}
        className="field"
        aria-label="Queued prompt"
        value={edited.text}
        onChange={(e) => onChange({ ...edited, text: e.target.value })}
        onKeyDown={(e) => {
          if (e.key === "Escape") {
            e.stopPropagation(); // else it counts as the first of two that stop the turn
            onCancel();
          }
          if (e.key !== "Enter" || e.shiftKey || e.nativeEvent.isComposing) return;
          if (matchMedia("(pointer: coarse)").matches) return;
          e.preventDefault();
          onSave(edited);
        }}
      />
      <div className="mt-1 flex justify-end gap-2">
        <button type="button" className="button" onClick={onCancel}>
          {problem ? "Discard" : "Cancel"}
        </button>
        <button type="submit" className="button primary">
          {save}
        </button>
      </div>
    </form>
  );
}
