// Prepares each test file. All files run in one process, which loads React and
// the other libraries once. So that no file depends on an earlier one, each
// begins with new modules of the page, an empty document and an empty storage.

import { vi } from "vitest";

vi.resetModules();

if (typeof window !== "undefined") {
  document.documentElement.replaceChildren(document.createElement("head"), document.createElement("body"));
  localStorage.clear();
  sessionStorage.clear();
  history.replaceState(null, "", "/");

  // jsdom has no media queries. The tests see a wide window.
  window.matchMedia ??= (media: string) =>
    Object.assign(new EventTarget(), {
      media,
      matches: media.startsWith("(width"),
    }) as unknown as MediaQueryList;
}
