// Runs before the first paint, while the other scripts of the page still arrive:
// applies the theme, and in a browser that is logged in shows the frame that
// index.html contains and loads the scripts of the view. The page's first
// rendering replaces that frame.

import { applyTheme } from "../app/theme";
import { parseRoute } from "../model/routes";
import { login } from "../wire/key";

applyTheme();
if (login()) begin(parseRoute(location.search).at);

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
