import { createRoot } from "react-dom/client";
import { App, prepare } from "./app/App";
import { applyTheme } from "./app/theme";
import { parseRoute, takeCode } from "./model/routes";
import { begin, followTheMachine } from "./model/store";
import "./styles.css";
import "./stream/lines.css";

applyTheme();
const code = takeCode();
prepare(parseRoute(location.search));
const root = document.getElementById("root");
if (root) createRoot(root).render(<App />);
followTheMachine();
void begin(code);
// If a login link is opened in a tab that shows the page, only the fragment
// changes.
window.addEventListener("hashchange", () => {
  const again = takeCode();
  if (again) void begin(again);
});
