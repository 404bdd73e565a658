import { useEffect, useMemo, useState } from "react";
import { go } from "../model/routes";
import { useStore } from "../model/store";
import { absolute, plural } from "../text/format";
import { plain } from "../text/visible";
import type { AuditEntry, Verified } from "../wire/audit";
import { api } from "../wire/http";
import { CopyButton } from "./Copy";
import { Dialog } from "./Dialog";

const first = 200; // entries that are loaded first, and with each click
const most = 5000; // entries that are kept
const wait = 20; // seconds for which the server waits for the next entry

/** The audit log: who did what, the newest first, live. */
export function Audit({ onClose }: { onClose: () => void }) {
  const { entries, earlier, loadEarlier, problem } = useAudit();
  const [typed, setTyped] = useState("");
  const shown = useMemo(() => select(entries, typed).toReversed(), [entries, typed]);
  return (
    <Dialog
      title="Audit log"
      onClose={onClose}
      wide
      tools={
        <CopyButton
          text={() => shown.map((e) => JSON.stringify(e)).join("\n")}
          label="Copy the entries as JSONL"
        />
      }
    >
      <div className="sticky top-0 z-1 flex flex-wrap items-center gap-x-4 gap-y-2 border-b bg-bg px-4 py-2">
        <input
          type="search"
          className="field min-w-40 flex-1 narrow:basis-full"
          aria-label="Filter the audit log"
          placeholder="Name, action or text, such as denied"
          value={typed}
          onChange={(e) => setTyped(e.target.value)}
        />
        <Verify />
      </div>
      {problem && (
        <p role="alert" className="border-b px-4 py-2 text-del">
          {plain(problem, 500)}
        </p>
      )}
      <ol aria-label="Entries">
        {shown.map((e) => (
          <Entry key={e.n} e={e} onClose={onClose} />
        ))}
      </ol>
      {shown.length === 0 && !problem && <p className="px-4 py-3 text-muted">No entries match.</p>}
      {earlier && (
        <button type="button" className="quiet m-1" onClick={loadEarlier}>
          Earlier entries
        </button>
      )}
    </Dialog>
  );
}

function Entry({ e, onClose }: { e: AuditEntry; onClose: () => void }) {
  const session = e.session;
  const about = [
    e.why && plain(e.why, 300),
    e.rule && `rule ${e.rule}`,
    e.address && `from ${plain(e.address, 60)}`,
  ];
  const times = (e.count ?? 1) > 1 ? ` (${plural(e.count ?? 1, "time")})` : "";
  return (
    <li className="border-b px-4 py-2 text-sm" data-entry={e.n}>
      <p className="flex items-baseline gap-3">
        <span className="min-w-0 flex-1">
          <span className="font-medium">{words(e.kind)}</span>
          {e.choice && ` · ${plain(e.choice.replaceAll("_", " "), 40)}`}
          {e.who && <span className="text-muted"> · {plain(e.who, 100)}</span>}
          {times}
        </span>
        <time className="shrink-0 text-xs text-muted" dateTime={e.at}>
          {absolute(e.at)}
        </time>
      </p>
      {e.what && <p className="isolate-text">{plain(e.what, 500)}</p>}
      <p className="isolate-text text-xs text-muted">
        #{e.n} {about.filter(Boolean).join(" · ")}
        {session && (
          <button
            type="button"
            className="quiet -my-1 text-xs text-accent"
            onClick={() => {
              onClose();
              go({ at: "session", id: session });
            }}
          >
            Open the session
          </button>
        )}
      </p>
    </li>
  );
}

function words(kind: string): string {
  const text = plain(kind.replaceAll("_", " "), 60);
  return text.charAt(0).toUpperCase() + text.slice(1);
}

function Verify() {
  const [result, setResult] = useState<Verified | { problem: string }>();
  const [busy, setBusy] = useState(false);
  const verify = async () => {
    setBusy(true);
    try {
      setResult(await api.verifyAudit());
    } catch (e) {
      setResult({ problem: e instanceof Error ? e.message : String(e) });
    }
    setBusy(false);
  };
  return (
    <>
      <button type="button" className="button" disabled={busy} onClick={verify}>
        {busy ? "Verifying…" : "Verify the log"}
      </button>
      <div role="status" className="w-full text-sm empty:hidden">
        {result && "problem" in result && <p className="text-del">{plain(result.problem, 500)}</p>}
        {result && "ok" in result && result.ok && (
          <p className="text-add">
            {plural(result.entries, "entry", "entries")}: each is as it was written, and none is missing.
          </p>
        )}
        {result && "ok" in result && !result.ok && (
          <div className="text-del">
            <p>The log is not as it was written:</p>
            <ul className="list-disc pl-5">
              {result.problems.map((p) => (
                <li key={`${p.n} ${p.what}`}>
                  entry {p.n}: {plain(p.what, 300)}
                </li>
              ))}
            </ul>
          </div>
        )}
      </div>
    </>
  );
}

function select(entries: readonly AuditEntry[], typed: string): AuditEntry[] {
  const wanted = typed.toLowerCase().split(/\s+/).filter(Boolean);
  return entries.filter((e) => {
    const text = JSON.stringify(e).toLowerCase().replaceAll("_", " ");
    return wanted.every((w) => text.includes(w.replaceAll("_", " ")));
  });
}

/** The newest entries, in their order; new ones are added as they are written. */
function useAudit() {
  const [entries, setEntries] = useState<readonly AuditEntry[]>([]);
  const [problem, setProblem] = useState<string>();
  const up = useStore((s) => s.link === "open");
  useEffect(() => {
    if (!up) return;
    let over = false;
    const follow = async () => {
      const { last } = await api.audit(0, 1, 0);
      let after = Math.max(0, last - first);
      while (!over) {
        const page = await api.audit(after, 1000, wait);
        if (over) return;
        after = page.entries.at(-1)?.n ?? after;
        setProblem(undefined);
        setEntries((old) => add(old, page.entries));
      }
    };
    follow().catch((e) => !over && setProblem(e instanceof Error ? e.message : String(e)));
    return () => {
      over = true;
    };
  }, [up]);
  const oldest = entries[0]?.n ?? 1;
  const loadEarlier = () => {
    api.audit(Math.max(0, oldest - 1 - first), first, 0).then(
      (page) => setEntries((old) => add(old, page.entries)),
      (e) => setProblem(e instanceof Error ? e.message : String(e)),
    );
  };
  return { entries, problem, earlier: oldest > 1 && entries.length < most, loadEarlier };
}

function add(old: readonly AuditEntry[], more: readonly AuditEntry[]): readonly AuditEntry[] {
  if (more.length === 0) return old;
  const all = new Map([...old, ...more].map((e) => [e.n, e]));
  return [...all.values()].sort((a, b) => a.n - b.n).slice(-most);
}
