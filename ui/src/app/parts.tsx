// Parts of the page whose scripts are not in the first one. They are loaded
// ahead, soon after the first view is drawn, so that a tab needs no script
// later, when another program may use the server's address.

import { type ComponentType, createElement, type ReactNode, useEffect, useState } from "react";
import { offerReload, useStore } from "../model/store";
import { proof } from "../wire/proof";

/** A component whose script is loaded separately. */
export interface Part<P> {
  (props: P): ReactNode;
  /**
   * Loads the script before the part is shown. With `proven`, the server has
   * just sent another script of the page, and need not prove its identity.
   */
  ahead: (proven?: boolean) => void;
}

let waiting: (() => void)[] | undefined = []; // the parts to load ahead; absent once they are being loaded

/** Loads all parts when the browser has time, also those that belong to others. */
export function loadAhead() {
  const load = () => {
    const parts = waiting ?? [];
    waiting = undefined;
    for (const ahead of parts) ahead();
  };
  if ("requestIdleCallback" in window) requestIdleCallback(load, { timeout: 2000 });
  else setTimeout(load, 500);
}

/**
 * Loads a script by an import, after the server has proved its identity.
 * Nothing else on the page may import a script while it runs.
 */
export async function script<T>(load: () => Promise<T>): Promise<T> {
  await proof();
  return load();
}

/**
 * Makes a part of the page, which shows `shape` until its script is loaded. If
 * the script cannot be loaded, the part tries again once the server responds.
 * If that fails, too, the page must be reloaded: a restarted server has new
 * addresses for all scripts. A part beside a composer only offers the reload,
 * because it could cut off a prompt that the user is sending. A `view` fills
 * the page, so there is no composer, and it reloads the page at once.
 */
export function part<P extends object>(
  load: () => Promise<ComponentType<P>>,
  shape: ReactNode = null,
  { view = false } = {},
): Part<P> {
  let loaded: ComponentType<P> | undefined;
  let loading: Promise<void> | undefined;
  const get = (proven = false): Promise<void> => {
    loading ??= (proven ? load() : script(load))
      .then((component) => {
        loaded = component;
      })
      .finally(() => {
        loading = undefined;
      });
    return loading;
  };
  const View: Part<P> = (props) => {
    const [state, setState] = useState(loaded ? "loaded" : "loading");
    useEffect(() => {
      if (loaded) return setState("loaded");
      get()
        .catch(() => connected().then(() => get()))
        .catch(view ? renew : offerReload)
        .then(
          () => setState("loaded"),
          () => setState("failed"),
        );
    }, []);
    if (state === "failed") return <Failed />;
    return loaded ? createElement(loaded, props) : shape;
  };
  View.ahead = (proven) => {
    if (!loaded) get(proven).catch(() => {}); // the part tries again when it is shown
  };
  if (waiting) waiting.push(View.ahead);
  else View.ahead();
  return View;
}

const renewed = "runnel.renewed"; // when this tab was last reloaded for a part
const rarely = 60_000; // ms between two such reloads, so that they never form a loop

/**
 * Reloads the page. The promise fails if that was tried already, and otherwise
 * never settles.
 */
function renew(): Promise<never> {
  const now = Date.now();
  if (now - Number(sessionStorage.getItem(renewed) ?? 0) < rarely) throw new Error("reloaded in vain");
  sessionStorage.setItem(renewed, String(now));
  location.reload();
  return new Promise(() => {});
}

/** Resolves once the tab is connected to the server that it knows. */
function connected(): Promise<void> {
  return new Promise((resolve) => {
    const look = () => {
      if (useStore.getState().link !== "open") return;
      stop();
      resolve();
    };
    const stop = useStore.subscribe(look);
    look();
  });
}

function Failed() {
  return (
    <main id="main" className="m-auto p-6 text-center">
      <div role="alert">
        <h1>A part of the page could not be loaded.</h1>
        <button type="button" className="button mt-3" onClick={() => location.reload()}>
          Reload the page
        </button>
      </div>
    </main>
  );
}
