import { useCallback, useState } from "react";
import { attempt } from "../model/store";
import { CommentHint } from "../stream/Diff";
import { plural, shortPath } from "../text/format";
import { plain } from "../text/visible";
import { api } from "../wire/http";
import type { FileDiff } from "../wire/types";
import { useLoaded } from "./loaded";
import { DiffBody, File, Pending, wholeFile } from "./parts";

const few = 3; // files; so many are open at first

/**
 * What the agent changed, with one diff for each file: in a turn, or in the
 * whole session.
 */
export function Net({
  session,
  turn,
  dir,
  version,
}: {
  session: string;
  turn?: string;
  dir: string;
  version?: unknown; // changes when the agent may have changed more
}) {
  const load = useCallback(() => api.changes(session, { turn }), [session, turn]);
  const net = useLoaded(load, version);
  if (!net.value || net.error !== undefined) return <Pending of={net} />;
  const { files, more } = net.value;
  if (files.length === 0)
    return (
      <p className="text-muted">
        {turn ? "In the end, the files are as they were." : "The agent has reported no changes to files."}{" "}
        Changes by commands are in Git.
      </p>
    );
  return (
    <div className="flex flex-col gap-3">
      <CommentHint />
      {files.map((f) => (
        <NetFile key={f.path} file={f} session={session} turn={turn} dir={dir} first={files.length <= few} />
      ))}
      {more > 0 && (
        <p className="text-sm text-muted">{plural(more, "change")} in further files are left out.</p>
      )}
    </div>
  );
}

function NetFile({
  file,
  session,
  turn,
  dir,
  first,
}: {
  file: FileDiff;
  session: string;
  turn?: string;
  dir: string;
  first: boolean;
}) {
  const [open, setOpen] = useState(first);
  const [more, setMore] = useState<{ of: FileDiff; diff: FileDiff }>();
  const read = (context?: number) =>
    attempt(async () => {
      const { files } = await api.changes(session, { turn, path: file.path, context });
      if (files[0]) setMore({ of: file, diff: files[0] });
    });
  const diff = more?.of === file ? more.diff : file; // a newer diff replaces what was loaded for the last one
  return (
    <File
      file={file}
      name={plain(shortPath(file.movedTo ?? file.path, dir))}
      count={file}
      dir={dir}
      open={open}
      onToggle={() => setOpen((o) => !o)}
    >
      {diff.omitted ? (
        <button type="button" className="quiet m-1" onClick={() => void read()}>
          Show this long diff
        </button>
      ) : (
        <DiffBody diff={diff} dir={dir} onWhole={diff === file ? () => void read(wholeFile) : undefined} />
      )}
    </File>
  );
}
