import type { SessionStatus } from "../wire/types";

export type Mark = "waiting" | "working" | "failed" | "ended" | "idle";

export function markOf(s: SessionStatus): Mark {
  if (s.pendingApprovals.length > 0 || s.activity === "waiting") return "waiting";
  if (s.activity === "working") return "working";
  if (s.state === "dead") return "ended";
  if (s.lastTurn === "error") return "failed";
  return "idle";
}

export const markLabel: Record<Mark, string> = {
  waiting: "needs you",
  working: "working",
  failed: "failed",
  ended: "ended",
  idle: "idle",
};

/** The state of a session, shown by shape as well as by colour. */
export function StateMark({ mark }: { mark: Mark }) {
  return (
    <svg
      width="12"
      height="12"
      viewBox="0 0 12 12"
      role="img"
      aria-label={markLabel[mark]}
      className="shrink-0"
    >
      {shapes[mark]}
    </svg>
  );
}

const shapes = {
  waiting: <path d="M6 0.5 11.5 6 6 11.5 0.5 6Z" className="fill-accent" />,
  working: (
    <g className="origin-center spin">
      <circle cx="6" cy="6" r="4.5" fill="none" strokeWidth="1.5" className="stroke-muted opacity-40" />
      <path
        d="M6 1.5A4.5 4.5 0 0 1 10.5 6"
        fill="none"
        strokeWidth="1.8"
        strokeLinecap="round"
        className="stroke-accent"
      />
    </g>
  ),
  failed: (
    <path d="M2 2 10 10M10 2 2 10" fill="none" strokeWidth="2" strokeLinecap="round" className="stroke-del" />
  ),
  ended: <path d="M2 6H10" fill="none" strokeWidth="2" strokeLinecap="round" className="stroke-muted" />,
  idle: <circle cx="6" cy="6" r="3.5" fill="none" strokeWidth="1.5" className="stroke-muted" />,
};
