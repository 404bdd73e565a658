import { load, save } from "../model/keep";

export type Theme = "system" | "light" | "dark";

export const theme = (): Theme => load<Theme>("theme", "system");

export function applyTheme(to: Theme = theme()) {
  save("theme", to === "system" ? undefined : to);
  if (to === "light" || to === "dark") document.documentElement.dataset.theme = to;
  else delete document.documentElement.dataset.theme;
}
