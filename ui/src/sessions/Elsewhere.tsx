import { MonitorDown } from "lucide-react";
import { memo, useEffect, useState } from "react";
import { go } from "../model/routes";
import { attempt, learn, listenStored, useAgentName, useStore } from "../model/store";
import { absolute, ago, folderName } from "../text/format";
import { plain } from "../text/visible";
import { api } from "../wire/http";
import type { Conversation, ConversationPage } from "../wire/types";

const name = (c: Conversation) => `${c.cliType}:${c.agentSessionId}`;

/** The loaded pages of the list, after its first page was loaded again. */
export function renewed(had: ConversationPage, first: ConversationPage): ConversationPage {
  const last = first.conversations.at(-1);
  if (!last || !first.next) return first;
  const fresh = new Set(first.conversations.map(name));
  const older = had.conversations.filter((c) => !fresh.has(name(c)) && c.updatedAt <= last.updatedAt);
  if (older.length === 0) return first;
  return { ...first, conversations: [...first.conversations, ...older], next: had.next };
}

/**
 * The conversations that began outside of Runnel, such as in a terminal. They
 * are loaded once somebody wants to see them, and then whenever they change. A
 * click makes one a session.
 */
export function Elsewhere({ filter, now }: { filter: string; now: number }) {
  const [page, setPage] = useState<ConversationPage>();
  const [open, setOpen] = useState(false);
  const [busy, setBusy] = useState(false);
  const load = async (after?: string) => {
    setBusy(true);
    await attempt(async () => {
      const next = await api.conversations(after);
      setPage((had) =>
        after && had ? { ...next, conversations: [...had.conversations, ...next.conversations] } : next,
      );
    });
    setBusy(false);
  };
  const changes = useStore((s) => s.stored);
  useEffect(() => {
    if (open) listenStored();
  }, [open]);
  useEffect(() => {
    if (!open || changes === 0) return;
    api.conversations().then(
      (first) => setPage((had) => (had ? renewed(had, first) : first)),
      () => {}, // the next change tries again
    );
  }, [open, changes]);
  const enter = async (c: Conversation) => {
    setBusy(true);
    await attempt(async () => {
      const id = await api.open(c);
      learn(await api.status(id));
      setPage((had) => had && { ...had, conversations: had.conversations.filter((o) => o !== c) });
      go({ at: "session", id });
    });
    setBusy(false);
  };
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  const shown = (page?.conversations ?? []).filter((c) => {
    const text = `${c.title} ${c.projectDir} ${c.cliType} ${c.lastMessage ?? ""}`.toLowerCase();
    return !c.sessionId && words.every((w) => text.includes(w));
  });
  return (
    <section aria-label="Elsewhere">
      <button
        type="button"
        className="quiet mx-2 text-sm"
        aria-expanded={open}
        title="Conversations that began outside of Runnel, such as in a terminal"
        onClick={() => {
          setOpen(!open);
          if (!open) void load();
        }}
      >
        <MonitorDown size={14} aria-hidden /> Started elsewhere
      </button>
      {open && (
        <>
          <ul>
            {shown.map((c) => (
              <ConversationRow
                key={name(c)}
                c={c}
                busy={busy}
                time={c.updatedAt && ago(c.updatedAt, now)}
                onOpen={enter}
              />
            ))}
          </ul>
          {page && <Rest page={page} none={shown.length === 0} busy={busy} onLoad={load} />}
        </>
      )}
    </section>
  );
}

/** What the list does not show, and how to see it. */
function Rest({
  page,
  none,
  busy,
  onLoad,
}: {
  page: ConversationPage;
  none: boolean;
  busy: boolean;
  onLoad: (after?: string) => Promise<void>;
}) {
  if (page.disabled)
    return <p className="px-4 py-2 text-sm text-muted">The setting list-conversations is off.</p>;
  const more = page.next;
  return (
    <div className="px-4 py-1 text-sm text-muted">
      {none && !more && page.checking.length === 0 && <p>No other conversations.</p>}
      {page.checking.length > 0 && (
        <p>
          Still reading those of {page.checking.map((a) => plain(a)).join(", ")}.{" "}
          <button type="button" className="quiet" disabled={busy} onClick={() => onLoad()}>
            Check again
          </button>
        </p>
      )}
      {more && (
        <button type="button" className="quiet -ml-1.5" disabled={busy} onClick={() => onLoad(more)}>
          Show more
        </button>
      )}
    </div>
  );
}

const ConversationRow = memo(function ConversationRow({
  c,
  busy,
  time,
  onOpen,
}: {
  c: Conversation;
  busy: boolean;
  time: string;
  onOpen: (c: Conversation) => void;
}) {
  const agent = useAgentName(c.cliType);
  const about = [c.projectDir && folderName(c.projectDir), agent].filter(Boolean).join(" · ");
  return (
    <li>
      <button
        type="button"
        disabled={busy}
        data-conversation={c.agentSessionId}
        onClick={() => onOpen(c)}
        className="grid w-full grid-cols-[12px_minmax(0,1fr)_auto] items-center gap-x-2 border-l-2 border-transparent py-2 pr-3 pl-3 text-left hover:bg-raised"
      >
        <span className="col-start-2 truncate">{plain(c.title) || "Conversation"}</span>
        <time
          className="text-xs text-muted"
          dateTime={c.updatedAt}
          title={c.updatedAt && absolute(c.updatedAt)}
        >
          {time}
        </time>
        {c.lastMessage && (
          <span className="col-start-2 col-end-4 truncate text-sm text-muted">{plain(c.lastMessage)}</span>
        )}
        <span className="col-start-2 col-end-4 truncate text-xs text-muted" title={plain(c.projectDir)}>
          {plain(about)}
        </span>
      </button>
    </li>
  );
});
