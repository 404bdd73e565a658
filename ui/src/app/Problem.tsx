import { X } from "lucide-react";
import { complain, useStore } from "../model/store";
import { plain } from "../text/visible";

/**
 * The error of the last action, or what it did. It takes no room: it lies on
 * what is above its place, so a view puts it above its composer and its answers.
 */
export function Problem() {
  const problem = useStore((s) => s.problem);
  if (!problem) return null;
  const { action } = problem;
  return (
    <div className="relative z-10 h-0">
      <div
        role={problem.good ? "status" : "alert"}
        className={`absolute inset-x-3 bottom-3 mx-auto flex max-w-lg items-start gap-2 rounded-md border bg-raised py-2 pr-1 pl-3 shadow-lg ${problem.good ? "" : "border-del"}`}
      >
        <p className="isolate-text min-w-0 flex-1 py-0.5">{plain(problem.text, 1000)}</p>
        {action && (
          <button
            type="button"
            className="button shrink-0"
            onClick={() => {
              complain(undefined);
              action.run();
            }}
          >
            {action.name}
          </button>
        )}
        <button type="button" className="quiet" onClick={() => complain(undefined)} aria-label="Dismiss">
          <X size={16} aria-hidden />
        </button>
      </div>
    </div>
  );
}
