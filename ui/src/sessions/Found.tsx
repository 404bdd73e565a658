import { useEffect, useRef, useState } from "react";
import { useNow } from "../app/hooks";
import { go, pathOf } from "../model/routes";
import { absolute, ago, folderName } from "../text/format";
import { plain } from "../text/visible";
import { api } from "../wire/http";
import type { SearchHit, SearchKind, SearchPage } from "../wire/types";

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

/** The items of all sessions that match what was typed into the search field. */
export function Found({ typed }: { typed: string }) {
  const query = queryOf(typed);
  const [kind, setKind] = useState<SearchKind | "">("");
  const [page, setPage] = useState<SearchPage & { problem?: string }>();
  const asked = useRef(0);
  const now = useNow(60_000);
  useEffect(() => {
    const mine = ++asked.current;
    let later: ReturnType<typeof setTimeout>;
    const ask = async () => {
      const found = await search(query, kind);
      if (asked.current !== mine) return; // the user has typed on
      setPage(found);
      if (found.indexing) later = setTimeout(ask, again);
    };
    later = setTimeout(ask, pause);
    return () => clearTimeout(later);
  }, [query, kind]);
  if (query.length < least || page?.disabled) return null;
  const more = async () => {
    const mine = asked.current;
    const next = await search(query, kind, page?.next);
    if (asked.current === mine) setPage((p) => ({ ...next, hits: [...(p?.hits ?? []), ...next.hits] }));
  };
  return (
    <section aria-label="Found in conversations" className="border-t pt-2">
      <div className="flex items-center gap-2 px-4 pb-1">
        <h2 className="mr-auto text-xs font-medium text-muted">In conversations</h2>
        <select
          className="field w-auto border-line py-0.5 text-xs"
          aria-label="Kind of item"
          value={kind}
          onChange={(e) => setKind(e.target.value as SearchKind | "")}
        >
          <option value="">Everything</option>
          <option value="prompt">Prompts</option>
          <option value="answer">Answers</option>
          <option value="command">Commands</option>
          <option value="diff">Changes</option>
        </select>
      </div>
      <p role="status" className="px-4 text-sm text-muted empty:hidden">
        {page?.problem ?? (page && page.hits.length === 0 ? "Nothing found." : "")}
        {page?.indexing ? " The server is still reading earlier sessions." : ""}
      </p>
      <ul>
        {page?.hits.map((h) => (
          <HitRow key={`${h.sessionId} ${h.itemId} ${h.kind}`} hit={h} time={ago(h.at, now)} />
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

async function search(
  query: string,
  kind: string,
  before?: string,
): Promise<SearchPage & { problem?: string }> {
  if (query.length < least) return { hits: [], indexing: false, disabled: false };
  try {
    return await api.search(query, kind, before);
  } catch (e) {
    const problem = e instanceof Error ? e.message : String(e);
    return { hits: [], indexing: false, disabled: false, problem };
  }
}

function HitRow({ hit, time }: { hit: SearchHit; time: string }) {
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
        className="grid grid-cols-[minmax(0,1fr)_auto] gap-x-2 py-2 pr-3 pl-4 hover:bg-raised"
      >
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
        <span className="col-span-2 truncate text-xs text-muted">
          {kinds[hit.kind]} · {plain(folderName(hit.projectDir))}
        </span>
      </a>
    </li>
  );
}

// spaced is plain, which removes the spaces at both ends.
const spaced = (text: string) =>
  `${text.startsWith(" ") ? " " : ""}${plain(text)}${text.length > 1 && text.endsWith(" ") ? " " : ""}`;
