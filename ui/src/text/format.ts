// Formats numbers and times for people.

const units: [Intl.RelativeTimeFormatUnit, number, string][] = [
  ["day", 86_400, "d"],
  ["hour", 3_600, "h"],
  ["minute", 60, "m"],
];

/** "now", "4m", "3h" or "2d"; the date for older times. */
export function ago(iso: string, now: number): string {
  const t = Date.parse(iso);
  if (Number.isNaN(t)) return "";
  const s = Math.max(0, (now - t) / 1000);
  if (s >= 7 * 86_400) return new Date(t).toLocaleDateString(undefined, { day: "numeric", month: "short" });
  for (const [, size, short] of units) if (s >= size) return `${Math.floor(s / size)}${short}`;
  return "now";
}

export function absolute(iso: string): string {
  const t = Date.parse(iso);
  return Number.isNaN(t) ? "" : new Date(t).toLocaleString();
}

/** Milliseconds as "320 ms", "4.1 s", "2 min 5 s" or "1 h 4 min". */
export function duration(ms: number): string {
  if (!Number.isFinite(ms) || ms < 0) return "";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const s = ms / 1000;
  if (s < 10) return `${s.toFixed(1)} s`;
  if (s < 60) return `${Math.floor(s)} s`;
  const m = Math.floor(s / 60);
  if (m < 60) return s % 60 >= 1 ? `${m} min ${Math.floor(s % 60)} s` : `${m} min`;
  return m % 60 ? `${Math.floor(m / 60)} h ${m % 60} min` : `${m / 60} h`;
}

/** Like duration, but in whole seconds, for a time that is still running. */
export function elapsed(ms: number): string {
  const s = Math.floor(ms / 1000);
  return s < 60 ? `${s} s` : duration(s * 1000);
}

export function between(from?: string, to?: string): number | undefined {
  const d = Date.parse(to ?? "") - Date.parse(from ?? "");
  return Number.isNaN(d) || d < 0 ? undefined : d;
}

/** For example 950, 12.3k or 1.2M. */
export function count(n: number): string {
  if (n < 1000) return String(n);
  if (n < 999_500) return `${n < 99_950 ? trim(n / 1000) : Math.round(n / 1000)}k`;
  return `${trim(n / 1e6)}M`;
}

const trim = (n: number) => n.toFixed(1).replace(/\.0$/, "");

export function bytes(n: number): string {
  if (n < 1024) return `${n} B`;
  if (n < 1024 * 1024) return `${trim(n / 1024)} KiB`;
  return `${trim(n / 1024 / 1024)} MiB`;
}

export function cost(usd: number): string {
  if (usd === 0) return "$0";
  return usd < 0.01 ? `$${usd.toFixed(4)}` : `$${usd.toFixed(2)}`;
}

export const plural = (n: number, one: string, many = `${one}s`) =>
  `${n.toLocaleString("en")} ${n === 1 ? one : many}`;

/** The path to display: relative to the project folder if it is inside. */
export function shortPath(path: string, dir: string): string {
  const base = dir.endsWith("/") ? dir : `${dir}/`;
  return dir && path.startsWith(base) ? path.slice(base.length) : path;
}

export function folderName(dir: string): string {
  const parts = dir.split(/[/\\]/).filter(Boolean);
  return parts.at(-1) ?? dir;
}
