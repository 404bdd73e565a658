import { Paperclip } from "lucide-react";
import {
  type KeyboardEvent as ReactKey,
  type ReactNode,
  useEffect,
  useId,
  useLayoutEffect,
  useRef,
  useState,
} from "react";
import { tokenAt, withCommand, withFile } from "../model/mention";
import { Files } from "./FileList";
import { type Attachments, filesIn, isLong, textFile, useDrop } from "./files";
import { type Sources, type Suggestion, Suggestions, useSuggestions } from "./Suggestions";

// Whether the browser itself gives the field the height of its text. Measuring
// the text lays the whole page out once more for each key.
const grows = typeof CSS !== "undefined" && CSS.supports?.("field-sizing", "content") === true;

/**
 * The field for a prompt: text with completion of files and commands, and
 * attached files.
 */
export function Field({
  text,
  onText,
  attachments,
  sources,
  placeholder,
  onEnter,
  autoFocus = false,
  above,
  children,
}: {
  text: string;
  onText: (change: (text: string) => string) => void;
  attachments: Attachments;
  sources: Sources;
  placeholder: string;
  onEnter: () => void;
  autoFocus?: boolean;
  above?: ReactNode; // above the files
  children: ReactNode; // of the row below the text, after the button for files
}) {
  const field = useRef<HTMLTextAreaElement>(null);
  const over = useDrop(attachments);
  const id = useId();
  const [caret, setCaret] = useState(text.length);
  const [writing, setWriting] = useState(false); // the field has the focus
  const [closed, setClosed] = useState<number>(); // position of the token whose list was closed
  const [chosen, setChosen] = useState(0);
  const next = useRef<number>(undefined); // where the caret belongs after the next change of the text

  useLayoutEffect(() => {
    const el = field.current;
    if (!el) return;
    if (!grows) {
      el.style.height = "auto";
      el.style.height = `${el.scrollHeight + 2}px`;
    }
    if (next.current === undefined) return;
    el.focus();
    el.setSelectionRange(next.current, next.current);
    setCaret(next.current);
    next.current = undefined;
  }, [text]);

  useEffect(() => {
    if (autoFocus) field.current?.focus();
  }, [autoFocus]);

  const at = writing ? tokenAt(text, caret) : undefined;
  const token =
    at && at.from !== closed && (at.kind === "file" || sources.commands.length > 0) ? at : undefined;
  const found = useSuggestions(token, sources);
  // A text such as "/etc/hosts" or a name after an "@" that is no file needs no
  // list that says so.
  const open = token !== undefined && (found.list.length > 0 || (found.searching && token.query !== ""));
  const active = Math.min(chosen, found.list.length - 1);
  useEffect(() => setChosen(0), [token?.query, token?.kind]);
  useEffect(() => {
    if (at?.from !== closed) setClosed(undefined);
  }, [at?.from, closed]);

  const pick = (s: Suggestion) => {
    const t = tokenAt(text, caret);
    if (!t) return;
    const edit =
      s.kind === "file" ? withFile(text, t, s.path, s.folder) : withCommand(text, t, s.command.name);
    next.current = edit.caret;
    onText(() => edit.text);
  };

  const insert = (added: string) => {
    const el = field.current;
    const from = el?.selectionStart ?? text.length;
    const to = el?.selectionEnd ?? text.length;
    next.current = from + added.length;
    onText((now) => now.slice(0, from) + added + now.slice(to));
  };

  const onKeyDown = (e: ReactKey<HTMLTextAreaElement>) => {
    if (e.nativeEvent.isComposing) return;
    if (open && keyOfList(e)) return e.preventDefault();
    if (e.key !== "Enter" || e.shiftKey) return;
    // On a touch keyboard Enter makes a new line, because there is no
    // Shift+Enter.
    if (matchMedia("(pointer: coarse)").matches) return;
    e.preventDefault();
    onEnter();
  };

  // isWritten returns whether the text has the whole suggestion already, so that
  // Enter sends the prompt.
  const isWritten = (s: Suggestion) =>
    s.kind === "file" ? !s.folder && s.path === token?.query : s.command.name === token?.query;

  // keyOfList handles the keys of the open list, and returns whether e is one.
  const keyOfList = (e: ReactKey) => {
    const n = found.list.length;
    const s = found.list[active];
    if (e.key === "Escape") {
      setClosed(token?.from);
      e.stopPropagation(); // it does not stop the turn
    } else if (e.key === "ArrowDown" && n > 0) setChosen((active + 1) % n);
    else if (e.key === "ArrowUp" && n > 0) setChosen((active - 1 + n) % n);
    else if (e.key === "Tab" && !e.shiftKey && s) pick(s);
    else if (e.key === "Enter" && !e.shiftKey && s && !isWritten(s)) pick(s);
    else return false;
    return true;
  };

  return (
    <div
      className={`relative rounded-lg border bg-raised focus-within:border-accent ${over ? "border-accent" : "border-muted/50"}`}
    >
      {open && token && <Suggestions id={id} kind={token.kind} found={found} active={active} onPick={pick} />}
      {over && (
        <p className="absolute inset-0 z-10 flex items-center justify-center rounded-lg bg-tint font-medium text-accent">
          Drop to attach
        </p>
      )}
      {above}
      <Files files={attachments.files} onRemove={attachments.remove} onText={insert} />
      <textarea
        ref={field}
        id="composer"
        rows={1}
        aria-label="Prompt"
        aria-autocomplete="list"
        aria-controls={open ? id : undefined}
        aria-activedescendant={open && found.list.length > 0 ? `${id}${active}` : undefined}
        className="block field-sizing-content max-h-[40dvh] min-h-[42px] w-full resize-none px-3 py-2 text-lg outline-none focus-visible:outline-none pointer-coarse:min-h-11"
        placeholder={placeholder}
        value={text}
        onChange={(e) => {
          const { value } = e.target;
          setCaret(e.target.selectionStart);
          onText(() => value);
        }}
        onSelect={(e) => setCaret(e.currentTarget.selectionStart)}
        onFocus={() => setWriting(true)}
        onBlur={() => setWriting(false)}
        onKeyDown={onKeyDown}
        onPaste={(e) => {
          const files = filesIn(e.clipboardData);
          const pasted = e.clipboardData.getData("text/plain");
          if (files.length > 0) attachments.add(files);
          else if (isLong(pasted)) attachments.add([textFile(pasted)], pasted);
          else return;
          e.preventDefault();
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
            className="sr-only"
            aria-label="Attach files"
            onChange={(e) => {
              attachments.add(e.target.files ?? []);
              e.target.value = "";
            }}
          />
        </label>
        {children}
      </div>
    </div>
  );
}
