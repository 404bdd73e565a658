// Draws a diagram in a frame. The frame has an origin of its own and its policy
// forbids the network, so it can only draw and report its height.

import type { FromFrame, ToFrame } from "./messages";

// Of the script before this one, see diagram.html.
declare const mermaid: {
  initialize(options: object): void;
  render(id: string, code: string): Promise<{ svg: string }>;
};

const say = (m: FromFrame) => parent.postMessage(m, "*"); // the frame does not know the origin of the page

const host = document.getElementById("diagram") as HTMLElement;

async function draw({ code, dark, colours }: ToFrame) {
  document.documentElement.style.colorScheme = dark ? "dark" : "light";
  document.body.style.background = colours.background;
  mermaid.initialize({
    startOnLoad: false,
    securityLevel: "strict", // no HTML in labels, no links that run code
    suppressErrorRendering: true,
    maxEdges: 300,
    deterministicIds: true,
    htmlLabels: false,
    fontFamily: "system-ui, sans-serif",
    theme: "base",
    themeVariables: {
      darkMode: dark,
      fontSize: "14px",
      background: colours.background,
      primaryColor: colours.raised,
      primaryTextColor: colours.text,
      primaryBorderColor: colours.muted,
      secondaryColor: colours.tint,
      tertiaryColor: colours.background,
      lineColor: colours.muted,
      textColor: colours.text,
      edgeLabelBackground: colours.background,
      noteBkgColor: colours.tint,
      noteTextColor: colours.text,
      noteBorderColor: colours.muted,
    },
  });
  const { svg } = await mermaid.render("drawing", code);
  host.innerHTML = svg;
  const report = () => say({ type: "drawn", height: Math.ceil(host.getBoundingClientRect().height) });
  new ResizeObserver(report).observe(host);
}

window.addEventListener("message", (e: MessageEvent<ToFrame>) => {
  if (e.source !== parent) return;
  draw(e.data).catch((err) => say({ type: "failed", why: err instanceof Error ? err.message : String(err) }));
});
say({ type: "ready" });
