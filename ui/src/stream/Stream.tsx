import { ArrowDown } from "lucide-react";
import {
  type KeyboardEvent as ReactKeyboardEvent,
  type RefObject,
  useCallback,
  useEffect,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
} from "react";
import { Virtualizer, type VirtualizerHandle } from "virtua";
import { typing } from "../app/hooks";
import { type Row as RowData, Rows } from "../model/rows";
import { loadOlder, useStore } from "../model/store";
import { count, type Transcript } from "../model/transcript";
import { plain } from "../text/visible";
import { EndFollower, scrolls, scrollsUp } from "./end";
import { useItem } from "./item";
import { Row } from "./Row";

const tailKept = 40; // rows left outside the virtual list after it was extended
const tailLong = 120; // rows outside the virtual list that make it extend
const tailTooLong = 600; // the same while the user reads above the end
const ahead = 2; // older entries are loaded when fewer screens than this are above the visible part

/**
 * The turns of a session. Old rows are in a virtual list; the rows near the end
 * are not.
 */
export function Stream({
  transcript,
  dir,
  session,
  title,
  item,
}: {
  transcript: Transcript;
  dir: string;
  session: string;
  title: string; // the title, which is already shown above
  item?: string; // id of the item to show first
}) {
  const rows = useRows(transcript);
  const scroller = useRef<HTMLElement>(null);
  const column = useRef<HTMLDivElement>(null);
  const tail = useRef<HTMLDivElement>(null);
  const list = useRef<VirtualizerHandle>(null);
  const end = useRef(new EndFollower()).current;
  const looking = useRef(0);
  const [leftAt, setLeftAt] = useState<number>(); // value of the variable things when the user left the end
  const [heading, setHeading] = useState<Extract<RowData, { kind: "prompt" }>>();
  const { settled, shifted } = useSettled(rows.length, end.following, transcript.older);
  const things = useMemo(() => count(transcript) - transcript.older, [transcript]);
  const latest = useRef({ rows, settled, things });
  latest.current = { rows, settled, things };

  const follow = useCallback(() => {
    const el = scroller.current;
    if (!el) return;
    el.scrollTop = el.scrollHeight;
    end.moved(placeOf(el));
  }, [end]);
  const older = useCallback(() => {
    const el = scroller.current;
    if (el && el.scrollTop < ahead * el.clientHeight) void loadOlder(session);
  }, [session]);
  const toEnd = useCallback(() => {
    end.toEnd();
    setLeftAt(undefined);
    follow();
  }, [end, follow]);

  // Above the visible rows, show the prompt of the topmost turn once it has
  // scrolled away.
  const look = useCallback(() => {
    looking.current = 0;
    const el = scroller.current;
    if (!el) return;
    setHeading(headingAt(el.scrollTop, latest.current, list.current, tail.current));
  }, []);
  const onScroll = () => {
    const el = scroller.current;
    if (!el) return;
    const was = end.following;
    end.scrolled(placeOf(el), performance.now());
    if (end.following !== was) setLeftAt(end.following ? undefined : latest.current.things);
    older();
    // Once per frame, after the list has rendered: measuring earlier would
    // cause a second layout.
    looking.current ||= requestAnimationFrame(look);
  };
  useReader(scroller, end, follow);

  // The user wants to see the beginning, whose entries may not be loaded yet.
  const toBeginning = useRef(false);
  useEffect(() => {
    const stop = () => {
      toBeginning.current = false;
    };
    for (const input of ["wheel", "pointerdown", "keydown"]) window.addEventListener(input, stop, true);
    return () => {
      for (const input of ["wheel", "pointerdown", "keydown"]) window.removeEventListener(input, stop, true);
    };
  }, []);

  // The entries may not fill the screen, or the user may already be at the top.
  // This runs again whenever older entries were added.
  useEffect(() => {
    if (toBeginning.current) {
      list.current?.scrollToIndex(0, { align: "start" });
      void loadOlder(session, true);
    } else older();
  }, [older, session, transcript.first]);

  // After sending a prompt, scroll to the end, where the answer appears.
  const sent = useStore((s) => s.sent);
  const sentBefore = useRef(sent);
  useLayoutEffect(() => {
    if (sent !== sentBefore.current) toEnd();
    sentBefore.current = sent;
  }, [sent, toEnd]);

  useLayoutEffect(() => {
    follow();
    const c = column.current;
    if (!c || !scroller.current) return;
    const seen = new ResizeObserver(() => {
      if (end.pulls) follow();
    });
    seen.observe(c);
    seen.observe(scroller.current); // the composer grew, or a keyboard opened
    return () => seen.disconnect();
  }, [end, follow]);

  useEffect(() => {
    const key = (e: KeyboardEvent) => {
      if (e.key === "End" && (e.ctrlKey || e.metaKey)) toEnd();
    };
    window.addEventListener("keydown", key);
    return () => window.removeEventListener("keydown", key);
  }, [toEnd]);

  const scrollTo = (i: number, align: "start" | "center" = "start") => {
    if (i < 0) return;
    end.leave();
    setLeftAt(things);
    if (i < settled) list.current?.scrollToIndex(i, { align });
    else (tail.current?.children[i - settled] as HTMLElement | undefined)?.scrollIntoView({ block: align });
  };

  const marked = useItem(item, transcript, rows, session, (i) => scrollTo(i, "center"));

  // Jump at once. With smooth scrolling, the browser would scroll through all
  // rows in between; the list would measure them and then scroll back.
  const jump = (e: ReactKeyboardEvent) => {
    if (e.target !== e.currentTarget || e.ctrlKey || e.metaKey || e.altKey || e.shiftKey) return;
    if (e.key === "Home") {
      scrollTo(0);
      toBeginning.current = true;
      void loadOlder(session, true);
    } else if (e.key === "End") toEnd();
    else return;
    e.preventDefault();
  };

  const fresh = leftAt === undefined ? 0 : Math.max(0, things - leftAt);
  return (
    <div className="relative min-h-0 flex-1">
      <h2 className="sr-only">Conversation</h2>
      <section
        ref={scroller}
        onScroll={onScroll}
        onKeyDown={jump}
        tabIndex={0}
        className="h-full overflow-y-auto overscroll-contain pb-4"
        aria-label="Conversation"
      >
        <div ref={column}>
          <Virtualizer
            ref={list}
            scrollRef={scroller}
            data={rows.slice(0, settled)}
            bufferSize={600}
            shift={shifted}
          >
            {(row) => <Row key={row.key} row={row} dir={dir} session={session} marked={row.key === marked} />}
          </Virtualizer>
          <div ref={tail}>
            {rows.slice(settled).map((row) => (
              <Row key={row.key} row={row} dir={dir} session={session} marked={row.key === marked} />
            ))}
          </div>
        </div>
      </section>
      {heading && plain(heading.item.message.content) !== plain(title) && (
        <button
          type="button"
          onClick={() => scrollTo(rows.indexOf(heading))}
          title="Back to this prompt"
          className="absolute inset-x-0 top-0 border-b bg-bg text-left"
        >
          <span className="mx-auto block w-full max-w-[52rem] truncate px-4 py-1.5 text-sm font-semibold">
            {plain(heading.item.message.content, 300)}
          </span>
        </button>
      )}
      {leftAt !== undefined && (
        <button
          type="button"
          className="button absolute bottom-3 left-1/2 -translate-x-1/2 rounded-full shadow-md"
          onClick={toEnd}
        >
          <ArrowDown size={14} aria-hidden /> {fresh > 0 ? `${fresh} new` : "To the end"}
        </button>
      )}
    </div>
  );
}

const placeOf = (el: HTMLElement) => ({
  top: el.scrollTop,
  left: el.scrollHeight - el.scrollTop - el.clientHeight,
});

// useReader reports the user's input that can scroll to the EndFollower, and
// calls follow once an input that could have left the end has not.
function useReader(scroller: RefObject<HTMLElement | null>, end: EndFollower, follow: () => void) {
  useEffect(() => {
    const el = scroller.current;
    if (!el) return;
    const now = () => performance.now();
    let frame = 0;
    const shown = () => {
      const waited = !end.pulls;
      frame = end.shown() ? requestAnimationFrame(shown) : 0;
      if (waited && end.pulls) follow();
    };
    const input = (up: boolean) => {
      end.input(now(), up);
      frame ||= requestAnimationFrame(shown);
    };
    const wheel = (e: WheelEvent) => input(e.deltaY < 0);
    const down = () => end.hold(true, now());
    const up = () => {
      end.hold(false, now());
      frame ||= requestAnimationFrame(shown);
    };
    const key = (e: KeyboardEvent) => {
      if (scrolls(e.key) && !typing(e)) input(scrollsUp(e));
    };
    const moved = (e: PointerEvent) => {
      if (e.buttons === 0 && e.pointerType === "mouse") up(); // some browsers report no release of a scrollbar
    };
    const quiet = { passive: true } as const;
    el.addEventListener("wheel", wheel, quiet);
    el.addEventListener("pointerdown", down, quiet);
    el.addEventListener("touchstart", down, quiet);
    el.addEventListener("pointermove", moved, quiet);
    window.addEventListener("pointerup", up, quiet);
    window.addEventListener("touchend", up, quiet);
    window.addEventListener("touchcancel", up, quiet);
    window.addEventListener("keydown", key);
    return () => {
      cancelAnimationFrame(frame);
      el.removeEventListener("wheel", wheel);
      el.removeEventListener("pointerdown", down);
      el.removeEventListener("touchstart", down);
      el.removeEventListener("pointermove", moved);
      window.removeEventListener("pointerup", up);
      window.removeEventListener("touchend", up);
      window.removeEventListener("touchcancel", up);
      window.removeEventListener("keydown", key);
    };
  }, [scroller, end, follow]);
}

function useRows(t: Transcript): RowData[] {
  const maker = useRef<Rows>(undefined);
  maker.current ??= new Rows();
  // Only expanding a subagent changes which rows exist.
  const threads = useStore((s) => [...s.opened].filter((k) => !k.endsWith(":fold")).join("\n"));
  const opened = useMemo(() => new Set(threads.split("\n")), [threads]);
  return useMemo(() => (maker.current as Rows).of(t, opened), [t, opened]);
}

// useSettled returns the number of rows in the virtual list. It grows in steps,
// preferably while nobody reads above the end, so that no visible row moves.
// Older rows go to the start of the list; shifted reports that they just did,
// so that the list keeps the visible rows in place. `older` changes with them.
function useSettled(n: number, atEnd: boolean, older: number): { settled: number; shifted: boolean } {
  const last = useRef({ settled: Math.max(0, n - tailKept), n, older });
  const shifted = older !== last.current.older;
  let { settled } = last.current;
  if (shifted) settled = Math.max(0, settled + n - last.current.n);
  const tail = n - settled;
  if (tail < 0 || (tail > tailLong && atEnd) || tail > tailTooLong) settled = Math.max(0, n - tailKept);
  useLayoutEffect(() => {
    last.current = { settled, n, older };
  });
  return { settled, shifted };
}

function headingAt(
  top: number,
  { rows, settled }: { rows: RowData[]; settled: number },
  list: VirtualizerHandle | null,
  tail: HTMLDivElement | null,
): Extract<RowData, { kind: "prompt" }> | undefined {
  let at = 0;
  if (tail && top >= tail.offsetTop) {
    const kids = tail.children;
    at = settled;
    while (
      at + 1 < rows.length &&
      ((kids[at + 1 - settled] as HTMLElement | undefined)?.offsetTop ?? Number.MAX_VALUE) <= top
    )
      at++;
  } else if (list && settled > 0) at = list.findItemIndex(top);
  const row = rows[at];
  if (!row) return undefined;
  // The prompt is still visible, so no heading is needed.
  if (row.kind === "prompt") {
    const el = at >= settled ? (tail?.children[at - settled] as HTMLElement | undefined) : undefined;
    const bottom = el
      ? el.offsetTop + el.offsetHeight
      : list
        ? list.getItemOffset(at) + list.getItemSize(at)
        : 0;
    return bottom - top < 24 ? row : undefined;
  }
  for (let i = at; i >= 0; i--) {
    const r = rows[i] as RowData;
    if (r.turn !== row.turn) return undefined;
    if (r.kind === "prompt") return r;
  }
  return undefined;
}
