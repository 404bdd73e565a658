// A service worker that controls a page receives every request of the page. The
// page's own worker controls none. A worker that controls the page was therefore
// left by another program that used the server's address.

import { ApiError } from "./error";

/** Throws if a service worker controls the page, and has the worker removed. */
export function alone() {
  if (!navigator.serviceWorker?.controller) return;
  remove().catch(() => {}); // the person reads the error and can reload
  throw new ApiError(
    "FOREIGN_WORKER",
    "A service worker of another program receives the requests of this page, so the page sent nothing. It removes the worker and reloads.",
    0,
  );
}

let removing: Promise<void> | undefined;

const remove = () => {
  removing ??= (async () => {
    for (const r of await navigator.serviceWorker.getRegistrations()) await r.unregister();
    location.reload();
  })();
  return removing;
};
