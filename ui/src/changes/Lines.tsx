import { useCallback, useState } from "react";
import { attempt } from "../model/store";
import { api } from "../wire/http";
import type { FileDiff, Side } from "../wire/types";
import { useLoaded } from "./loaded";
import { DiffBody, Pending, wholeFile } from "./parts";

/** The diff of one side of a file. */
export function Lines({
  session,
  path,
  side,
  version,
  onSeen,
}: {
  session: string;
  path: string;
  side: Side;
  version?: unknown;
  onSeen: (seen: string | undefined) => void;
}) {
  const load = useCallback(async () => {
    const d = await api.folderDiff(session, path, side);
    onSeen(d.seen);
    return d;
  }, [session, path, side, onSeen]);
  const diff = useLoaded(load, version);
  const [whole, setWhole] = useState<{ of: FileDiff; diff: FileDiff }>();
  const d = diff.value;
  if (!d || diff.error !== undefined)
    return (
      <div className="px-3">
        <Pending of={diff} />
      </div>
    );
  const shown = whole?.of === d ? whole.diff : d;
  const all = () =>
    void attempt(async () => setWhole({ of: d, diff: await api.folderDiff(session, path, side, wholeFile) }));
  return <DiffBody diff={shown} dir="" onWhole={shown === d ? all : undefined} />;
}
