// What this browser remembers. It works without: private windows refuse storage.

const name = (key: string) => `runnel.${key}`;

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
    // nothing is lost but the memory of it
  }
}
