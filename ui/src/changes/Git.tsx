import { Minus, Plus, Undo2 } from "lucide-react";
import { type ReactNode, useCallback, useState } from "react";
import { complain, failed } from "../model/store";
import { plural } from "../text/format";
import { Visible } from "../text/Shown";
import { plain } from "../text/visible";
import { ApiError, api } from "../wire/http";
import type { ChangedFile, FolderStatus, Side } from "../wire/types";
import { Commit } from "./Commit";
import { Lines } from "./Lines";
import { type Loaded, useLoaded } from "./loaded";
import { File, Pending } from "./parts";
import { Revert } from "./Revert";
import { Worktree } from "./Worktree";

/** The state of the session's folder in git, and what people do with it. */
export function Git({ session, version }: { session: string; version: unknown }) {
  const load = useCallback(() => api.folder(session), [session]);
  const folder = useLoaded(load, version);
  const [said, setSaid] = useState<string>(); // what the last action did
  const st = folder.value;
  return (
    <>
      <section className="min-h-0 flex-1 overflow-y-auto p-4" tabIndex={0} aria-label="Changes in git">
        <Worktree
          session={session}
          version={folder.value}
          onSaid={(text) => {
            setSaid(text);
            if (text !== undefined) void folder.reload(); // a merge commits files
          }}
        />
        {!st || folder.error !== undefined ? (
          <Pending of={folder} />
        ) : st.state !== "ready" ? (
          <p className="isolate-text">
            <Visible text={st.problem ?? "Git cannot be used in this folder."} />
          </p>
        ) : (
          <Ready session={session} folder={folder} st={st} onSaid={setSaid} />
        )}
        <p role="status" className="isolate-text pt-3 text-sm text-muted empty:hidden">
          {said}
        </p>
      </section>
      {st?.state === "ready" && (
        <Commit
          session={session}
          st={st}
          onDone={(text) => {
            setSaid(text);
            return folder.reload();
          }}
        />
      )}
    </>
  );
}

function Ready({
  session,
  folder,
  st,
  onSaid,
}: {
  session: string;
  folder: Loaded<FolderStatus>;
  st: FolderStatus;
  onSaid: (text: string | undefined) => void;
}) {
  const [busy, setBusy] = useState(false);
  const [reverting, setReverting] = useState<ChangedFile>();
  const act = async (what: () => Promise<void>) => {
    setBusy(true);
    onSaid(undefined);
    try {
      await what();
      complain(undefined);
    } catch (e) {
      failed(e);
      if (e instanceof ApiError && e.type === "CHANGES_OUTDATED") await folder.reload();
    }
    setBusy(false);
  };
  const stage = (files: { path: string; seen?: string }[], staged: boolean) =>
    act(async () => {
      for (let i = 0; i < files.length; i += mostFiles)
        folder.put(await api.stage(session, files.slice(i, i + mostFiles), staged));
    });
  const list = (side: Side) => st.files.filter((f) => f[side]);
  const section = (side: Side) => (
    <Section
      title={side === "staged" ? "Staged" : "Not staged"}
      files={list(side)}
      all={
        <button
          type="button"
          className="quiet"
          disabled={busy}
          onClick={() =>
            void stage(
              list(side).map((f) => ({ path: f.path })),
              side === "unstaged",
            )
          }
        >
          {side === "staged" ? "Unstage all" : "Stage all"}
        </button>
      }
    >
      {(f) => (
        <Changed
          key={f.path}
          session={session}
          file={f}
          side={side}
          version={st}
          busy={busy}
          onStage={(seen) => void stage([{ path: f.path, seen }], side === "unstaged")}
          onRevert={() => setReverting(f)}
        />
      )}
    </Section>
  );
  return (
    <div className="flex flex-col gap-4">
      <Where st={st} />
      {st.files.length === 0 && <p className="text-muted">Nothing differs from the last commit.</p>}
      {section("staged")}
      {section("unstaged")}
      {st.more && <p className="text-sm text-muted">Further files are left out.</p>}
      {reverting && (
        <Revert
          session={session}
          file={reverting}
          onClose={() => setReverting(undefined)}
          onRevert={(seen) => {
            const f = reverting;
            setReverting(undefined);
            void act(async () => {
              const kept = await api.revert(session, f.path, seen, f.unstaged !== undefined);
              onSaid(
                `Reverted ${plain(f.path)}.${kept ? ` git cat-file blob ${kept.slice(0, 10)} prints what it contained.` : ""}`,
              );
              await folder.reload();
            });
          }}
        />
      )}
    </div>
  );
}

const mostFiles = 1000; // that the server stages with one request

function Where({ st }: { st: FolderStatus }) {
  return (
    <div className="flex flex-col gap-1 text-sm">
      <p className="flex flex-wrap items-center gap-x-2">
        <span className="text-muted">Branch</span>
        <span className="isolate-text font-mono">
          {st.branch ? <Visible text={st.branch} /> : "none is checked out"}
        </span>
        {st.upstream && (
          <span className="text-muted">
            {[st.ahead && `${st.ahead} ahead of`, st.behind && `${st.behind} behind`]
              .filter(Boolean)
              .join(", ") || "same as"}{" "}
            {plain(st.upstream, 100)}
          </span>
        )}
      </p>
      {st.operation && (
        <p className="text-mark">
          A {plain(st.operation)} is not finished. Finish or abort it in a terminal; until then, nothing can
          be committed or reverted here.
        </p>
      )}
    </div>
  );
}

function Section({
  title,
  files,
  all,
  children,
}: {
  title: string;
  files: readonly ChangedFile[];
  all: ReactNode;
  children: (f: ChangedFile) => ReactNode;
}) {
  if (files.length === 0) return null;
  return (
    <section aria-label={title}>
      <div className="mb-1 flex items-center">
        <h3 className="text-sm font-semibold">
          {title} <span className="font-normal text-muted">{plural(files.length, "file")}</span>
        </h3>
        <span className="ml-auto">{all}</span>
      </div>
      <div className="flex flex-col gap-2">{files.map(children)}</div>
    </section>
  );
}

function Changed({
  session,
  file: f,
  side,
  version,
  busy,
  onStage,
  onRevert,
}: {
  session: string;
  file: ChangedFile;
  side: Side;
  version: unknown;
  busy: boolean;
  onStage: (seen?: string) => void;
  onRevert: () => void;
}) {
  const [open, setOpen] = useState(false);
  const [seen, setSeen] = useState<string>(); // of the diff that is shown
  const name = plain(f.path);
  const staged = side === "staged";
  const label = f.conflict ? "conflict" : f.submodule ? "repository" : undefined;
  return (
    <File
      file={{
        path: staged && f.from ? f.from : f.path,
        movedTo: staged && f.from ? f.path : undefined,
        kind: f[side] ?? "update",
      }}
      name={name}
      count={staged ? f.stagedLines : f.unstagedLines}
      dir=""
      open={open}
      onToggle={() => setOpen((o) => !o)}
      actions={
        <>
          {label && <span className="px-1 text-sm text-mark">{label}</span>}
          {!f.conflict && !f.submodule && (
            <Action
              label={`Revert ${name}`}
              title="Revert"
              busy={busy}
              onClick={onRevert}
              icon={<Undo2 size={14} aria-hidden />}
            />
          )}
          <Action
            label={`${staged ? "Unstage" : "Stage"} ${name}`}
            title={staged ? "Unstage" : "Stage"}
            busy={busy}
            onClick={() => onStage(open && !staged ? seen : undefined)}
            icon={staged ? <Minus size={14} aria-hidden /> : <Plus size={14} aria-hidden />}
          />
        </>
      }
    >
      <Lines session={session} path={f.path} side={side} version={version} onSeen={setSeen} />
    </File>
  );
}

function Action({
  label,
  title,
  busy,
  onClick,
  icon,
}: {
  label: string;
  title: string;
  busy: boolean;
  onClick: () => void;
  icon: ReactNode;
}) {
  return (
    <button
      type="button"
      className="quiet"
      disabled={busy}
      onClick={onClick}
      aria-label={label}
      title={title}
    >
      {icon}
    </button>
  );
}
