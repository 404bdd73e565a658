// Shows the item for which the user came from a search.

import { useEffect, useRef, useState } from "react";
import type { Row } from "../model/rows";
import { loadOlder, toggle } from "../model/store";
import type { Transcript } from "../model/transcript";

/**
 * Scrolls to an item once, and returns the key of its row. It first loads older
 * entries until the item is there, and expands the row and the subagents that
 * contain it.
 */
export function useItem(
  item: string | undefined,
  transcript: Transcript,
  rows: readonly Row[],
  session: string,
  scrollTo: (row: number) => void,
): string | undefined {
  const [marked, setMarked] = useState<string>();
  const done = useRef<string>(undefined);
  const scroll = useRef(scrollTo);
  scroll.current = scrollTo;
  useEffect(() => {
    if (!item) setMarked(undefined);
    if (!item || done.current === item) return;
    const at = rowOf(rows, item);
    const row = rows[at];
    if (!row) {
      const parent = parentOf(transcript, item);
      if (parent) toggle(parent, true);
      else if (transcript.first !== undefined) void loadOlder(session, true);
      return;
    }
    done.current = item;
    if (row.kind === "fold" || row.kind === "tool") toggle(row.key, true);
    if (row.kind === "fold") toggle(item, true);
    setMarked(row.key);
    // The expanded row has its size in the next frame.
    requestAnimationFrame(() => scroll.current(at));
  }, [item, transcript, rows, session]);
  return marked;
}

/** The index of the row that shows an item, or -1. */
export function rowOf(rows: readonly Row[], item: string): number {
  return rows.findIndex(
    (r) => r.key === item || (r.kind === "fold" && r.items.some((it) => it.itemId === item)),
  );
}

// parentOf returns the key of the collapsed row that contains an item: that of
// the outermost call that started a subagent.
function parentOf(t: Transcript, item: string): string | undefined {
  for (const turn of t.turns) {
    const own = turn.items.find((it) => it.itemId === item);
    if (!own?.parentCallId) continue;
    // Expand from the item outwards; each call is in the same turn, or the
    // subagent has a row of its own in this turn.
    let caller = own.parentCallId;
    const seen = new Set<string>();
    for (;;) {
      const call = turn.items.find((it) => it.type === "tool_call" && it.tool_call.callId === caller);
      if (!call) return `${turn.id}:${caller}`;
      toggle(call.itemId, true);
      if (!call.parentCallId || seen.has(caller)) return call.itemId;
      seen.add(caller);
      caller = call.parentCallId;
    }
  }
  return undefined;
}
