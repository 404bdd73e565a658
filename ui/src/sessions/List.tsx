import {
  Archive,
  Bell,
  ChevronRight,
  Command,
  type LucideIcon,
  MonitorSmartphone,
  Moon,
  Plus,
  Sun,
  SunMoon,
} from "lucide-react";
import { memo, type ReactNode, useEffect, useMemo, useRef, useState } from "react";
import { useNow } from "../app/hooks";
import { part } from "../app/parts";
import { rove, useRoving } from "../app/roving";
import { applyTheme, type Theme, theme } from "../app/theme";
import { load, save } from "../model/keep";
import { openOver } from "../model/over";
import { go, pathOf } from "../model/routes";
import { describeAsked } from "../model/rows";
import { unseen } from "../model/seen";
import { useAgentName, useStore } from "../model/store";
import { workDir } from "../model/worktree";
import { absolute, ago, folderName } from "../text/format";
import { plain } from "../text/visible";
import type { SessionStatus } from "../wire/types";
import { Elsewhere } from "./Elsewhere";
import { Found } from "./Found";
import { type Group, groups } from "./groups";
import { markOf, StateMark } from "./StateMark";

const Devices = part(() => import("../app/Devices").then((m) => m.Devices));
const Notifications = part(() => import("../app/Notifications").then((m) => m.Notifications));

const commandKey = /Mac|iP/.test(navigator.platform) ? "⌘K" : "Ctrl K";

const mostFolded = 200; // folders that this browser remembers as folded

let typed = ""; // into the search field; a phone shows the list again after a session

export function List({ current }: { current?: string }) {
  const sessions = useStore((s) => s.sessions);
  const listed = useStore((s) => s.listed);
  const [filter, setFilter] = useState(typed);
  useEffect(() => {
    typed = filter;
  }, [filter]);
  const now = useNow(30_000);
  const rows = useRef<HTMLDivElement>(null);
  useRoving(rows);
  const [archive, setArchive] = useState(false);
  const archived = useMemo(() => [...sessions.values()].filter((s) => s.archived).length, [sessions]);
  const inArchive = archive && archived > 0;
  const [folded, setFolded] = useState(() => load<string[]>("folded", []));
  const fold = (key: string) => {
    const next = folded.includes(key) ? folded.filter((k) => k !== key) : [...folded, key].slice(-mostFolded);
    save("folded", next.length > 0 ? next : undefined);
    setFolded(next);
  };
  const shown = useMemo(() => groups(sessions.values(), filter, inArchive), [sessions, filter, inArchive]);

  return (
    <nav
      aria-label="Sessions"
      className="flex h-full min-h-0 flex-col bg-panel pt-[env(safe-area-inset-top)]"
    >
      <div className="flex items-center pt-3 pr-2 pb-2 pl-3">
        <span className="mr-auto flex shrink-0 items-center gap-2 text-lg font-semibold tracking-tight">
          <img src="icon.svg" alt="" width={18} height={18} /> Runnel
        </span>
        <ThemeSwitch />
        <Opener label="Devices" icon={MonitorSmartphone} dialog={Devices} />
        <Opener label="Notifications" icon={Bell} dialog={Notifications} />
        <button
          type="button"
          className="quiet pointer-coarse:hidden"
          onClick={() => openOver("keys")}
          aria-label="Keyboard shortcuts"
          title="Keyboard shortcuts (?)"
        >
          <kbd>?</kbd>
        </button>
        <button
          type="button"
          className="button px-2.5"
          onClick={() => go({ at: "new" })}
          title="New session (n)"
        >
          <Plus size={14} aria-hidden /> New
        </button>
      </div>
      {(listed || sessions.size > 0) && (
        <div className="flex items-center gap-1 px-3 pb-2">
          <input
            id="filter"
            type="search"
            className="field min-h-8 min-w-0 flex-1 border-line py-1 text-sm pointer-coarse:min-h-11"
            placeholder="Search  /"
            aria-label="Search sessions"
            value={filter}
            onChange={(e) => setFilter(e.target.value)}
            onKeyDown={(e) => {
              if (e.key === "Escape") {
                setFilter("");
                e.currentTarget.blur();
              }
              if (e.key === "ArrowDown") {
                e.preventDefault();
                rows.current?.querySelector<HTMLElement>("a[href], button")?.focus();
              }
            }}
          />
          <button
            type="button"
            className="quiet shrink-0"
            onClick={() => openOver("palette")}
            aria-label="All commands"
            title={`All commands (${commandKey})`}
          >
            <Command size={15} aria-hidden />
          </button>
        </div>
      )}
      {/* biome-ignore lint/a11y/noStaticElementInteractions: the keys move the focus between the rows */}
      <div
        ref={rows}
        onKeyDown={rove}
        className="min-h-0 flex-1 overflow-y-auto pb-[max(12px,env(safe-area-inset-bottom))]"
      >
        {!listed && sessions.size === 0 && <ListShape />}
        {listed && sessions.size === 0 && <p className="px-4 py-2 text-muted">No sessions yet.</p>}
        {sessions.size > 0 && shown.length === 0 && filter.trim() === "" && (
          <p className="px-4 py-2 text-muted">All sessions are archived.</p>
        )}
        {shown.map((g) => (
          <GroupOf
            key={g.key}
            group={g}
            current={current}
            now={now}
            folded={g.dir !== undefined && folded.includes(g.key) && !filter.trim()}
            onFold={fold}
          />
        ))}
        {filter.trim() !== "" && <Found typed={filter} titled={shown.length > 0} />}
        {archived > 0 && (
          <button
            type="button"
            className="quiet mx-2 text-sm"
            aria-pressed={inArchive}
            onClick={() => setArchive(!inArchive)}
          >
            <Archive size={14} aria-hidden /> Archived ({archived})
          </button>
        )}
        {listed && <Elsewhere filter={filter} now={now} />}
      </div>
    </nav>
  );
}

/** The sessions of a folder, or those that wait. A folded group counts them. */
function GroupOf({
  group: g,
  current,
  now,
  folded,
  onFold,
}: {
  group: Group;
  current?: string;
  now: number;
  folded: boolean;
  onFold: (key: string) => void;
}) {
  const news = useStore((st) => folded && g.sessions.some((s) => unseen(s, st.seen)));
  const rows = folded ? g.sessions.filter((s) => s.sessionId === current) : g.sessions;
  return (
    <section className="pb-2">
      <h2 className={`text-xs font-medium ${g.dir ? "text-muted" : "px-4 py-1 text-accent"}`} title={g.dir}>
        {g.dir === undefined ? (
          "Needs you"
        ) : (
          <button
            type="button"
            className={`quiet w-full justify-start px-4 text-xs ${news ? "font-semibold text-text" : "font-medium"}`}
            aria-expanded={!folded}
            onClick={() => onFold(g.key)}
          >
            <span className="isolate-text truncate">{plain(folderName(g.dir))}</span>
            {folded && <span className="tabular-nums">{g.sessions.length}</span>}
            {news && <span className="sr-only">, unread</span>}
            <ChevronRight size={12} aria-hidden className={`ml-auto ${folded ? "" : "rotate-90"}`} />
          </button>
        )}
      </h2>
      <ul>
        {rows.map((s) => (
          <SessionRow
            key={s.sessionId}
            s={s}
            current={s.sessionId === current}
            folder={!g.dir}
            time={ago(s.lastActiveAt, now)}
          />
        ))}
      </ul>
    </section>
  );
}

export const SessionRow = memo(function SessionRow({
  s,
  current,
  folder,
  time,
}: {
  s: SessionStatus;
  current: boolean;
  folder: boolean;
  time: string;
}) {
  const unread = useStore((st) => unseen(s, st.seen)) && !current;
  const row = useRef<HTMLAnchorElement>(null);
  useEffect(() => {
    if (current) row.current?.scrollIntoView({ block: "nearest" });
  }, [current]);
  const mark = markOf(s);
  const asks = s.pendingApprovals[0];
  const agent = useAgentName(s.cliType);
  const about = [folder ? folderName(s.projectDir) : "", agent, s.modelId ?? ""].filter(Boolean).join(" · ");
  const line = mark === "waiting" && asks ? `asks: ${describeAsked(asks, workDir(s))}` : s.lastLine;
  return (
    <li className="lazy-row">
      <a
        ref={row}
        href={pathOf({ at: "session", id: s.sessionId })}
        aria-current={current ? "page" : undefined}
        data-session={s.sessionId}
        onClick={(e) => {
          if (e.metaKey || e.ctrlKey || e.shiftKey) return;
          e.preventDefault();
          go({ at: "session", id: s.sessionId });
        }}
        className={`grid grid-cols-[12px_minmax(0,1fr)_auto] items-center gap-x-2 border-l-2 py-2 pr-3 pl-3 hover:bg-raised ${
          current ? "border-accent bg-raised" : "border-transparent"
        }`}
      >
        <StateMark mark={mark} />
        <span className={`truncate ${unread ? "font-semibold" : ""} ${mark === "ended" ? "text-muted" : ""}`}>
          {plain(s.title) || "New session"}
        </span>
        <time className="text-xs text-muted" dateTime={s.lastActiveAt} title={absolute(s.lastActiveAt)}>
          {time}
        </time>
        {line && <span className="col-start-2 col-end-4 truncate text-sm text-muted">{plain(line)}</span>}
        <span className="col-start-2 col-end-4 truncate text-xs text-muted">
          {plain(about)}
          {unread && <span className="sr-only">, unread</span>}
        </span>
      </a>
    </li>
  );
});

function ListShape() {
  return (
    <div role="status" aria-label="Loading sessions" className="flex flex-col gap-4 px-4 py-2">
      {[70, 52, 64, 40].map((w) => (
        <div key={w} className="flex flex-col gap-2">
          <div className="shape h-3 bg-line" style={{ width: `${w}%` }} />
          <div className="shape h-2 bg-line" style={{ width: `${w / 2}%` }} />
        </div>
      ))}
    </div>
  );
}

// A button that opens a dialog.
function Opener({
  label,
  icon: Icon,
  dialog: Dialog,
}: {
  label: string;
  icon: LucideIcon;
  dialog: (props: { onClose: () => void }) => ReactNode;
}) {
  const [open, setOpen] = useState(false);
  return (
    <>
      <button type="button" className="quiet" onClick={() => setOpen(true)} aria-label={label} title={label}>
        <Icon size={15} aria-hidden />
      </button>
      {open && <Dialog onClose={() => setOpen(false)} />}
    </>
  );
}

const order: Theme[] = ["system", "light", "dark"];
const icons = { system: SunMoon, light: Sun, dark: Moon };

function ThemeSwitch() {
  const [now, setNow] = useState(theme);
  const next = order[(order.indexOf(now) + 1) % order.length] as Theme;
  const Icon = icons[now];
  return (
    <button
      type="button"
      className="quiet"
      aria-label={`Colours: ${now}. Change to ${next}`}
      title={`Colours: ${now}`}
      onClick={() => {
        applyTheme(next);
        setNow(next);
      }}
    >
      <Icon size={15} aria-hidden />
    </button>
  );
}
