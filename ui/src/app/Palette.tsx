import { useEffect, useMemo, useRef, useState } from "react";
import { useStore } from "../model/store";
import { useAdmin } from "./admin";
import { type Command, commands, matching } from "./commands";
import { Dialog } from "./Dialog";

/** Finds any action and any session by a few letters of its name. */
export function Palette({ current, onClose }: { current?: string; onClose: () => void }) {
  const sessions = useStore((s) => s.sessions);
  const admin = useAdmin();
  const [typed, setTyped] = useState("");
  const [at, setAt] = useState(0);
  const actions = useMemo(() => commands(current, admin), [current, admin]);
  const shown = useMemo(() => matching(typed, actions, sessions.values()), [typed, actions, sessions]);
  const chosen = shown[Math.min(at, shown.length - 1)];
  const field = useRef<HTMLInputElement>(null);
  const list = useRef<HTMLDivElement>(null);

  // The dialog gives the focus to its first button when it opens, after this
  // effect.
  useEffect(() => queueMicrotask(() => field.current?.focus()), []);
  useEffect(() => {
    if (chosen) list.current?.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" });
  }, [chosen]);

  // The dialog is closed first: it gives the focus back to where it was, and
  // some actions move the focus.
  const run = (c: Command) => {
    onClose();
    setTimeout(() => void c.run());
  };
  const onKeyDown = (e: React.KeyboardEvent) => {
    const by = { ArrowDown: 1, ArrowUp: -1 }[e.key];
    if (by) setAt((shown.indexOf(chosen as Command) + by + shown.length) % Math.max(1, shown.length));
    else if (e.key === "Enter" && chosen && !e.nativeEvent.isComposing) run(chosen);
    else return;
    e.preventDefault();
  };

  return (
    <Dialog title="Commands" onClose={onClose}>
      <input
        ref={field}
        className="field"
        role="combobox"
        aria-label="Find a command or a session"
        aria-expanded="true"
        aria-controls="commands"
        aria-activedescendant={chosen && domId(chosen)}
        aria-autocomplete="list"
        autoComplete="off"
        spellCheck={false}
        placeholder="Command or session"
        value={typed}
        onChange={(e) => {
          setTyped(e.target.value);
          setAt(0);
        }}
        onKeyDown={onKeyDown}
      />
      <div ref={list} id="commands" role="listbox" aria-label="Commands and sessions" className="mt-2">
        {shown.map((c) => (
          // biome-ignore lint/a11y/useKeyWithClickEvents: the keys are those of the field
          <div
            key={c.id}
            id={domId(c)}
            role="option"
            tabIndex={-1}
            aria-selected={c === chosen}
            className={`flex min-h-9 cursor-pointer items-center gap-3 rounded-md px-2.5 pointer-coarse:min-h-11 ${c === chosen ? "bg-tint" : "hover:bg-panel"}`}
            onClick={() => run(c)}
          >
            <span className="isolate-text min-w-0 flex-1 truncate">{c.name}</span>
            {c.about && <span className="isolate-text max-w-1/3 truncate text-sm text-muted">{c.about}</span>}
            {c.key && <kbd className="pointer-coarse:hidden">{c.key}</kbd>}
          </div>
        ))}
      </div>
      {shown.length === 0 && (
        <p className="px-2.5 py-2 text-muted" role="status">
          Nothing matches.
        </p>
      )}
    </Dialog>
  );
}

const domId = (c: Command) => `command-${c.id.replace(/\s/g, "-")}`;
