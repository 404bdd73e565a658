// Values stored in this browser. The page also works without them, because
// private windows may refuse storage.

import { base } from "../wire/base";

const name = (key: string) => `runnel${base}.${key}`;

export const load = <T>(key: string, otherwise: T): T => read(() => localStorage, key, otherwise);

export const save = (key: string, value: unknown) => write(() => localStorage, key, value);

/** The same for values that belong to this tab and survive its reload. */
export const loadOfTab = <T>(key: string, otherwise: T): T => read(() => sessionStorage, key, otherwise);

export const saveOfTab = (key: string, value: unknown) => write(() => sessionStorage, key, value);

function read<T>(storage: () => Storage, key: string, otherwise: T): T {
  try {
    const text = storage().getItem(name(key));
    return text === null ? otherwise : (JSON.parse(text) as T);
  } catch {
    return otherwise;
  }
}

function write(storage: () => Storage, key: string, value: unknown) {
  try {
    if (value === undefined || value === "") storage().removeItem(name(key));
    else storage().setItem(name(key), JSON.stringify(value));
  } catch {
    // ignore: only the stored value is lost
  }
}
