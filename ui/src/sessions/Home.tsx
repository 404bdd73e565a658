import { useMemo } from "react";
import { useNow } from "../app/hooks";
import { useStore } from "../model/store";
import { ago, plural } from "../text/format";
import type { SessionStatus } from "../wire/types";
import { news } from "./groups";
import { SessionRow } from "./List";

const most = 8; // sessions in a group

/** What waits, runs and has finished, above the composer of a new session. */
export function Overview() {
  const sessions = useStore((s) => s.sessions);
  const listed = useStore((s) => s.listed);
  const seen = useStore((s) => s.seen);
  const { needsYou, running, finished } = useMemo(() => news(sessions.values(), seen), [sessions, seen]);
  const nothing = needsYou.length + running.length + finished.length === 0;
  if (!listed) return null;
  if (nothing) return <p className="my-auto py-8 text-center text-muted">Nothing waits for you.</p>;
  return (
    <div className="flex flex-col gap-8 py-8">
      <Group title="Needs you" accent list={needsYou} />
      <Group title="Running" list={running} />
      <Group title="Finished since you looked" list={finished} />
    </div>
  );
}

function Group({ title, list, accent = false }: { title: string; list: SessionStatus[]; accent?: boolean }) {
  const now = useNow(30_000);
  if (list.length === 0) return null;
  return (
    <section aria-label={title}>
      <h2 className={`mb-1 pl-3 font-semibold ${accent ? "text-accent" : ""}`}>{title}</h2>
      <ul className="divide-y border-y">
        {list.slice(0, most).map((s) => (
          <SessionRow key={s.sessionId} s={s} current={false} folder time={ago(s.lastActiveAt, now)} />
        ))}
      </ul>
      {list.length > most && (
        <p className="mt-1 pl-3 text-sm text-muted">
          {plural(list.length - most, "more session")} in the list.
        </p>
      )}
    </section>
  );
}
