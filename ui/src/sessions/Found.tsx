import { useEffect, useMemo, useRef, useState } from "react";
import { useNow } from "../app/hooks";
import { go, pathOf } from "../model/routes";
import { attempt, learn, useAgentName, useStore } from "../model/store";
import { absolute, ago, folderName } from "../text/format";
import { plain } from "../text/visible";
import { api } from "../wire/http";
import type { SearchFilter, SearchHit, SearchKind, SearchPage } from "../wire/types";

const pause = 250; // ms without input before the server is asked
const least = 2; // characters of a query
const again = 2000; // ms until the server is asked again while it adds earlier sessions

const kinds: Record<SearchKind, string> = {
  prompt: "Prompt",
  answer: "Answer",
  command: "Command",
  diff: "Changes",
};

/**
 * The text that the server searches for. The last word may be unfinished, so
 * all words that begin like it count.
 */
export function queryOf(typed: string): string {
  const text = typed.trim();
  const quotes = text.split('"').length - 1;
  return quotes % 2 === 0 && /[\p{L}\p{N}]{2}$/u.test(text) ? `${text}*` : text;
}

const everything: SearchFilter = { kind: "", cliType: "", projectDir: "", days: 0 };

let kept = everything; // a phone shows the list again after a session

const mostFolders = 100; // folders to choose from

/**
 * The items of all sessions, and of the conversations that agents have stored,
 * that match what was typed into the search field. `titled` reports that the
 * title of a session matches, too.
 */
export function Found({ typed, titled }: { typed: string; titled: boolean }) {
  const query = queryOf(typed);
  const [filter, setFilter] = useState(kept);
  const [page, setPage] = useState<SearchPage & { problem?: string }>();
  const [opening, setOpening] = useState(false);
  const asked = useRef(0);
  const now = useNow(60_000);
  useEffect(() => {
    kept = filter;
    const mine = ++asked.current;
    let later: ReturnType<typeof setTimeout>;
    const ask = async () => {
      const found = await search(query, filter);
      if (asked.current !== mine) return; // the user has typed on
      setPage(found);
      if (found.indexing) later = setTimeout(ask, again);
    };
    later = setTimeout(ask, pause);
    return () => clearTimeout(later);
  }, [query, filter]);
  if (query.length < least || page?.disabled)
    return titled ? null : (
      <p role="status" className="px-4 py-2 text-muted">
        No title matches “{plain(typed, 200)}”.
      </p>
    );
  const more = async () => {
    const mine = asked.current;
    const next = await search(query, filter, page?.next);
    if (asked.current === mine) setPage((p) => ({ ...next, hits: [...(p?.hits ?? []), ...next.hits] }));
  };
  const enter = async (hit: SearchHit) => {
    setOpening(true);
    await attempt(async () => {
      const id = await load(hit);
      const same = (h: SearchHit) => h.cliType === hit.cliType && h.agentSessionId === hit.agentSessionId;
      setPage((p) => p && { ...p, hits: p.hits.map((h) => (same(h) ? { ...h, sessionId: id } : h)) });
      go({ at: "session", id, item: hit.itemId });
    });
    setOpening(false);
  };
  return (
    <section aria-label="Found in conversations" className={titled ? "border-t pt-2" : "pt-1"}>
      <h2 className="px-4 text-xs font-medium text-muted">In conversations</h2>
      <Filters filter={filter} onFilter={setFilter} />
      <p role="status" className="px-4 text-sm text-muted empty:hidden">
        {page?.problem ??
          (page && page.hits.length === 0
            ? titled
              ? "Nothing found."
              : "No title and no text matches."
            : "")}
        {page?.indexing ? " The server is still reading earlier conversations." : ""}
      </p>
      <ul>
        {page?.hits.map((h) => (
          <HitRow
            key={`${h.sessionId ?? `${h.cliType}:${h.agentSessionId}`} ${h.itemId} ${h.kind}`}
            hit={h}
            busy={opening}
            time={ago(h.at, now)}
            onOpen={enter}
          />
        ))}
      </ul>
      {page?.next && (
        <button type="button" className="quiet mx-2 text-sm" onClick={() => void more()}>
          Show more
        </button>
      )}
    </section>
  );
}

/** Makes the conversation of a hit a session, and returns the session's id. */
async function load(hit: SearchHit): Promise<string> {
  const id = await api.open({ cliType: hit.cliType, agentSessionId: hit.agentSessionId ?? "" });
  learn(await api.status(id));
  return id;
}

/** What the search selects: kind, agent, folder and age of the items. */
function Filters({ filter, onFilter }: { filter: SearchFilter; onFilter: (f: SearchFilter) => void }) {
  const agents = useStore((s) => s.agents) ?? [];
  const sessions = useStore((s) => s.sessions);
  const folders = useMemo(() => foldersOf([...sessions.values()], filter.projectDir), [sessions, filter]);
  const names = agents.map((a): [string, string] => [a.cliType, plain(a.displayName)]);
  return (
    <div className="grid grid-cols-2 gap-1 px-3 py-1">
      <Choice
        label="Kind of item"
        value={filter.kind}
        all="Everything"
        choices={[
          ["prompt", "Prompts"],
          ["answer", "Answers"],
          ["command", "Commands"],
          ["diff", "Changes"],
        ]}
        onChoose={(kind) => onFilter({ ...filter, kind: kind as SearchKind | "" })}
      />
      <Choice
        label="Time"
        value={filter.days ? String(filter.days) : ""}
        all="Any time"
        choices={[
          ["1", "Last 24 hours"],
          ["7", "Last 7 days"],
          ["30", "Last 30 days"],
          ["365", "Last year"],
        ]}
        onChoose={(days) => onFilter({ ...filter, days: Number(days) })}
      />
      <Choice
        label="Agent"
        value={filter.cliType}
        all="All agents"
        choices={names}
        onChoose={(cliType) => onFilter({ ...filter, cliType })}
      />
      <Choice
        label="Folder"
        value={filter.projectDir}
        all="All folders"
        choices={folders.map((dir) => [dir, plain(folderName(dir))])}
        onChoose={(projectDir) => onFilter({ ...filter, projectDir })}
      />
    </div>
  );
}

/** The folders of sessions, the last used first, and the chosen one. */
export function foldersOf(
  sessions: { projectDir: string; lastActiveAt: string }[],
  chosen: string,
): string[] {
  const newest = [...sessions].sort((a, b) => b.lastActiveAt.localeCompare(a.lastActiveAt));
  const dirs = new Set([...(chosen ? [chosen] : []), ...newest.map((s) => s.projectDir)]);
  return [...dirs].slice(0, mostFolders);
}

function Choice({
  label,
  value,
  all,
  choices,
  onChoose,
}: {
  label: string;
  value: string;
  all: string;
  choices: [value: string, name: string][];
  onChoose: (value: string) => void;
}) {
  return (
    <select
      className={`field min-w-0 border-transparent px-1 py-0.5 text-xs pointer-coarse:min-h-11 ${value ? "text-text" : "text-muted"}`}
      aria-label={label}
      title={label}
      value={value}
      onChange={(e) => onChoose(e.target.value)}
    >
      <option value="">{all}</option>
      {choices.map(([v, name]) => (
        <option key={v} value={v} title={v}>
          {name}
        </option>
      ))}
    </select>
  );
}

async function search(
  query: string,
  filter: SearchFilter,
  before?: string,
): Promise<SearchPage & { problem?: string }> {
  if (query.length < least) return { hits: [], indexing: false, disabled: false };
  try {
    return await api.search(query, filter, before);
  } catch (e) {
    const problem = e instanceof Error ? e.message : String(e);
    return { hits: [], indexing: false, disabled: false, problem };
  }
}

function HitRow({
  hit,
  busy,
  time,
  onOpen,
}: {
  hit: SearchHit;
  busy: boolean;
  time: string;
  onOpen: (hit: SearchHit) => Promise<void>;
}) {
  const agent = useAgentName(hit.cliType);
  const about = [kinds[hit.kind], folderName(hit.projectDir), agent];
  const content = (
    <>
      <span className="truncate">{plain(hit.title) || "Session"}</span>
      <time className="text-xs text-muted" dateTime={hit.at} title={absolute(hit.at)}>
        {time}
      </time>
      <span className="col-span-2 line-clamp-3 text-sm break-words text-muted">
        {hit.snippet.map((p, i) =>
          p.match ? (
            <mark key={i} className="rounded-sm bg-mark-bg text-mark">
              {plain(p.text)}
            </mark>
          ) : (
            spaced(p.text)
          ),
        )}
      </span>
      <span className="col-span-2 truncate text-xs text-muted" title={plain(hit.projectDir)}>
        {about
          .map((a) => plain(a))
          .filter(Boolean)
          .join(" · ")}
      </span>
    </>
  );
  const look = "grid w-full grid-cols-[minmax(0,1fr)_auto] gap-x-2 py-2 pr-3 pl-4 text-left hover:bg-raised";
  if (!hit.sessionId)
    return (
      <li>
        <button
          type="button"
          className={look}
          disabled={busy}
          data-hit={hit.itemId}
          title="Opens a conversation that began outside of Runnel"
          onClick={() => void onOpen(hit)}
        >
          {content}
        </button>
      </li>
    );
  const to = { at: "session", id: hit.sessionId, item: hit.itemId } as const;
  return (
    <li>
      <a
        href={pathOf(to)}
        data-hit={hit.itemId}
        onClick={(e) => {
          if (e.metaKey || e.ctrlKey || e.shiftKey) return;
          e.preventDefault();
          go(to);
        }}
        className={look}
      >
        {content}
      </a>
    </li>
  );
}

// spaced is plain, which removes the spaces at both ends.
const spaced = (text: string) =>
  `${text.startsWith(" ") ? " " : ""}${plain(text)}${text.length > 1 && text.endsWith(" ") ? " " : ""}`;
