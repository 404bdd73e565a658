import { useEffect, useState } from "react";
import { cost, count, plural } from "../text/format";
import { api } from "../wire/http";
import type { SessionUsage } from "../wire/types";

/**
 * What the agent of a session reported about all of its turns. `ended` is the
 * number of ended turns; when it changes, the totals are read again.
 */
export function Totals({ session, ended }: { session: string; ended: number }) {
  const [u, setUsage] = useState<SessionUsage>();
  useEffect(() => {
    let over = false;
    api.usage(session).then(
      (found) => !over && setUsage(found),
      () => {}, // the panel has the same facts about the loaded turns
    );
    return () => {
      over = true;
    };
  }, [session, ended]);
  if (!u || u.turns === 0) return null;
  const priced = u.turns - u.unpricedTurns;
  return (
    <section aria-label="Session total">
      <h3 className="mb-1 text-sm font-semibold">Session total</h3>
      {priced > 0 && (
        <p className="text-sm">
          {cost(u.costUsd)}
          {u.unpricedTurns > 0 && ` (${plural(u.unpricedTurns, "turn")} without a cost)`}
        </p>
      )}
      <p className="text-sm text-muted">
        {count(u.inputTokens)} tokens in, {count(u.outputTokens)} out
      </p>
    </section>
  );
}
