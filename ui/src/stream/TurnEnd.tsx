import { GitBranch } from "lucide-react";
import { memo, useState } from "react";
import { Dialog } from "../app/Dialog";
import { part } from "../app/parts";
import { byFile, countChanges } from "../model/diff";
import { attempt, complain, fork, sendPrompt, uploadsOf, useStore } from "../model/store";
import type { Turn } from "../model/transcript";
import { absolute, between, cost, count, duration, plural } from "../text/format";
import { plain } from "../text/visible";
import { faultLabel } from "../text/words";
import type { AgentFile, Change } from "../wire/types";
import { Counts } from "./Diff";

const Net = part(() => import("../changes/Net").then((m) => m.Net));

/**
 * The files that a turn changed, without files that the agent wrote for itself,
 * such as its plan.
 */
export function changesOf(turn: Turn, own: readonly AgentFile[] = []): Change[] {
  const plans = new Set(own.filter((f) => f.kind === "plan").map((f) => f.path));
  return turn.items.flatMap((it) =>
    it.type === "tool_call" && it.status === "complete" && !it.tool_call.toolOutputIsError
      ? (it.tool_call.changes ?? []).filter((c) => !plans.has(c.path))
      : [],
  );
}

/** The end of a turn: its result, its usage and the files that it changed. */
export const TurnEnd = memo(function TurnEnd({
  turn,
  dir,
  session,
}: {
  turn: Turn;
  dir: string;
  session: string;
}) {
  const [shown, setShown] = useState(false);
  const own = useStore((s) => s.sessions.get(session)?.files);
  const e = turn.ended;
  if (!e) return null;
  const changes = changesOf(turn, own);
  const files = byFile(changes).length;
  const took = between(turn.started?.timestamp, e.timestamp);
  const tokens =
    turn.usage &&
    turn.usage.inputTokens +
      turn.usage.outputTokens +
      (turn.usage.cacheReadInputTokens ?? 0) +
      (turn.usage.cacheCreationInputTokens ?? 0);
  const failed = e.type === "turn_error";
  return (
    <footer className="pt-2 pb-2">
      {failed && <Failure turn={turn} session={session} />}
      <div className="flex flex-wrap items-center gap-x-3 text-xs text-muted">
        {e.type === "turn_complete" && e.status === "cancelled" && (
          <span className="font-medium text-text">Stopped by you</span>
        )}
        {took !== undefined && took >= 100 && <span title={absolute(e.timestamp)}>{duration(took)}</span>}
        {turn.usage && tokens !== undefined && tokens > 0 && (
          <span title={usageTitle(turn.usage)}>{count(tokens)} tokens</span>
        )}
        {turn.costUsd !== undefined && turn.costUsd > 0 && <span>{cost(turn.costUsd)}</span>}
        {files > 0 && (
          <button type="button" className="quiet -my-1 text-xs text-accent" onClick={() => setShown(true)}>
            {plural(files, "file")} changed <Counts n={countChanges(changes)} />
          </button>
        )}
        <Fork session={session} turn={turn.id} />
      </div>
      {shown && (
        <Dialog title={`${plural(files, "file")} changed in this turn`} onClose={() => setShown(false)} wide>
          <Net session={session} turn={turn.id} dir={dir} />
        </Dialog>
      )}
    </footer>
  );
});

/** Continues after a turn in a session of its own. */
function Fork({ session, turn }: { session: string; turn: string }) {
  const [busy, setBusy] = useState(false);
  const continueHere = async () => {
    setBusy(true);
    await fork(session, turn);
    setBusy(false);
  };
  return (
    <button
      type="button"
      className="quiet -my-1 ml-auto"
      disabled={busy}
      onClick={continueHere}
      aria-label="Continue from here in a new session"
      title="Continue from here in a new session"
    >
      <GitBranch size={14} aria-hidden />
    </button>
  );
}

function Failure({ turn, session }: { turn: Turn; session: string }) {
  const [busy, setBusy] = useState(false);
  const prompt = turn.items.find((it) => it.type === "message" && it.message.origin === "user");
  const message = prompt?.type === "message" ? prompt.message : undefined;
  const text = message?.content ?? "";
  const uploads = uploadsOf(turn.id);
  // The prompt was sent from another browser, so its files are not available
  // here.
  const bare = (message?.attachments?.length ?? 0) > 0 && uploads.length === 0;
  const again = async () => {
    setBusy(true);
    let warnings: string[] = [];
    const ok = await attempt(async () => {
      ({ warnings } = await sendPrompt(session, text, false, uploads));
    });
    if (ok && warnings.length > 0) complain(warnings.join("\n"));
    setBusy(false);
  };
  return (
    <div className="mb-2 flex flex-wrap items-center gap-x-4 gap-y-2 rounded-md bg-del-bg px-3 py-2">
      <div className="min-w-0 flex-1">
        <p className="font-medium text-del">{faultLabel(turn.ended?.errorCode)}</p>
        {turn.ended?.errorMessage && <p className="isolate-text">{plain(turn.ended.errorMessage, 2000)}</p>}
      </div>
      {(text || uploads.length > 0) && (
        <button type="button" className="button" disabled={busy} onClick={again}>
          {bare ? "Try again without the files" : "Try again"}
        </button>
      )}
    </div>
  );
}

function usageTitle(u: NonNullable<Turn["usage"]>): string {
  const parts = [
    `input ${u.inputTokens.toLocaleString("en")}`,
    `output ${u.outputTokens.toLocaleString("en")}`,
  ];
  if (u.cacheReadInputTokens) parts.push(`read from cache ${u.cacheReadInputTokens.toLocaleString("en")}`);
  if (u.cacheCreationInputTokens)
    parts.push(`written to cache ${u.cacheCreationInputTokens.toLocaleString("en")}`);
  if (u.reasoningTokens) parts.push(`reasoning ${u.reasoningTokens.toLocaleString("en")}`);
  return parts.join(", ");
}
