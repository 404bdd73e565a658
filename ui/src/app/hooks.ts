import { useEffect, useState } from "react";

/** The current time, updated every `every` ms while `on`. */
export function useNow(every: number, on = true): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    if (!on) return;
    setNow(Date.now());
    const id = setInterval(() => setNow(Date.now()), every);
    return () => clearInterval(id);
  }, [every, on]);
  return now;
}

export function useMedia(query: string): boolean {
  const [is, setIs] = useState(() => matchMedia(query).matches);
  useEffect(() => {
    const m = matchMedia(query);
    const f = () => setIs(m.matches);
    f();
    m.addEventListener("change", f);
    return () => m.removeEventListener("change", f);
  }, [query]);
  return is;
}

/** Whether the page is dark, by its switch or else by the system. */
export function useDark(): boolean {
  const system = useMedia("(prefers-color-scheme: dark)");
  const [chosen, setChosen] = useState(() => document.documentElement.dataset.theme);
  useEffect(() => {
    const changed = new MutationObserver(() => setChosen(document.documentElement.dataset.theme));
    changed.observe(document.documentElement, { attributeFilter: ["data-theme"] });
    return () => changed.disconnect();
  }, []);
  return chosen ? chosen === "dark" : system;
}

export const useWide = () => useMedia("(width >= 48rem)");

/** Whether the target of a key event is a field, which handles keys itself. */
export function typing(e: KeyboardEvent): boolean {
  const t = e.target as HTMLElement | null;
  return !!t && (t.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(t.tagName));
}
