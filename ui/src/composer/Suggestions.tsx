import { File, Folder } from "lucide-react";
import { useEffect, useRef, useState } from "react";
import { marked, matching, type Token } from "../model/mention";
import { plain } from "../text/visible";
import type { AgentCommand, Completion } from "../wire/types";

/** What can be named in a prompt. */
export interface Sources {
  /** Changes with the project, so that files of another one are not offered. */
  project: string;
  files: (query: string) => Promise<Completion>;
  commands: readonly AgentCommand[];
}

/** Something that can replace the token at the caret. */
export type Suggestion =
  | { kind: "file"; path: string; folder: boolean; positions: number[] }
  | { kind: "command"; command: AgentCommand };

export interface Found {
  list: Suggestion[];
  searching: boolean; // the list is not complete yet
}

const pause = 60; // ms without typing before files are searched
const again = 250; // ms before a search that the server has not completed is continued
const mostAgain = 20;

/** Searches what matches a token. The old result stays until there is a new one. */
export function useSuggestions(token: Token | undefined, sources: Sources): Found {
  const [found, setFound] = useState<{ files: Suggestion[]; searching: boolean; project: string }>();
  const now = useRef(sources);
  now.current = sources;
  const query = token?.kind === "file" ? token.query : undefined;
  const { project } = sources;

  useEffect(() => {
    if (query === undefined) return setFound(undefined);
    let current = true;
    let timer: ReturnType<typeof setTimeout>;
    const search = async (left: number) => {
      const c = await now.current.files(query).catch(() => ({ files: [], partial: false }));
      if (!current) return;
      setFound({
        project,
        searching: c.partial && left > 0,
        files: c.files.map((f) => ({
          kind: "file",
          path: f.path,
          folder: f.kind === "folder",
          positions: f.positions,
        })),
      });
      if (c.partial && left > 0) timer = setTimeout(() => void search(left - 1), again);
    };
    timer = setTimeout(() => void search(mostAgain), pause);
    return () => {
      current = false;
      clearTimeout(timer);
    };
  }, [query, project]);

  if (!token) return { list: [], searching: false };
  if (token.kind === "command")
    return {
      list: matching(sources.commands, token.query).map((command) => ({ kind: "command", command })),
      searching: false,
    };
  if (found?.project !== project) return { list: [], searching: true };
  return { list: found.files, searching: found.searching };
}

/** The list above the field. The keys are those of the field. */
export function Suggestions({
  id,
  kind,
  found,
  active,
  onPick,
}: {
  id: string;
  kind: Token["kind"];
  found: Found;
  active: number;
  onPick: (s: Suggestion) => void;
}) {
  const list = useRef<HTMLDivElement>(null);
  useEffect(() => {
    list.current?.querySelector("[aria-selected=true]")?.scrollIntoView?.({ block: "nearest" });
  }, [active, found]);
  const label = kind === "file" ? "Files" : "Commands";
  return (
    <div className="absolute inset-x-0 bottom-full z-10 mb-1 overflow-hidden rounded-lg border bg-raised shadow-lg">
      <div
        ref={list}
        role="listbox"
        id={id}
        aria-label={label}
        className="max-h-[min(20rem,40dvh)] overflow-y-auto p-1"
      >
        {found.list.map((s, i) => (
          // biome-ignore lint/a11y/useKeyWithClickEvents: the keys are those of the field
          <div
            key={s.kind === "file" ? s.path : s.command.name}
            id={`${id}${i}`}
            role="option"
            tabIndex={-1}
            aria-selected={i === active}
            className={`flex min-h-8 cursor-pointer items-center gap-2 rounded-md px-2 py-0.5 [@media(pointer:coarse)]:min-h-11 ${i === active ? "bg-tint" : "hover:bg-panel"}`}
            onPointerDown={(e) => e.preventDefault()} // the field keeps the focus
            onClick={() => onPick(s)}
          >
            {s.kind === "file" ? <FileName s={s} /> : <CommandName c={s.command} />}
          </div>
        ))}
      </div>
      <p
        role="status"
        className={found.list.length === 0 || found.searching ? "px-3 py-1.5 text-sm text-muted" : "sr-only"}
      >
        {found.searching
          ? "Searching…"
          : found.list.length === 0
            ? kind === "file"
              ? "No file matches."
              : "No command matches."
            : `${found.list.length} ${label.toLowerCase()}`}
      </p>
    </div>
  );
}

function FileName({ s }: { s: Suggestion & { kind: "file" } }) {
  const cut = Math.max(0, s.path.lastIndexOf("/") + 1);
  const before = Array.from(s.path.slice(0, cut)).length;
  const Icon = s.folder ? Folder : File;
  return (
    <>
      <Icon size={14} aria-hidden className="shrink-0 text-muted" />
      <span className="isolate-text flex min-w-0 items-baseline gap-2 font-mono text-sm">
        <span className="shrink-0">
          <Marked text={s.path.slice(cut)} positions={s.positions.map((n) => n - before)} />
          {s.folder && "/"}
        </span>
        {cut > 0 && (
          <span className="min-w-0 truncate text-muted">
            <Marked text={s.path.slice(0, cut - 1)} positions={s.positions} />
          </span>
        )}
      </span>
    </>
  );
}

const Marked = ({ text, positions }: { text: string; positions: readonly number[] }) =>
  marked(text, positions).map((p, i) =>
    p.match ? (
      <b key={i} className="font-semibold text-accent">
        {plain(p.text)}
      </b>
    ) : (
      <span key={i}>{plain(p.text)}</span>
    ),
  );

const CommandName = ({ c }: { c: AgentCommand }) => (
  <span className="isolate-text flex min-w-0 flex-wrap items-baseline gap-x-2">
    <span className="font-mono text-sm">
      /{plain(c.name, 100)} {c.hint && <span className="text-muted">{plain(c.hint, 60)}</span>}
    </span>
    {c.description && <span className="min-w-0 text-sm text-muted">{plain(c.description, 200)}</span>}
  </span>
);
