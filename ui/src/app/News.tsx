import { useEffect, useRef, useState } from "react";
import { reached } from "../model/rows";
import type { Transcript } from "../model/transcript";
import { plain } from "../text/visible";
import { faultLabel } from "../text/words";
import type { Approval, ApprovalEvent, SessionStatus } from "../wire/types";

const batch = 1000; // ms; a state is announced once it has lasted this long

// What an approval is about, in a few words.
function subject(a: Approval): string {
  const reach = reached(a);
  return reach ? `Reach ${reach}` : (a.toolName ?? a.title).slice(0, 80);
}

/** Announces changes to screen readers, politely and not too often. */
export function News({
  s,
  transcript,
  waiting,
}: {
  s?: SessionStatus;
  transcript: Transcript;
  waiting: ApprovalEvent[];
}) {
  const [said, setSaid] = useState("");
  const ended = transcript.turns.at(-1)?.ended;
  const asks = waiting[0]?.approval;
  const news = asks
    ? asks.kind === "question" || asks.kind === "form"
      ? `The agent asks: ${plain(asks.title, 200)}`
      : `Approval needed: ${plain(subject(asks), 300)}`
    : s?.activity === "working"
      ? "The agent is working"
      : ended
        ? ended.type === "turn_error"
          ? faultLabel(ended.errorCode)
          : ended.status === "cancelled"
            ? "The turn was stopped"
            : "The turn is finished"
        : "";
  const first = useRef(true);
  useEffect(() => {
    if (first.current) {
      first.current = false; // the initial state is not announced
      return;
    }
    const later = setTimeout(() => setSaid(news), batch);
    return () => clearTimeout(later);
  }, [news]);
  return (
    <div className="sr-only" aria-live="polite">
      {said}
    </div>
  );
}
