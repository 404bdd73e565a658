// Runs before the first paint, while the other scripts of the page still arrive:
// applies the theme, and in a browser that is logged in shows the frame that
// index.html contains and loads the scripts of the view. It runs the page's
// script when the frame is painted, and the page's first rendering replaces it.

import { applyTheme } from "../app/theme";
import { parseRoute } from "../model/routes";
import { login } from "../wire/key";

applyTheme();
if (login()) begin(parseRoute(location.search).at);
document.addEventListener("DOMContentLoaded", () => requestAnimationFrame(() => setTimeout(run)));
addEventListener("load", run); // a tab in the background paints nothing

function begin(at: string) {
  document.documentElement.dataset.first = at;
  const view = at === "session" ? "session" : "start";
  for (const script of document.querySelectorAll<HTMLMetaElement>(`meta[name="${view}"]`)) {
    const link = document.createElement("link");
    link.rel = "modulepreload";
    link.crossOrigin = "";
    link.href = script.content;
    document.head.append(link);
  }
}

let running = false;

function run() {
  const page = document.getElementById("page");
  if (running || !(page instanceof HTMLLinkElement)) return; // during development index.html runs the script
  running = true;
  void import(/* @vite-ignore */ page.href);
}
