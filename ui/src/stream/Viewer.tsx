import { WrapText } from "lucide-react";
import { useEffect, useLayoutEffect, useRef, useState } from "react";
import { CopyButton } from "../app/Copy";
import { Dialog } from "../app/Dialog";
import type { Viewed } from "../model/viewer";
import { bytes, plural } from "../text/format";
import { languageOfFile } from "../text/language";
import { ProjectImage, reason } from "../text/ProjectImage";
import { Visible } from "../text/Shown";
import { plain } from "../text/visible";
import { ApiError, api } from "../wire/http";
import type { ProjectFile } from "../wire/types";
import { Spans, useTextColours } from "./colours";

const around = 400; // lines above and below the marked one that are loaded first
const more = 1000; // lines that a click adds
const most = 5000; // lines in one response of the server

/** A file of the session's folder, at a line. */
export function Viewer({ file, onClose }: { file: Viewed; onClose: () => void }) {
  const { session, path, line } = file;
  const [range, setRange] = useState(() => ({
    from: Math.max(1, (line ?? 1) - around),
    to: (line ?? 1) + around,
  }));
  const [got, setGot] = useState<ProjectFile>();
  const [problem, setProblem] = useState<string>();
  const [wrapped, setWrapped] = useState(false);
  useEffect(() => {
    let over = false;
    setProblem(undefined);
    const read = (at: string) => api.file(session, at, range.from, range.to);
    read(path)
      .catch(async (e) => read(await elsewhere(session, path, e)))
      .then(
        (f) => !over && setGot(f),
        (e) => !over && setProblem(reason(e)),
      );
    return () => {
      over = true;
    };
  }, [session, path, range]);
  const whole = got?.from === 1 && got.to === got.lines && !got.cut;
  const text = got?.content === "text" ? got.text : "";
  const tools = (
    <>
      <button
        type="button"
        className="quiet shrink-0"
        aria-label="Wrap lines"
        aria-pressed={wrapped}
        title="Wrap lines"
        onClick={() => setWrapped(!wrapped)}
      >
        <WrapText size={16} aria-hidden />
      </button>
      <CopyButton text={text} label={whole ? "Copy the file" : "Copy the loaded lines"} />
    </>
  );
  return (
    <Dialog
      title={plain(line ? `${got?.path || path}:${line}` : got?.path || path, 400)}
      onClose={onClose}
      wide
      tools={tools}
    >
      {problem && (
        <p role="alert" className="px-4 py-3">
          {problem}
        </p>
      )}
      {!got && !problem && <p className="shape m-4 h-40" role="status" aria-label="Loading" />}
      {got && !problem && (
        <Content
          file={got}
          session={session}
          line={line}
          wrapped={wrapped}
          onRange={(from, to) => setRange({ from, to })}
        />
      )}
    </Dialog>
  );
}

/**
 * The path of the only file with a name. Agents and compilers often name a file
 * without its folder. Fails with the error of the first attempt if there is no
 * such file, or several.
 */
async function elsewhere(session: string, name: string, e: unknown): Promise<string> {
  if (!(e instanceof ApiError) || e.status !== 404) throw e;
  const { files } = await api.files(session, name);
  const same = files.filter((f) => f.kind === "file" && f.path.endsWith(`/${name}`));
  if (same.length !== 1 || !same[0]) throw e;
  return same[0].path;
}

function Content({
  file,
  session,
  line,
  wrapped,
  onRange,
}: {
  file: ProjectFile;
  session: string;
  line?: number;
  wrapped: boolean;
  onRange: (from: number, to: number) => void;
}) {
  if (file.content === "image")
    return (
      <p className="p-4">
        <ProjectImage session={session} path={file.path} alt={file.path} large />
      </p>
    );
  if (file.content === "binary")
    return <p className="px-4 py-3">The file has {bytes(file.size)} of binary data, which is not shown.</p>;
  if (file.lines === 0) return <p className="px-4 py-3 text-muted">The file is empty.</p>;
  const above = file.from > 1 || file.from === 0;
  const { from, to, lines } = file;
  return (
    <>
      {line !== undefined && line > lines && (
        <p role="status" className="border-b px-4 py-2 text-sm text-mark">
          The file has only {plural(lines, "line")}; it may have changed.
        </p>
      )}
      {above && (
        <More
          to={from === 0 ? lines : from - 1}
          from={Math.max(1, (from === 0 ? lines + 1 : from) - more)}
          onClick={(first) => onRange(first, from === 0 ? lines : Math.min(to, first + most - 1))}
        />
      )}
      {from > 0 && <Lines file={file} line={line} wrapped={wrapped} />}
      {to > 0 && to < lines && (
        <More
          from={to + 1}
          to={Math.min(lines, to + more)}
          onClick={(_, last) => onRange(Math.max(from, last - most + 1), last)}
        />
      )}
    </>
  );
}

function More({
  from,
  to,
  onClick,
}: {
  from: number;
  to: number;
  onClick: (from: number, to: number) => void;
}) {
  return (
    <button type="button" className="quiet m-1" onClick={() => onClick(from, to)}>
      Show lines {from}–{to}
    </button>
  );
}

function Lines({ file, line, wrapped }: { file: ProjectFile; line?: number; wrapped: boolean }) {
  const marked = useRef<HTMLDivElement>(null);
  const text = file.text.replaceAll("\r\n", "\n").replace(/\n$/, "");
  const colours = useTextColours(text, languageOfFile(file.path));
  const first = useRef(true);
  useLayoutEffect(() => {
    if (first.current) marked.current?.scrollIntoView({ block: "center" });
    first.current = false;
  }, []);
  return (
    <pre className={wrapped ? "file-lines wrapped" : "file-lines"} data-lines={file.lines}>
      {text.split("\n").map((l, i) => {
        const no = file.from + i;
        const is = no === line;
        return (
          <div
            key={no}
            ref={is ? marked : undefined}
            className={is ? "file-line marked" : "file-line"}
            aria-current={is ? "location" : undefined}
            data-line={no}
          >
            <span className="no" aria-hidden>
              {no}
            </span>
            <code>{colours?.[i] ? <Spans spans={colours[i]} /> : <Visible text={l} />}</code>
          </div>
        );
      })}
    </pre>
  );
}
