// Runs before the first paint, while the other scripts of the page still arrive:
// applies the theme, and lets a browser that is logged in show the frame that
// index.html contains. The page's first rendering replaces that frame.

import { applyTheme } from "../app/theme";
import { parseRoute } from "../model/routes";
import { login } from "../wire/key";

applyTheme();
if (login()) document.documentElement.dataset.first = parseRoute(location.search).at;
