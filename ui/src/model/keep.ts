// Values stored in this browser. The page also works without them, because
// private windows may refuse storage.

import { base } from "../wire/base";

const name = (key: string) => `runnel${base}.${key}`;

export function load<T>(key: string, otherwise: T): T {
  try {
    const text = localStorage.getItem(name(key));
    return text === null ? otherwise : (JSON.parse(text) as T);
  } catch {
    return otherwise;
  }
}

export function save(key: string, value: unknown) {
  try {
    if (value === undefined || value === "") localStorage.removeItem(name(key));
    else localStorage.setItem(name(key), JSON.stringify(value));
  } catch {
    // ignore: only the stored value is lost
  }
}
