// The page's half of this browser's login. The cookie is the other half: a
// browser sends it to every port of the host, and it is worth nothing without
// this, which only pages of this origin can read and which goes nowhere else.

const name = "runnel.key";

let mine: string | undefined; // where nothing can be stored: until the page is left

/** Read anew each time: another tab may have logged in since. */
export function key(): string | undefined {
  try {
    return localStorage.getItem(name) ?? mine;
  } catch {
    return mine;
  }
}

export function keepKey(value: string) {
  mine = value;
  try {
    localStorage.setItem(name, value);
  } catch {
    // then it is known to this tab alone
  }
}
