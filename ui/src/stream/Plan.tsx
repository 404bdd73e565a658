import { Circle, CircleCheck, CircleDot } from "lucide-react";
import type { Transcript } from "../model/transcript";
import { Visible } from "../text/Shown";
import type { PlanEntry } from "../wire/types";

const marks = { completed: CircleCheck, in_progress: CircleDot };

/** The steps of a plan, each with its state. */
export function PlanList({ entries }: { entries: readonly PlanEntry[] }) {
  return (
    <ul className="flex flex-col gap-1">
      {entries.map((e, i) => {
        const Icon = marks[e.status as keyof typeof marks] ?? Circle;
        const look =
          e.status === "completed" ? "text-muted" : e.status === "in_progress" ? "font-medium" : "";
        return (
          <li key={i} className={`flex gap-2 ${look}`}>
            <Icon
              size={14}
              aria-label={e.status.replace("_", " ")}
              className={`mt-1 shrink-0 ${e.status === "in_progress" ? "text-accent" : "text-muted"}`}
            />
            <span className="isolate-text">
              <Visible text={e.content} />
            </span>
          </li>
        );
      })}
    </ul>
  );
}

export const progressOf = (entries: readonly PlanEntry[]) => ({
  done: entries.filter((e) => e.status === "completed").length,
  all: entries.length,
});

/** The newest plan of the main agent; undefined if it has none. */
export function planIn(t: Transcript): readonly PlanEntry[] | undefined {
  for (const turn of t.turns.toReversed()) {
    const plan = turn.items.findLast((it) => it.type === "plan" && !it.parentCallId);
    if (plan?.type === "plan") return plan.plan.entries.length > 0 ? plan.plan.entries : undefined;
  }
  return undefined;
}
