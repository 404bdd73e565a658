import { useEffect, useMemo, useState } from "react";
import { api } from "../wire/http";
import type { Change, FileDiff } from "../wire/types";
import { Diff, type Remarked } from "./Diff";

/**
 * The changes that an approval would allow, with their line numbers in the files
 * as they are now. Until the server has found them, and if it cannot, the
 * changes are as the agent reported them.
 */
export function Intended({
  session,
  approval,
  changes,
  dir,
}: {
  session: string;
  approval: string;
  changes: readonly Change[];
  dir: string;
}) {
  const [found, setFound] = useState<FileDiff[]>();
  useEffect(() => {
    let stale = false;
    api.intended(session, approval).then(
      (files) => !stale && setFound(files),
      () => {}, // answered meanwhile, perhaps; the agent's own changes stay
    );
    return () => {
      stale = true;
    };
  }, [session, approval]);
  const shown = useMemo(() => changes.map((c, i) => located(c, found?.[i])), [changes, found]);
  return <Diff changes={shown} dir={dir} />;
}

/** The change with its place in the file, if that shows all of it. */
export function located(c: Change, at: FileDiff | undefined): Remarked {
  if (!at || at.path !== c.path || at.movedTo !== c.movedTo) return c;
  const remark = remarkOf(at);
  if (remark) return { ...c, remark };
  return at.cut || at.hunks.length === 0 ? c : { ...c, kind: at.kind, hunks: at.hunks };
}

function remarkOf(at: FileDiff): string {
  switch (at.place) {
    case "several":
      return `The file has this text more than once: at lines ${at.lines?.join(", ") ?? ""}.`;
    case "missing":
      return "The file does not have this text now.";
    case "unknown":
      return at.problem ?? "";
  }
  return "";
}
