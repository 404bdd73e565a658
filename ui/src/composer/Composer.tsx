import { ArrowUp, ListPlus, Square } from "lucide-react";
import { useEffect, useState } from "react";
import { removeComments, useComments, withComments } from "../model/comments";
import { load, save } from "../model/keep";
import { attempt, complain, sendPrompt, useStore } from "../model/store";
import { received } from "../model/unanswered";
import { api } from "../wire/http";
import type { SessionStatus } from "../wire/types";
import { CommentList } from "./CommentList";
import { Field } from "./Field";
import { useFiles } from "./files";
import { InUse } from "./InUse";
import { Pills } from "./Settings";

const twice = 1500; // ms within which a second Escape stops the turn

/** The field for prompts. A draft is kept until the server has accepted it. */
export function Composer({ s, onReload }: { s: SessionStatus; onReload: () => void }) {
  const id = s.sessionId;
  const [text, setText] = useState(() => load(`draft.${id}`, ""));
  const [busy, setBusy] = useState(false);
  const [entered, setEntered] = useState(false); // Enter was pressed while busy
  const [armed, setArmed] = useState(false); // Escape was pressed once
  const attachments = useFiles(id);
  const { files, remove } = attachments;
  const comments = useComments(id);
  const runs = s.activity !== "idle";

  // Save at once, so that a reload or a switch of sessions loses nothing.
  useEffect(() => save(`draft.${id}`, text), [id, text]);

  const uploads = files.flatMap((f) => f.uploadId ?? []);
  const waiting = files.some((f) => !f.uploadId && !f.problem);
  const ready = !busy && !waiting && (text.trim() !== "" || uploads.length > 0 || comments.length > 0);

  const send = async (queue: boolean) => {
    const typed = text;
    const content = withComments(typed.trim(), comments);
    if (!ready) return;
    setBusy(true);
    let warnings: string[] = [];
    const ok = await attempt(async () => {
      ({ warnings } = await sendPrompt(id, content, queue, uploads));
    });
    setBusy(false);
    if (!ok) {
      setEntered(false);
      return document.getElementById("composer")?.focus();
    }
    if (warnings.length > 0) complain(warnings.join("\n"));
    for (const f of files) remove(f.key);
    removeComments(id, comments);
    // Text typed after sending becomes the next draft.
    const rest = (now: string) => (now.startsWith(typed) ? now.slice(typed.length) : now);
    save(`draft.${id}`, rest(load(`draft.${id}`, "")));
    setText(rest);
  };
  const enter = () => (busy ? setEntered(true) : void send(runs));
  const stop = () => attempt(() => api.cancel(id));

  // What was entered before the server had accepted the last prompt comes after
  // that prompt.
  useEffect(() => {
    if (busy || !entered) return;
    setEntered(false);
    void send(true);
  });

  // A prompt whose response was lost may have arrived. Then it must not stay in
  // the field, as if it were not sent.
  const turns = useStore((st) => st.transcripts.get(id)?.index);
  useEffect(() => {
    if (busy) return;
    const sent = received(id, (turn) => turns?.has(turn) || s.queue?.some((p) => p.turnId === turn) || false);
    if (sent?.content !== withComments(text.trim(), comments)) return;
    setText("");
    removeComments(id, comments);
    for (const f of files) if (f.uploadId && sent.uploads.includes(f.uploadId)) remove(f.key);
  }, [id, busy, turns, s.queue, text, comments, files, remove]);

  useEffect(() => {
    if (!runs) return setArmed(false);
    const key = (e: KeyboardEvent) => {
      if (e.key !== "Escape" || e.repeat || document.querySelector("dialog[open]")) return;
      setArmed((was) => {
        if (was) void api.cancel(id).catch(() => undefined);
        return !was;
      });
    };
    window.addEventListener("keydown", key);
    return () => window.removeEventListener("keydown", key);
  }, [runs, id]);

  useEffect(() => {
    if (!armed) return;
    const later = setTimeout(() => setArmed(false), twice);
    return () => clearTimeout(later);
  }, [armed]);

  if (s.state === "dead") return <Ended s={s} onReload={onReload} />;
  if (s.writer) return <InUse s={s} writer={s.writer} onReload={onReload} />;
  return (
    <form
      className="shrink-0 border-t bg-bg pb-[max(8px,env(safe-area-inset-bottom))]"
      aria-label="Prompt"
      onSubmit={(e) => {
        e.preventDefault();
        void send(runs);
      }}
    >
      <div className="mx-auto w-full max-w-[52rem] px-4 pt-3">
        <Field
          text={text}
          onText={setText}
          attachments={attachments}
          sources={{ project: id, files: (query) => api.files(id, query), commands: s.commands ?? [] }}
          placeholder={runs ? "Queue a follow-up" : "Tell the agent what to do"}
          onEnter={enter}
          above={<CommentList session={id} comments={comments} />}
        >
          <Pills s={s} />
          <span className="ml-auto flex items-center gap-2" aria-live="polite">
            {armed && <span className="text-sm text-muted">Esc again stops</span>}
          </span>
          {runs && (
            <button
              type="button"
              className="button"
              onClick={stop}
              title={s.queued > 0 ? "Stop and hold the queue (Esc twice)" : "Stop (Esc twice)"}
            >
              <Square size={12} aria-hidden className="fill-current" /> Stop
            </button>
          )}
          <button type="submit" className="button primary" disabled={!ready}>
            {runs ? <ListPlus size={15} aria-hidden /> : <ArrowUp size={15} aria-hidden />}
            {runs ? "Queue" : "Send"}
          </button>
        </Field>
      </div>
    </form>
  );
}

function Ended({ s, onReload }: { s: SessionStatus; onReload: () => void }) {
  const [busy, setBusy] = useState(false);
  return (
    <div className="shrink-0 border-t pb-[max(12px,env(safe-area-inset-bottom))]">
      <div className="mx-auto flex w-full max-w-[52rem] items-center gap-4 px-4 pt-3">
        <p className="text-muted">This session has ended. You can still read it.</p>
        <button
          type="button"
          className="button primary ml-auto"
          disabled={busy}
          onClick={async () => {
            setBusy(true);
            if (await attempt(() => api.load(s.sessionId))) onReload();
            setBusy(false);
          }}
        >
          Continue
        </button>
      </div>
    </div>
  );
}
