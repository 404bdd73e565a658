import { ChevronRight, Folder as FolderIcon, GitBranch, House } from "lucide-react";
import { type KeyboardEvent, useEffect, useId, useRef, useState } from "react";
import { Dialog } from "../app/Dialog";
import { folderName } from "../text/format";
import { plain } from "../text/visible";
import { api } from "../wire/http";
import type { Folders, Project } from "../wire/types";

const pause = 80; // ms without typing before folders are listed
const mostRecent = 8;

interface Row {
  path: string;
  name: string;
  about?: string;
  git: boolean;
  group: string;
  into?: string; // the text that lists what is in the folder
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
      ...(typed ? [{ path: typed, name: folderName(typed), about: typed, git: false, group: "" }] : []),
      ...(found?.folders ?? []).map((f) => ({
        path: f.path,
        name: f.name,
        git: f.git,
        group: "",
        into: `${f.path}/`,
      })),
    ];
  }
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const matches = (path: string) => words.every((w) => path.toLowerCase().includes(w));
  const used = projects.map((p) => p.projectDir);
  const recent = (value === "" || used.includes(value) ? used : [value, ...used]).filter(matches);
  const git = new Set(found?.repositories.map((f) => f.path));
  const row = (path: string, group: string): Row => ({
    path,
    name: folderName(path),
    about: path,
    git: git.has(path),
    group,
    into: `${path}/`,
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
  const id = useId();
  const list = useRef<HTMLDivElement>(null);

  useEffect(() => {
    list.current?.querySelector("[data-active]")?.scrollIntoView?.({ block: "nearest" });
  }, [active, rows.length]);

  const write = (next: string) => {
    setText(next);
    setAt(0);
  };

  const key = (e: KeyboardEvent) => {
    const row = rows[active];
    if (e.key === "ArrowDown" && rows.length > 0) setAt((active + 1) % rows.length);
    else if (e.key === "ArrowUp" && rows.length > 0) setAt((active - 1 + rows.length) % rows.length);
    else if (e.key === "Tab" && !e.shiftKey && text !== "" && row?.into) write(row.into);
    else if (e.key === "Enter" && row) onChoose(row.path);
    else if (e.key === "Enter" && isPath(text)) onChoose(text.replace(/(.)[/\\]$/, "$1"));
    else return;
    e.preventDefault();
  };

  const home = folders?.home;
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
                      onChoose={() => onChoose(r.path)}
                      onOpen={() => r.into && write(r.into)}
                    />
                  );
                })}
            </div>
          ))}
        </div>
        <p className="text-sm text-muted" role="status">
          {problem && current
            ? plain(problem.replace(/^path: /, ""), 300)
            : rows.length === 0 && current
              ? text === ""
                ? "No folders are known yet. Type a path, or browse:"
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
      </div>
    </Dialog>
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
      data-active={active || undefined}
      className={`flex min-h-9 cursor-pointer items-center gap-2 rounded-md px-2 [@media(pointer:coarse)]:min-h-11 ${active ? "bg-tint" : "hover:bg-panel"}`}
      onClick={onChoose}
    >
      <Icon size={14} aria-hidden className={`shrink-0 ${chosen ? "text-accent" : "text-muted"}`} />
      <span className="isolate-text flex min-w-0 flex-1 items-baseline gap-2 py-1">
        <span className="shrink-0">{plain(row.name, 80)}</span>
        {row.about && (
          <span className="min-w-0 truncate font-mono text-xs text-muted" dir="ltr">
            {plain(row.about, 300)}
          </span>
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
