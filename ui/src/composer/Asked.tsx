import { Arguments } from "../stream/Arguments";
import { Diff } from "../stream/Diff";
import { Visible } from "../text/Shown";
import type { Approval } from "../wire/types";

/** What is asked, in exact words: the tool's arguments and changes, never a summary of them. */
export function Asked({ approval: a, dir }: { approval: Approval; dir: string }) {
  const changes = a.changes ?? [];
  return (
    <div className="flex flex-col gap-3">
      {a.kind !== "tool" && (
        <p className="isolate-text whitespace-pre-wrap">
          <Visible text={a.title} />
        </p>
      )}
      {changes.length > 0 && <Diff changes={changes} dir={dir} />}
      {changes.length > 0 && a.arguments !== undefined ? (
        <details>
          <summary className="quiet -ml-1.5">Exact arguments</summary>
          <div className="pt-1">
            <Arguments value={a.arguments} />
          </div>
        </details>
      ) : (
        <Arguments value={a.arguments} />
      )}
    </div>
  );
}
