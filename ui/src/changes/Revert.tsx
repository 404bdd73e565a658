import { useState } from "react";
import { Dialog } from "../app/Dialog";
import { Commenting } from "../stream/Comments";
import { plain } from "../text/visible";
import type { ChangedFile } from "../wire/types";
import { Lines } from "./Lines";

/** Asks whether to revert a file, and shows what would be lost. */
export function Revert({
  session,
  file: f,
  onClose,
  onRevert,
}: {
  session: string;
  file: ChangedFile;
  onClose: () => void;
  onRevert: (seen: string) => void;
}) {
  const [seen, setSeen] = useState<string>();
  const gone = f.untracked || f.staged === "create";
  const name = plain(f.path);
  return (
    <Dialog title={gone ? `Remove ${name}?` : `Revert ${name}?`} onClose={onClose} wide>
      <p>
        {gone
          ? "The last commit does not have this file, so reverting removes it."
          : "The file gets the content of the last commit. These changes are lost:"}
      </p>
      <div className="mt-3 overflow-hidden rounded-md border">
        <Commenting value={undefined}>
          {f.staged && <Lines session={session} path={f.path} side="staged" onSeen={setSeen} />}
          {f.staged && f.unstaged && <hr />}
          {f.unstaged && <Lines session={session} path={f.path} side="unstaged" onSeen={setSeen} />}
        </Commenting>
      </div>
      <div className="mt-4 flex justify-end gap-2">
        <button type="button" className="button" onClick={onClose}>
          Cancel
        </button>
        <button
          type="button"
          className="button danger"
          disabled={seen === undefined}
          onClick={() => seen !== undefined && onRevert(seen)}
        >
          {gone ? "Remove" : "Revert"}
        </button>
      </div>
    </Dialog>
  );
}
