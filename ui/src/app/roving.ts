import { type KeyboardEvent, type RefObject, useEffect } from "react";

const stops = "a[href], button:not(:disabled)";

/**
 * Makes a list one stop of the Tab key: the arrow keys, Home and End move the
 * focus between its links and buttons. Tab comes to the one that had the focus
 * last, else to the current one, else to the first.
 */
export function useRoving(list: RefObject<HTMLElement | null>) {
  useEffect(() => {
    const box = list.current;
    if (!box) return;
    let last: Element | undefined;
    const arrange = () => {
      const all = stopsIn(box);
      const current = all.find((e) => e.getAttribute("aria-current"));
      const stop = all.find((e) => e === last) ?? current ?? all[0];
      for (const e of all) {
        const index = e === stop ? 0 : -1;
        if (e.tabIndex !== index) e.tabIndex = index;
      }
    };
    const focused = (e: FocusEvent) => {
      const stop = (e.target as Element).closest(stops);
      if (!stop || stop === last) return;
      last = stop;
      arrange();
    };
    arrange();
    const changed = new MutationObserver(arrange);
    changed.observe(box, { childList: true, subtree: true, attributeFilter: ["aria-current", "disabled"] });
    box.addEventListener("focusin", focused);
    return () => {
      changed.disconnect();
      box.removeEventListener("focusin", focused);
    };
  }, [list]);
}

const stopsIn = (box: HTMLElement) => [...box.querySelectorAll<HTMLElement>(stops)];

/** Moves the focus within a list that uses useRoving. */
export function rove(e: KeyboardEvent<HTMLElement>) {
  if (e.ctrlKey || e.metaKey || e.altKey || e.shiftKey) return;
  const all = stopsIn(e.currentTarget);
  const at = all.indexOf(e.target as HTMLElement);
  if (at < 0) return; // such as in a field within the list
  const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: all.length - 1 }[e.key];
  if (to === undefined) return;
  e.preventDefault();
  all[to]?.focus();
}
