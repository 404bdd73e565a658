import { ArrowUp, ListPlus, Paperclip, Square } from "lucide-react";
import { type KeyboardEvent as ReactKey, useEffect, useLayoutEffect, useRef, useState } from "react";
import { load, save } from "../model/keep";
import { attempt, complain, sendPrompt } from "../model/store";
import { api } from "../wire/http";
import type { SessionStatus } from "../wire/types";
import { Files } from "./FileList";
import { accepted, useFiles } from "./files";
import { InUse } from "./InUse";
import { Pills } from "./Settings";

const twice = 1500; // ms within which a second Escape stops the turn

/** The field for prompts. A draft is kept until the server has accepted it. */
export function Composer({ s, onReload }: { s: SessionStatus; onReload: () => void }) {
  const id = s.sessionId;
  const [text, setText] = useState(() => load(`draft.${id}`, ""));
  const [busy, setBusy] = useState(false);
  const [armed, setArmed] = useState(false); // Escape was pressed once
  const field = useRef<HTMLTextAreaElement>(null);
  const { files, add, remove } = useFiles();
  const [over, setOver] = useState(false); // files are being dragged over the field
  const runs = s.activity !== "idle";

  useLayoutEffect(() => {
    const el = field.current;
    if (!el) return;
    el.style.height = "auto";
    el.style.height = `${el.scrollHeight + 2}px`;
  }, [text]);

  // Save at once, so that a reload or a switch of sessions loses nothing.
  useEffect(() => save(`draft.${id}`, text), [id, text]);

  const uploads = files.flatMap((f) => f.uploadId ?? []);
  const waiting = files.some((f) => !f.uploadId && !f.problem);
  const ready = !busy && !waiting && (text.trim() !== "" || uploads.length > 0);

  const send = async (queue: boolean) => {
    const typed = text;
    const content = typed.trim();
    if (!ready) return;
    setBusy(true);
    let warnings: string[] = [];
    const ok = await attempt(async () => {
      warnings = await sendPrompt(id, content, queue, uploads);
    });
    setBusy(false);
    if (!ok) return field.current?.focus();
    if (warnings.length > 0) complain(warnings.join("\n"));
    for (const f of files) remove(f.key);
    // Text typed after sending becomes the next draft.
    const rest = (now: string) => (now.startsWith(typed) ? now.slice(typed.length) : now);
    save(`draft.${id}`, rest(load(`draft.${id}`, "")));
    setText(rest);
  };
  const stop = () => attempt(() => api.cancel(id));

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

  const onKeyDown = (e: ReactKey<HTMLTextAreaElement>) => {
    if (e.key !== "Enter" || e.shiftKey || e.nativeEvent.isComposing) return;
    // On a touch keyboard Enter makes a new line, because there is no
    // Shift+Enter.
    if (matchMedia("(pointer: coarse)").matches) return;
    e.preventDefault();
    void send(runs);
  };

  if (s.state === "dead") return <Ended s={s} onReload={onReload} />;
  if (s.writer) return <InUse s={s} writer={s.writer} onReload={onReload} />;
  return (
    <form
      className="shrink-0 border-t bg-bg pb-[max(8px,env(safe-area-inset-bottom))]"
      aria-label="Prompt"
      onDragOver={(e) => {
        if (!e.dataTransfer.types.includes("Files")) return;
        e.preventDefault();
        setOver(true);
      }}
      onDragLeave={() => setOver(false)}
      onDrop={(e) => {
        setOver(false);
        if (e.dataTransfer.files.length === 0) return;
        e.preventDefault();
        add(e.dataTransfer.files);
      }}
      onSubmit={(e) => {
        e.preventDefault();
        void send(runs);
      }}
    >
      <div className="mx-auto w-full max-w-[52rem] px-4 pt-3">
        <div
          className={`rounded-lg border bg-raised focus-within:border-accent ${over ? "border-accent" : "border-muted/50"}`}
        >
          <Files files={files} onRemove={remove} />
          <textarea
            ref={field}
            id="composer"
            rows={1}
            aria-label="Prompt"
            className="block max-h-[40dvh] w-full resize-none px-3 py-2 text-lg outline-none focus-visible:outline-none pointer-coarse:min-h-11"
            placeholder={runs ? "Queue a follow-up" : "Tell the agent what to do"}
            value={text}
            onChange={(e) => setText(e.target.value)}
            onKeyDown={onKeyDown}
            onPaste={(e) => {
              if (e.clipboardData.files.length === 0) return;
              e.preventDefault();
              add(e.clipboardData.files);
            }}
          />
          <div className="flex items-center gap-1 px-1.5 pb-1.5">
            <label
              className="quiet cursor-pointer focus-within:outline-2 focus-within:outline-accent"
              title="Attach files"
            >
              <Paperclip size={15} aria-hidden />
              <input
                type="file"
                multiple
                accept={accepted}
                className="sr-only"
                aria-label="Attach files"
                onChange={(e) => {
                  add(e.target.files ?? []);
                  e.target.value = "";
                }}
              />
            </label>
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
          </div>
        </div>
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
