import { ArrowLeft, Ellipsis, FileDiff, PanelRight, Power } from "lucide-react";
import { useEffect, useMemo, useState } from "react";
import { ApprovalBar } from "../composer/ApprovalBar";
import { Composer } from "../composer/Composer";
import { Queue } from "../composer/Queue";
import { scripted } from "../model/agents";
import { openOver } from "../model/over";
import { go } from "../model/routes";
import { attempt, refresh, show, useAgentName, useStore } from "../model/store";
import { empty, pending } from "../model/transcript";
import { closeFile, useViewed } from "../model/viewer";
import { workDir } from "../model/worktree";
import { markLabel, markOf, StateMark } from "../sessions/StateMark";
import { Commenting } from "../stream/Comments";
import { Stream } from "../stream/Stream";
import { InProject } from "../text/FileLink";
import { folderName } from "../text/format";
import { plain } from "../text/visible";
import { api } from "../wire/http";
import type { SessionStatus } from "../wire/types";
import { Dialog } from "./Dialog";
import { News } from "./News";
import { Problem } from "./Problem";
import { part } from "./parts";
import { SessionMenu } from "./SessionMenu";
import { StreamShape } from "./shapes";

const Changes = part(() => import("../changes/Panel").then((m) => m.Panel));
const Details = part(() => import("./Details").then((m) => m.Details));
const Viewer = part(() => import("../stream/Viewer").then((m) => m.Viewer));

export function Session({ id, item }: { id: string; item?: string }) {
  const s = useStore((st) => st.sessions.get(id));
  const transcript = useStore((st) => st.transcripts.get(id)) ?? empty;
  const missing = useStore(
    (st) => st.missing.has(id) || (st.listed && !st.sessions.has(id) && !st.transcripts.has(id)),
  );
  const [side, setSide] = useState<Side>();
  const waiting = useMemo(() => pending(transcript), [transcript]);

  // While an approval waits, the composer neither appears nor disappears. If it
  // followed the focus, typed text could be lost and the buttons would move
  // under the finger.
  const asked = waiting[0]?.approval.id;
  const writing = useMemo(() => asked !== undefined && document.activeElement?.id === "composer", [asked]);

  const dir = s ? workDir(s) : "";
  const project = useMemo(() => (dir ? { session: id, dir } : undefined), [id, dir]);
  const viewed = useViewed(id);

  useEffect(() => {
    show(id);
    return () => {
      show(undefined);
      closeFile();
    };
  }, [id]);

  if (missing && !s)
    return (
      <main id="main" className="flex flex-1 items-center justify-center p-6 text-center">
        <div>
          <h1 className="text-lg font-semibold">Session not found</h1>
          <p className="mt-1 text-muted">It may have been deleted, or the address is incomplete.</p>
          <button type="button" className="button mt-4" onClick={() => go({ at: "list" })}>
            All sessions
          </button>
        </div>
      </main>
    );
  return (
    <InProject value={project}>
      <div className="flex min-h-0 flex-1">
        <main id="main" className="flex min-h-0 min-w-0 flex-1 flex-col" aria-label="Session">
          <Header s={s} side={side} onSide={(to) => setSide((now) => (now === to ? undefined : to))} />
          {transcript.loaded ? (
            transcript.turns.length > 0 ? (
              <Commenting value={id}>
                <Stream
                  key={id}
                  transcript={transcript}
                  dir={dir}
                  session={id}
                  title={s?.title ?? ""}
                  item={item}
                />
              </Commenting>
            ) : (
              <Begin s={s} />
            )
          ) : (
            <StreamShape />
          )}
          <Problem />
          <ApprovalBar session={id} waiting={waiting} transcript={transcript} dir={dir} />
          {s && (
            // On a phone the approval fills the lower half, unless the user is
            // writing.
            <div
              className={`flex shrink-0 flex-col ${waiting.length > 0 && !writing ? "narrow:hidden" : ""}`}
            >
              <Queue key={`queue ${id}`} s={s} />
              <Composer key={id} s={s} onReload={() => void refresh()} />
            </div>
          )}
        </main>
        {side === "changes" && s && (
          <Commenting value={id}>
            <Changes
              session={id}
              transcript={transcript}
              dir={dir}
              waiting={waiting.length > 0}
              onClose={() => setSide(undefined)}
            />
          </Commenting>
        )}
        {side === "details" && s && (
          <Details s={s} transcript={transcript} onClose={() => setSide(undefined)} />
        )}
        <News s={s} transcript={transcript} waiting={waiting} />
        {viewed && <Viewer key={`${viewed.path}:${viewed.line}`} file={viewed} onClose={closeFile} />}
      </div>
    </InProject>
  );
}

type Side = "changes" | "details"; // what is shown beside the conversation

function Header({ s, side, onSide }: { s?: SessionStatus; side?: Side; onSide: (to: Side) => void }) {
  const [asking, setAsking] = useState(false);
  const agent = useAgentName(s?.cliType ?? "");
  const mark = s && markOf(s);
  return (
    <header className="flex min-h-12 shrink-0 items-center gap-2 border-b px-2 narrow:gap-1 narrow:pl-0 pt-[env(safe-area-inset-top)] wide:px-4">
      <button
        type="button"
        className="quiet wide:hidden"
        onClick={() => go({ at: "list" })}
        aria-label="All sessions"
      >
        <ArrowLeft size={18} aria-hidden />
      </button>
      {mark && <StateMark mark={mark} />}
      <div className="min-w-0 flex-1">
        <h1 className="truncate font-semibold">{s ? plain(s.title) || "New session" : " "}</h1>
        {s && (
          <p className="truncate text-xs text-muted" title={workDir(s)}>
            {plain(
              [s.archived && "archived", mark && markLabel[mark], folderName(s.projectDir), agent, s.modelId]
                .filter(Boolean)
                .join(" · "),
            )}
          </p>
        )}
      </div>
      {s && <SessionMenu key={s.sessionId} s={s} />}
      {s && s.state !== "dead" && (
        <button
          type="button"
          className="quiet narrow:hidden"
          onClick={() => setAsking(true)}
          aria-label="End session"
          title="End session"
        >
          <Power size={16} aria-hidden />
        </button>
      )}
      <button
        type="button"
        className="quiet"
        aria-pressed={side === "changes"}
        onClick={() => onSide("changes")}
        aria-label="Changes"
        title="Changes (c)"
      >
        <FileDiff size={16} aria-hidden />
      </button>
      <button
        type="button"
        className="quiet narrow:hidden"
        aria-pressed={side === "details"}
        onClick={() => onSide("details")}
        aria-label="Details"
        title="Details (d)"
      >
        <PanelRight size={16} aria-hidden />
      </button>
      <button
        type="button"
        className="quiet wide:hidden"
        onClick={() => openOver("palette")}
        aria-label="All commands"
        title="All commands"
      >
        <Ellipsis size={18} aria-hidden />
      </button>
      {asking && s && (
        <Dialog title="End this session?" onClose={() => setAsking(false)}>
          <p>
            This stops the agent and everything it started
            {s.activity !== "idle" ? ", in the middle of its turn" : ""}. The history stays, and you can
            continue the session later.
          </p>
          <div className="mt-4 flex justify-end gap-2">
            <button type="button" className="button" onClick={() => setAsking(false)}>
              Cancel
            </button>
            <button
              type="button"
              className="button danger"
              onClick={async () => {
                setAsking(false);
                await attempt(() => api.kill(s.sessionId));
                void refresh();
              }}
            >
              End session
            </button>
          </div>
        </Dialog>
      )}
    </header>
  );
}

function Begin({ s }: { s?: SessionStatus }) {
  return (
    <div className="flex min-h-0 flex-1 items-end justify-center pb-6">
      <div className="w-full max-w-[52rem] px-4 text-muted">
        {s && (
          <p className="isolate-text">
            Ready in <code className="font-mono text-sm text-text">{plain(workDir(s))}</code>
          </p>
        )}
        <p>
          {s && scripted(s.cliType)
            ? "Try the prompts demo, tools, terminal, approve, question, form, settings, long or fail."
            : "The agent’s work appears here live."}
        </p>
      </div>
    </div>
  );
}
