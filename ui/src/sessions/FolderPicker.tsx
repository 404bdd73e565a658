import { ChevronRight, Folder as FolderIcon, FolderPlus, GitBranch, House } from "lucide-react";
import { type KeyboardEvent, useEffect, useId, useRef, useState } from "react";
import { Dialog } from "../app/Dialog";
import { folderName } from "../text/format";
import { plain } from "../text/visible";
import { withoutField } from "../wire/error";
import { api } from "../wire/http";
import type { Folder, Folders, Project } from "../wire/types";

const pause = 80; // ms without typing before folders are listed
const mostRecent = 8;

interface Row {
  path: string;
  name: string;
  about?: string;
  git: boolean;
  group: string;
  into?: string; // the text that lists what is in the folder
  refused?: string; // why no session can start there
}

const isPath = (text: string) => /^([~/\\]|[A-Za-z]:)/.test(text);
const ends = (text: string) => /[/\\]$/.test(text);

// Lists the folders of a path, and without one the repositories of this
// machine.
function useFolders(text: string) {
  const [state, setState] = useState<{ for: string; folders?: Folders; problem?: string }>();
  const wanted = isPath(text) ? text : "";
  useEffect(() => {
    let current = true;
    const list = async () => {
      const next = await api.folders(wanted).then(
        (folders) => ({ for: wanted, folders }),
        (e: Error) => ({ for: wanted, problem: e.message }),
      );
      if (current) setState(next);
    };
    const timer = setTimeout(() => void list(), wanted ? pause : 0);
    return () => {
      current = false;
      clearTimeout(timer);
    };
  }, [wanted]);
  return { ...state, current: state?.for === wanted };
}

function rowsOf(
  text: string,
  value: string,
  projects: readonly Project[],
  found: Folders | undefined,
): Row[] {
  if (isPath(text)) {
    const parent = found?.path.replace(/[/\\]$/, "") ?? "";
    const typed = ends(text) ? parent : "";
    return [
      ...(typed
        ? [
            {
              path: typed,
              name: folderName(typed),
              about: typed,
              git: false,
              group: "",
              refused: found?.refused,
            },
          ]
        : []),
      ...(found?.folders ?? []).map((f) => ({
        path: f.path,
        name: f.name,
        git: f.git,
        group: "",
        into: `${f.path}/`,
        refused: f.refused,
      })),
    ];
  }
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const matches = (path: string) => words.every((w) => path.toLowerCase().includes(w));
  const used = projects.map((p) => p.projectDir);
  const recent = (value === "" || used.includes(value) ? used : [value, ...used]).filter(matches);
  const git = new Set(found?.repositories.map((f) => f.path));
  const refused = new Map(
    [...(found?.repositories ?? []), ...(found?.folders ?? [])].map((f) => [f.path, f.refused]),
  );
  const row = (path: string, group: string): Row => ({
    path,
    name: folderName(path),
    about: path,
    git: git.has(path),
    group,
    into: `${path}/`,
    refused: refused.get(path),
  });
  return [
    ...recent.slice(0, words.length > 0 ? undefined : mostRecent).map((p) => row(p, "Recent")),
    ...[...git].filter((p) => matches(p) && !recent.includes(p)).map((p) => row(p, "Git repositories")),
    ...(found?.folders ?? [])
      .map((f) => f.path)
      .filter((p) => matches(p) && !recent.includes(p) && !git.has(p))
      .map((p) => row(p, "Home folder")),
  ];
}

/** A dialog for the choice of the folder in which a session works. */
export function FolderPicker({
  value,
  projects,
  onChoose,
  onClose,
}: {
  value: string;
  projects: readonly Project[];
  onChoose: (dir: string) => void;
  onClose: () => void;
}) {
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const { folders, problem, current } = useFolders(text);
  const rows = rowsOf(text, value, projects, current ? folders : undefined);
  const active = Math.min(at, rows.length - 1);
  const [making, setMaking] = useState(false);
  const id = useId();
  const list = useRef<HTMLDivElement>(null);

  useEffect(() => {
    list.current?.querySelector("[data-active]")?.scrollIntoView?.({ block: "nearest" });
  }, [active, rows.length]);

  const write = (next: string) => {
    setText(next);
    setAt(0);
    setMaking(false);
  };

  // A folder that the server refuses can still have one that it accepts.
  const choose = (row: Row) => {
    if (!row.refused) onChoose(row.path);
    else if (row.into) write(row.into);
  };

  const key = (e: KeyboardEvent) => {
    const row = rows[active];
    if (e.key === "ArrowDown" && rows.length > 0) setAt((active + 1) % rows.length);
    else if (e.key === "ArrowUp" && rows.length > 0) setAt((active - 1 + rows.length) % rows.length);
    else if (e.key === "Tab" && !e.shiftKey && text !== "" && row?.into) write(row.into);
    else if (e.key === "Enter" && row) choose(row);
    else if (e.key === "Enter" && isPath(text)) onChoose(text.replace(/(.)[/\\]$/, "$1"));
    else return;
    e.preventDefault();
  };

  const home = folders?.home;
  const parent = current && !problem ? (isPath(text) ? folders?.path : home) : undefined;
  const typed = isPath(text) && !ends(text) && rows.length === 0 ? (/[^/\\]*$/.exec(text)?.[0] ?? "") : "";
  let i = -1;
  return (
    <Dialog title="Folder" onClose={onClose} sheet>
      <div className="flex flex-col gap-2">
        <input
          type="text"
          role="combobox"
          aria-label="Folder"
          aria-expanded
          aria-controls={`${id}list`}
          aria-autocomplete="list"
          aria-activedescendant={rows.length > 0 ? `${id}${active}` : undefined}
          className="field font-mono text-sm"
          placeholder="Search, or type a path: ~/code"
          autoComplete="off"
          autoCapitalize="off"
          spellCheck={false}
          // On a phone, the keyboard would cover the list.
          data-focus={matchMedia("(pointer: coarse)").matches ? undefined : true}
          value={text}
          onChange={(e) => write(e.target.value)}
          onKeyDown={key}
        />
        <div
          ref={list}
          role="listbox"
          id={`${id}list`}
          aria-label="Folders"
          className="flex min-h-[min(18rem,40dvh)] flex-col"
        >
          {[...new Set(rows.map((r) => r.group))].map((group, g) => (
            // biome-ignore lint/a11y/useSemanticElements: a group of options, not of fields
            <div
              key={group}
              role="group"
              aria-labelledby={group && `${id}g${g}`}
              aria-label={group ? undefined : "Folders"}
            >
              {group && (
                <p
                  id={`${id}g${g}`}
                  role="presentation"
                  className="isolate-text truncate px-2 pt-2 pb-1 text-xs font-medium text-muted"
                >
                  {plain(group, 300)}
                </p>
              )}
              {rows
                .filter((r) => r.group === group)
                .map((r) => {
                  const mine = ++i;
                  return (
                    <FolderRow
                      key={r.path}
                      id={`${id}${mine}`}
                      row={r}
                      active={mine === active}
                      chosen={r.path === value}
                      onChoose={() => choose(r)}
                      onOpen={() => r.into && write(r.into)}
                    />
                  );
                })}
            </div>
          ))}
        </div>
        <p className="text-sm text-muted" role="status">
          {problem && current
            ? plain(withoutField(problem, "path"), 300)
            : rows.length === 0 && current
              ? text === ""
                ? "No folders are known yet. Type a path, browse, or create one:"
                : "No folder matches."
              : folders?.more && isPath(text)
                ? "There are more. Type on to find them."
                : ""}
        </p>
        {!isPath(text) && home && (
          <button type="button" className="quiet -mx-1 justify-start" onClick={() => write("~/")}>
            <House size={14} aria-hidden /> Browse the home folder
          </button>
        )}
        {parent &&
          (making ? (
            <NewFolder
              parent={parent}
              name={typed}
              onMade={(f) => (f.refused ? write(`${f.path}/`) : onChoose(f.path))}
              onCancel={() => setMaking(false)}
            />
          ) : (
            <button type="button" className="quiet -mx-1 justify-start" onClick={() => setMaking(true)}>
              <FolderPlus size={14} aria-hidden /> New folder{typed ? ` “${plain(typed, 60)}”` : ""}
            </button>
          ))}
      </div>
    </Dialog>
  );
}

/** The name of a new folder in parent. */
function NewFolder({
  parent,
  name,
  onMade,
  onCancel,
}: {
  parent: string;
  name: string;
  onMade: (folder: Folder) => void;
  onCancel: () => void;
}) {
  const [text, setText] = useState(name);
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<string>();
  const id = useId();
  const ready = !busy && text.trim() !== "";
  const make = async () => {
    setBusy(true);
    setProblem(undefined);
    try {
      onMade(await api.createFolder(parent, text.trim()));
    } catch (e) {
      const message = e instanceof Error ? e.message : String(e);
      setProblem(withoutField(withoutField(message, "name"), "path"));
    }
    setBusy(false);
  };
  return (
    <div className="flex flex-col gap-2 border-t pt-3">
      <label htmlFor={id} className="text-sm">
        New folder in <code className="isolate-text font-mono">{plain(parent, 300)}</code>
      </label>
      <input
        id={id}
        type="text"
        className="field"
        maxLength={255}
        autoComplete="off"
        autoCapitalize="off"
        spellCheck={false}
        aria-invalid={problem !== undefined}
        aria-describedby={problem ? `${id}problem` : undefined}
        value={text}
        // biome-ignore lint/a11y/noAutofocus: the user asked for this field
        autoFocus
        onChange={(e) => setText(e.target.value)}
        onKeyDown={(e) => {
          if (e.nativeEvent.isComposing) return;
          if (e.key === "Enter" && ready) void make();
          else if (e.key === "Escape") onCancel();
          else return;
          e.preventDefault();
        }}
      />
      {problem && (
        <p id={`${id}problem`} role="alert" className="isolate-text text-sm text-del">
          {plain(problem, 500)}
        </p>
      )}
      <div className="flex justify-end gap-2">
        <button type="button" className="button" onClick={onCancel}>
          Cancel
        </button>
        <button type="button" className="button primary" disabled={!ready} onClick={() => void make()}>
          {busy ? "Creating…" : "Create folder"}
        </button>
      </div>
    </div>
  );
}

function FolderRow({
  id,
  row,
  active,
  chosen,
  onChoose,
  onOpen,
}: {
  id: string;
  row: Row;
  active: boolean;
  chosen: boolean;
  onChoose: () => void;
  onOpen: () => void;
}) {
  const Icon = row.git ? GitBranch : FolderIcon;
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: the keys are those of the field
    <div
      id={id}
      role="option"
      tabIndex={-1}
      aria-selected={chosen}
      aria-disabled={row.refused !== undefined}
      data-active={active || undefined}
      className={`flex min-h-9 cursor-pointer items-center gap-2 rounded-md px-2 [@media(pointer:coarse)]:min-h-11 ${active ? "bg-tint" : "hover:bg-panel"}`}
      onClick={onChoose}
    >
      <Icon size={14} aria-hidden className={`shrink-0 ${chosen ? "text-accent" : "text-muted"}`} />
      <span className="isolate-text flex min-w-0 flex-1 items-baseline gap-2 py-1">
        <span className={`shrink-0 ${row.refused ? "text-muted" : ""}`}>{plain(row.name, 80)}</span>
        {row.refused ? (
          <span className="min-w-0 text-xs text-mark">{plain(row.refused, 300)}</span>
        ) : (
          row.about && (
            <span className="min-w-0 truncate font-mono text-xs text-muted" dir="ltr">
              {plain(row.about, 300)}
            </span>
          )
        )}
      </span>
      {row.into && (
        // Tab does the same.
        <span
          aria-hidden
          title="Show what is in it (Tab)"
          className="quiet -mr-1.5 shrink-0"
          onClick={(e) => {
            e.stopPropagation();
            onOpen();
          }}
        >
          <ChevronRight size={15} />
        </span>
      )}
    </div>
  );
}
