// The page's service worker. It shows notices, and receives notes through Web
// Push. It controls no page, so no request of the page passes through it.

import type { Notice, NoticeKind, ToPage, ToWorker } from "./messages";

declare const self: ServiceWorkerGlobalScope;

const file = self.location.pathname; // our only scope; no page has an address that begins with it
const base = file.replace(/\/[^/]*$/, ""); // path of the page, as in wire/base.ts

let replaces = false; // another worker had the same scope before

self.addEventListener("install", () => {
  replaces = self.registration.active !== null;
  void self.skipWaiting();
});

// Another program that used our address while the server was down may have left
// a worker at our address, which controls pages. The browser replaces its
// script with this one. Neither the worker nor what it has shown must stay.
self.addEventListener("activate", (e) => {
  const start = async () => {
    if (new URL(self.registration.scope).pathname !== file) {
      await self.registration.unregister();
      for (const page of await self.clients.matchAll({ type: "window" }))
        await page.navigate(page.url).catch(() => {});
    } else if (replaces) for (const n of await self.registration.getNotifications()) n.close();
  };
  e.waitUntil(start());
});

self.addEventListener("message", (e) => {
  const message: ToWorker = e.data; // only pages of this origin can send one
  e.waitUntil(show(message.notice));
});

/** Whether somebody looks at the page. */
async function watched(): Promise<boolean> {
  const pages = await self.clients.matchAll({ type: "window", includeUncontrolled: true });
  return pages.some((p) => p.focused && p.visibilityState === "visible");
}

/**
 * Shows a notice of an open tab, unless somebody looks at the page or another
 * tab has shown the same. There is at most one notice of each kind.
 */
async function show(n: Notice) {
  if (await watched()) return;
  const before = await self.registration.getNotifications({ tag: n.kind });
  if (before.some((b) => b.title === n.title && b.body === n.body)) return;
  await notify(n.title, { body: n.body, tag: n.kind, data: n.open, renotify: before.length > 0 });
}

type Options = NotificationOptions & { renotify?: boolean };

const notify = (title: string, options: Options) =>
  self.registration.showNotification(title, {
    icon: `${base}/icon-192.png`,
    badge: `${base}/icon-192.png`,
    ...options,
  } as NotificationOptions);

const texts: Record<NoticeKind, string> = {
  "needs-you": "A session needs you",
  finished: "A session has finished",
};

self.addEventListener("push", (e) => {
  const received = async () => {
    if (await watched()) return;
    let kind: unknown;
    try {
      kind = e.data?.json()?.kind;
    } catch {
      // the message is not one of our notes
    }
    // Browsers require that every message shows something.
    const tag: NoticeKind = kind === "finished" ? kind : "needs-you";
    const [before] = await self.registration.getNotifications({ tag });
    // A tab may have shown a notice with the session's title already.
    if (before) await notify(before.title, { body: before.body, tag, data: before.data, silent: true });
    else await notify(texts[tag], { tag, data: `${base}/` });
  };
  e.waitUntil(received());
});

self.addEventListener("notificationclick", (e) => {
  e.notification.close();
  const open = async () => {
    const to = typeof e.notification.data === "string" ? e.notification.data : `${base}/`;
    const pages = await self.clients.matchAll({ type: "window", includeUncontrolled: true });
    const page = pages.find((p) => p.visibilityState === "visible") ?? pages[0];
    if (!page) return void (await self.clients.openWindow(to));
    page.postMessage({ open: to } satisfies ToPage);
    await page.focus().catch(() => {});
  };
  e.waitUntil(open());
});
