import { memo, useEffect, useLayoutEffect, useMemo, useRef, useState } from "react";
import { useStore } from "../model/store";
import { absolute, plural } from "../text/format";
import { jsonText } from "../text/json";
import { Visible } from "../text/Shown";
import { plain } from "../text/visible";
import { type RawEvent, readEvents } from "../wire/events";
import { ApiError, api } from "../wire/http";
import { parseJSON } from "../wire/parse";
import type { SessionStatus } from "../wire/types";
import { CopyButton } from "./Copy";
import { Dialog } from "./Dialog";

const first = 300; // events before the end that are loaded first, and with each click
const most = 5000; // loaded events; the oldest ones are dropped
const drawn = 1000; // events on the page

/** The events of a session as the server stores them, live, for builders. */
export function Events({ s, onClose }: { s: SessionStatus; onClose: () => void }) {
  const [begin, setBegin] = useState(() => Math.max(0, s.lastSeq - first));
  const { events, problem } = useEvents(s.sessionId, begin);
  const [typed, setTyped] = useState("");
  const [deltas, setDeltas] = useState(false);
  const matching = useMemo(() => select(events, typed, deltas), [events, typed, deltas]);
  const shown = matching.slice(-drawn);
  const list = useRef<HTMLDivElement>(null);
  const atEnd = useRef(true);
  useLayoutEffect(() => {
    const box = list.current?.parentElement;
    if (box && atEnd.current && shown.length > 0) box.scrollTop = box.scrollHeight;
  }, [shown.length]);
  useEffect(() => {
    const box = list.current?.parentElement;
    if (!box) return;
    const look = () => {
      atEnd.current = box.scrollHeight - box.scrollTop - box.clientHeight < 24;
    };
    box.addEventListener("scroll", look, { passive: true });
    return () => box.removeEventListener("scroll", look);
  }, []);
  return (
    <Dialog
      title="Raw events"
      onClose={onClose}
      wide
      tools={
        <CopyButton text={() => matching.map((e) => e.json).join("\n")} label="Copy the events as JSONL" />
      }
    >
      <div ref={list}>
        <div className="sticky top-0 z-1 flex flex-wrap items-center gap-x-4 gap-y-1 border-b bg-bg px-4 py-2">
          <input
            type="search"
            className="field min-w-40 flex-1 narrow:basis-full"
            aria-label="Filter events"
            placeholder="Type or content, such as approval"
            value={typed}
            onChange={(e) => setTyped(e.target.value)}
          />
          <label className="flex min-h-8 items-center gap-2 text-sm">
            <input type="checkbox" checked={deltas} onChange={(e) => setDeltas(e.target.checked)} /> Deltas
          </label>
          <span className="text-sm text-muted" role="status">
            {plural(matching.length, "event")}
          </span>
        </div>
        {problem && (
          <p role="alert" className="border-b px-4 py-2">
            {plain(problem, 500)}
          </p>
        )}
        {begin > 0 && (
          <button
            type="button"
            className="quiet m-1"
            onClick={() => {
              atEnd.current = false;
              setBegin((b) => Math.max(0, b - first));
            }}
          >
            Earlier events
          </button>
        )}
        {matching.length > drawn && (
          <p className="px-4 py-2 text-sm text-muted">
            The list shows the newest {drawn.toLocaleString("en")} of them; copying takes all.
          </p>
        )}
        <ol className="pb-3">
          {shown.map((e) => (
            <EventRow key={e.seq} event={e} />
          ))}
        </ol>
      </div>
    </Dialog>
  );
}

function select(events: readonly RawEvent[], typed: string, deltas: boolean): RawEvent[] {
  const words = typed.toLowerCase().split(/\s+/).filter(Boolean);
  return events.filter((e) => {
    if (!deltas && e.type === "item_delta") return false;
    if (words.length === 0) return true;
    const text = e.json.toLowerCase();
    return words.every((w) => text.includes(w));
  });
}

const EventRow = memo(function EventRow({ event: e }: { event: RawEvent }) {
  const [open, setOpen] = useState(false);
  return (
    <li className="event-row border-b" data-event={e.type}>
      <details onToggle={(x) => setOpen(x.currentTarget.open)}>
        <summary className="flex min-h-8 cursor-pointer items-center gap-3 px-4 font-mono text-xs">
          <span className="w-12 shrink-0 text-right text-muted">{e.seq}</span>
          <span className="shrink-0">{plain(e.type, 60)}</span>
          <time className="ml-auto shrink-0 text-muted" dateTime={e.at} title={absolute(e.at)}>
            {e.at.slice(11, 23)}
          </time>
        </summary>
        {open && (
          <div className="flex items-start gap-2 bg-panel px-4 py-2">
            <pre className="mono-block min-w-0 flex-1 text-xs">
              <Visible text={jsonText(parseJSON(e.json))} />
            </pre>
            <CopyButton text={e.json} label={`Copy event ${e.seq}`} />
          </div>
        )}
      </details>
    </li>
  );
});

/**
 * The events of a session after a position, live. When the connection to the
 * server returns, they continue where they ended.
 */
function useEvents(id: string, begin: number): { events: readonly RawEvent[]; problem?: string } {
  const [events, setEvents] = useState<readonly RawEvent[]>([]);
  const [problem, setProblem] = useState<string>();
  const up = useStore((s) => s.link === "open");
  useEffect(() => {
    if (!up) return;
    const end = new AbortController();
    let found: RawEvent[] = [];
    let later = 0;
    // All events of a frame are added together.
    const show = () => {
      later = 0;
      const added = found;
      found = [];
      setEvents((old) => merge(old, added));
    };
    setProblem(undefined);
    api
      .events(id, begin, end.signal)
      .then((res) =>
        readEvents(res, (more) => {
          found.push(...more);
          later ||= requestAnimationFrame(show);
        }),
      )
      .catch((e) => {
        if (!end.signal.aborted) setProblem(e instanceof ApiError ? e.message : "The stream has ended.");
      });
    return () => {
      end.abort();
      cancelAnimationFrame(later);
    };
  }, [id, begin, up]);
  return { events, problem };
}

// merge adds events to others, in the order of their positions and each once.
function merge(old: readonly RawEvent[], added: readonly RawEvent[]): readonly RawEvent[] {
  const last = old.at(-1)?.seq ?? 0;
  if ((added[0]?.seq ?? 0) > last) return [...old, ...added].slice(-most);
  const all = new Map([...old, ...added].map((e) => [e.seq, e]));
  return [...all.values()].sort((a, b) => a.seq - b.seq).slice(-most);
}
