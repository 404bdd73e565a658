import { type MouseEvent, type ReactNode, useEffect, useState } from "react";
import { closeOver, type Over, openOver, useOver } from "../model/over";
import { go, type Route, useRoute } from "../model/routes";
import { useStore } from "../model/store";
import { groups } from "../sessions/groups";
import { List } from "../sessions/List";
import { login } from "../wire/key";
import { typing, useNow, useWide } from "./hooks";
import { Keys } from "./Keys";
import { Login } from "./Login";
import { followNotices } from "./notify";
import { Problem } from "./Problem";
import { loadAhead, part } from "./parts";
import { renewPush } from "./push";
import { SessionShape } from "./shapes";
import { useTab } from "./tab";
import { startWorker } from "./worker";

const Session = part(() => import("./Session").then((m) => m.Session), <SessionShape />, { view: true });
const Audit = part(() => import("./Audit").then((m) => m.Audit));
const McpServers = part(() => import("./McpServers").then((m) => m.McpServers));
const Retention = part(() => import("./Retention").then((m) => m.Retention));
const Palette = part(() => import("./Palette").then((m) => m.Palette));
const Start = part(() => import("../sessions/Start").then((m) => m.Start), null, { view: true });

/**
 * Loads the script of the first view while the page is still starting. It comes
 * from the program that has just sent the page's first script.
 */
export function prepare(route: Route) {
  if (route.at === "session") Session.ahead(true);
  else Start.ahead(true);
}

export function App() {
  const phase = useStore((s) => s.phase);
  const why = useStore((s) => s.why);
  if (phase === "starting" && !login()) return null;
  if (phase === "out") return <Login why={why} />;
  return <Inside />;
}

const patience = 2000; // ms for which the other scripts wait for the first view

function Inside() {
  const route = useRoute();
  const wide = useWide();
  const nothing = useStore((s) => s.listed && s.sessions.size === 0);
  const over = useOver((s) => s.over);
  const current = route.at === "session" ? route.id : undefined;
  useKeys(current, openOver);
  const open = useStore((s) => s.link === "open");
  // The scripts of other parts would delay what the first view waits for.
  const drawn = useStore((s) => s.listed && (current === undefined || s.transcripts.has(current)));
  useEffect(() => {
    const timer = setTimeout(loadAhead, drawn ? 0 : patience);
    return () => clearTimeout(timer);
  }, [drawn]);
  useEffect(followNotices, []);
  useEffect(() => {
    if (!open) return;
    startWorker();
    renewPush().catch(() => {}); // the dialog about notifications reports errors
  }, [open]);
  useTab(current);
  const showList = wide || route.at === "list";
  return (
    <div className="flex h-dvh flex-col">
      <SkipLink />
      <LinkBar />
      <div className="flex min-h-0 flex-1">
        {showList && (
          <Column alone={!wide}>
            <List current={current} />
          </Column>
        )}
        {(wide || !showList) && (
          <div className="relative flex min-h-0 min-w-0 flex-1 flex-col">
            {route.at === "session" ? (
              <Session key={route.id} id={route.id} item={route.item} />
            ) : (
              <Start first={nothing} write={route.at === "new"} />
            )}
          </div>
        )}
      </div>
      {over === "keys" && <Keys onClose={closeOver} />}
      {over === "audit" && <Audit onClose={closeOver} />}
      {over === "mcp" && <McpServers onClose={closeOver} />}
      {over === "retention" && <Retention onClose={closeOver} />}
      {over === "palette" && <Palette current={current} onClose={closeOver} />}
    </div>
  );
}

/**
 * The session list beside the main view. On a phone the list or the main view
 * fills the page.
 */
function Column({ alone, children }: { alone: boolean; children: ReactNode }) {
  if (!alone) return <div className="min-h-0 w-72 shrink-0 border-r">{children}</div>;
  return (
    <main id="main" className="min-h-0 w-full" aria-label="Sessions">
      <h1 className="sr-only">Sessions</h1>
      {children}
      <Problem />
    </main>
  );
}

/** The first stop of the Tab key: past the session list. */
function SkipLink() {
  const skip = (e: MouseEvent) => {
    e.preventDefault();
    const main = document.querySelector<HTMLElement>("main");
    if (!main) return;
    main.tabIndex = -1;
    main.focus();
  };
  return (
    // biome-ignore lint/a11y/useValidAnchor: it leads to a part of the page, and leaves the address as it is
    <a href="#main" className="skip-link" onClick={skip}>
      Skip to the content
    </a>
  );
}

const brief = 600; // ms; a shorter disconnection is not reported

/**
 * Reports that the connection is lost and the content may be out of date. The
 * content stays.
 */
function LinkBar() {
  const link = useStore((s) => s.link);
  const ever = useStore((s) => s.everOpen);
  const [late, setLate] = useState(false);
  useEffect(() => {
    if (link === "open") return setLate(false);
    const later = setTimeout(() => setLate(true), brief);
    return () => clearTimeout(later);
  }, [link]);
  const now = useNow(2000, late);
  if (!late) return null;
  const offline = now > 0 && !navigator.onLine;
  return (
    <div
      role="status"
      className="progress shrink-0 border-b bg-mark-bg px-4 py-1 text-center text-sm text-mark"
    >
      {offline ? "This device is offline. " : ""}
      {link === "foreign"
        ? "Another program is running at the server’s address. This page sends nothing to it and keeps showing what it has."
        : ever
          ? "Reconnecting. Missed events will follow."
          : "Connecting to the server."}
    </div>
  );
}

const mac = /Mac|iP/.test(navigator.platform);

function useKeys(current: string | undefined, open: (what: Over) => void) {
  useEffect(() => {
    const key = (e: KeyboardEvent) => {
      if (e.key === "k" && (mac ? e.metaKey : e.ctrlKey) && !document.querySelector("dialog[open]")) {
        e.preventDefault();
        return open("palette");
      }
      if (typing(e) || e.ctrlKey || e.metaKey || e.altKey || document.querySelector("dialog[open]")) return;
      switch (e.key) {
        case "?":
          open("keys");
          break;
        case "n":
          go({ at: "new" });
          break;
        case "/":
          document.getElementById("filter")?.focus();
          break;
        case "i":
          document.getElementById("composer")?.focus();
          break;
        case "d":
          document.querySelector<HTMLElement>("button[aria-label='Details']")?.click();
          break;
        case "c":
          document.querySelector<HTMLElement>("button[aria-label='Changes']")?.click();
          break;
        case "j":
        case "k":
          step(current, e.key === "j" ? 1 : -1);
          break;
        default:
          return;
      }
      e.preventDefault();
    };
    window.addEventListener("keydown", key);
    return () => window.removeEventListener("keydown", key);
  }, [current, open]);
}

function step(current: string | undefined, by: number) {
  const order = groups(useStore.getState().sessions.values(), "").flatMap((g) => g.sessions);
  const at = order.findIndex((s) => s.sessionId === current);
  const next = order[Math.max(0, Math.min(order.length - 1, at + by))];
  if (next) go({ at: "session", id: next.sessionId });
}
