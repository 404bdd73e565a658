// Reads the events of a session as the server stores them, for builders.

import { parseJSON } from "./parse";
import { isObj, num, str } from "./values";

/** An event as it is in the log. */
export interface RawEvent {
  seq: number;
  type: string;
  at: string;
  json: string;
}

/**
 * Reads a stream of server-sent events until its end, and passes on the events
 * of each received piece.
 */
export async function readEvents(res: Response, take: (events: RawEvent[]) => void) {
  const reader = res.body?.pipeThrough(new TextDecoderStream()).getReader();
  if (!reader) return;
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n\n");
    rest = parts.pop() ?? "";
    const events = parts.map(parseEvent).filter((e) => e !== undefined);
    if (events.length > 0) take(events);
  }
}

// Frames without a position, such as the first one, are not events of the log.
function parseEvent(frame: string): RawEvent | undefined {
  const data = frame
    .split("\n")
    .filter((l) => l.startsWith("data: "))
    .map((l) => l.slice(6))
    .join("\n");
  if (!/^id: \d+$/m.test(frame) || data === "") return undefined;
  try {
    const v = parseJSON(data);
    return isObj(v) ? { seq: num(v.seq), type: str(v.type), at: str(v.timestamp), json: data } : undefined;
  } catch {
    return undefined;
  }
}
