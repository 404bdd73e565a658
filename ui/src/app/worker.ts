// The page's service worker: it is started here, and receives the notices to
// show.

import { go, parseRoute } from "../model/routes";
import { base } from "../wire/base";
import type { Notice, ToPage, ToWorker } from "../worker/messages";

// The address of the worker's script, and its scope. No page has an address
// that begins with it, so the worker controls none. Browsers request this
// script again without asking the page, also while another program uses the
// server's address. A worker of that program must not receive the requests of
// a page that stays open.
const file = `${base}/sw.js`;

interface Policy {
  createScriptURL(url: string): string;
}

// The content security policy allows one policy for addresses of scripts, and
// this is the only address.
const policy = (
  window as { trustedTypes?: { createPolicy(name: string, rules: Policy): Policy } }
).trustedTypes?.createPolicy("worker", { createScriptURL: () => file });

/** Whether this browser has service workers on this address. */
export const hasWorkers = () => "serviceWorker" in navigator && window.isSecureContext;

let started: Promise<ServiceWorkerRegistration | undefined> | undefined;

/**
 * Starts the worker, and replaces a worker that another program has left. The
 * server must have proved its identity, because the browser requests the
 * worker's script from it.
 */
export function startWorker() {
  if (!import.meta.env.PROD || !hasWorkers()) return; // the development server has no worker
  if (!started) navigator.serviceWorker.addEventListener("message", receive);
  const before = started;
  started = register().catch(() => before); // such as in a private window
}

async function register(): Promise<ServiceWorkerRegistration> {
  const url = policy?.createScriptURL(file) ?? file;
  const registration = await navigator.serviceWorker.register(url, { scope: file, updateViaCache: "none" });
  // register requests the script only if there is no worker. Chromium can leave
  // an update undone, with everything that waits for it, if it begins while the
  // first worker is being installed.
  if (registration.active) await update(registration);
  const next = registration.installing ?? registration.waiting;
  if (next)
    await new Promise<void>((done) => {
      const look = () => (next.state === "activated" || next.state === "redundant") && done();
      next.addEventListener("statechange", look);
      look();
    });
  return registration;
}

const patience = 3000; // ms

// Chromium sometimes leaves an update undone that begins while another page of
// the origin is starting, until there is a further one.
async function update(registration: ServiceWorkerRegistration) {
  let done = false;
  while (!done) {
    const later = new Promise((next) => setTimeout(next, patience));
    const updated = registration.update().then(() => {
      done = true;
    });
    await Promise.race([updated, later]);
  }
}

function receive(e: MessageEvent<ToPage>) {
  if (typeof e.data.open === "string") go(parseRoute(new URL(e.data.open, location.origin).search));
}

/** The worker's registration, or undefined if this browser runs none. */
export const worker = (): Promise<ServiceWorkerRegistration | undefined> =>
  started ?? Promise.resolve(undefined);

// The worker, or undefined if the browser has not started it in time.
async function inTime(): Promise<ServiceWorkerRegistration | undefined> {
  const late = new Promise<undefined>((done) => setTimeout(done, 3 * patience));
  return Promise.race([worker(), late]);
}

/** Whether somebody looks at this tab. The worker knows it of the other tabs. */
export const watched = () => document.visibilityState === "visible" && document.hasFocus();

/**
 * Shows a notice, unless somebody looks at the page. If the browser runs no
 * worker or does not start it in time, the tab shows the notice itself.
 */
export async function showNotice(n: Notice) {
  const active = (await inTime())?.active;
  if (active) return active.postMessage({ notice: n } satisfies ToWorker);
  if (watched()) return;
  const shown = new Notification(n.title, { body: n.body, tag: n.kind, icon: `${base}/icon-192.png` });
  shown.onclick = () => {
    shown.close();
    window.focus();
    go(parseRoute(new URL(n.open, location.origin).search));
  };
}

/** Removes the notices of a kind that the worker has shown. */
export async function closeNotices(kind: Notice["kind"]) {
  const shown = await (await worker())?.getNotifications({ tag: kind });
  for (const n of shown ?? []) n.close();
}
