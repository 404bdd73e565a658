import { ChevronRight } from "lucide-react";
import { useEffect, useState } from "react";
import type { Turn } from "../model/transcript";
import { cost, count, plural } from "../text/format";
import { plain } from "../text/visible";
import { api } from "../wire/http";
import type { SessionUsage, Usage } from "../wire/types";

/**
 * What the agent of a session reported about all of its turns, and about each
 * loaded one. When the number of ended turns changes, the totals are read again.
 */
export function Totals({ session, turns = none }: { session: string; turns?: readonly Turn[] }) {
  const [u, setUsage] = useState<SessionUsage>();
  const ended = turns.filter((t) => t.ended).length;
  useEffect(() => {
    let over = false;
    api.usage(session).then(
      (found) => !over && setUsage(found),
      () => {}, // the table has the facts about the loaded turns
    );
    return () => {
      over = true;
    };
  }, [session, ended]);
  const spent = turns.filter((t) => t.usage || t.costUsd !== undefined);
  const total = u && u.turns > 0 ? u : undefined;
  if (!total && spent.length === 0) return null;
  const priced = total ? total.turns - total.unpricedTurns : 0;
  return (
    <section aria-label="Session total">
      <h3 className="mb-1 text-sm font-semibold">Tokens and cost</h3>
      {total && priced > 0 && (
        <p className="text-sm">
          {cost(total.costUsd)} in {plural(total.turns, "turn")}
          {total.unpricedTurns > 0 && ` (${plural(total.unpricedTurns, "turn")} without a cost)`}
        </p>
      )}
      {total && <Split usage={total.usage} />}
      {spent.length > 0 && <Turns turns={spent} />}
    </section>
  );
}

const none: readonly Turn[] = [];

/** Tokens by what they cost: new input, input of the cache, output. */
function Split({ usage: u }: { usage: Usage }) {
  const rows: [string, number | undefined][] = [
    ["New input", u.inputTokens],
    ["Read from the cache", u.cacheReadInputTokens],
    ["Written to the cache", u.cacheCreationInputTokens],
    ["Output", u.outputTokens],
    ["of it for reasoning", u.reasoningTokens],
  ];
  return (
    <dl className="mt-1 text-sm">
      {rows
        .filter(([, n], i) => n !== undefined && (n > 0 || i === 0))
        .map(([name, n = 0]) => (
          <div key={name} className={`flex text-muted ${name.startsWith("of it") ? "pl-3" : ""}`}>
            <dt>{name}</dt>
            <dd className="ml-auto" title={n.toLocaleString("en")}>
              {count(n)}
            </dd>
          </div>
        ))}
    </dl>
  );
}

const most = 50; // turns in the table

/** The tokens and the cost of each turn, the newest first. */
function Turns({ turns }: { turns: readonly Turn[] }) {
  const shown = turns.slice(-most).toReversed();
  const priced = shown.some((t) => t.costUsd);
  return (
    <details className="mt-2 text-sm">
      <summary className="quiet -ml-1.5 cursor-pointer">
        <ChevronRight size={14} aria-hidden className="turns" /> By turn
      </summary>
      <table className="w-full border-collapse text-xs">
        <thead>
          <tr className="border-b text-muted">
            <th scope="col" className="py-1 text-left font-normal">
              Turn
            </th>
            {["New", "Cached", "Out", ...(priced ? ["Cost"] : [])].map((h) => (
              <th key={h} scope="col" className="py-1 pl-2 text-right font-normal">
                {h}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {shown.map((t) => (
            <tr key={t.id} className="border-b">
              <th scope="row" className="max-w-28 truncate py-1 text-left font-normal" title={promptOf(t)}>
                {promptOf(t)}
              </th>
              {[t.usage?.inputTokens, cached(t.usage), t.usage?.outputTokens].map((n, i) => (
                <td key={i} className="py-1 pl-2 text-right">
                  {n === undefined ? "–" : count(n)}
                </td>
              ))}
              {priced && (
                <td className="py-1 pl-2 text-right">{t.costUsd === undefined ? "–" : cost(t.costUsd)}</td>
              )}
            </tr>
          ))}
        </tbody>
      </table>
    </details>
  );
}

const cached = (u: Usage | undefined) =>
  u && (u.cacheReadInputTokens ?? 0) + (u.cacheCreationInputTokens ?? 0);

function promptOf(t: Turn): string {
  const prompt = t.items.find((it) => it.type === "message" && it.message.origin === "user");
  return (prompt?.type === "message" && plain(prompt.message.content, 80)) || "Turn";
}
