import { useEffect, useRef, useState } from "react";
import { useDark } from "../app/hooks";
import { script } from "../app/parts";
import type { FromFrame, ToFrame } from "../frame/messages";
import { base } from "../wire/base";

const largest = 20_000; // characters of the code of a diagram
const patience = 15_000; // ms until the code is shown in place of a diagram that does not appear
const tallest = 900; // pixels; a taller diagram scrolls in its frame

/**
 * A diagram of Mermaid code. The library runs in a frame that has an origin of
 * its own and no network. The frame receives the code and returns its height;
 * all else that it says is ignored. `onProblem` reports why there is no diagram.
 */
export function Diagram({ code, onProblem }: { code: string; onProblem: (why: string) => void }) {
  const frame = useRef<HTMLIFrameElement>(null);
  const [proven, setProven] = useState(false);
  const [height, setHeight] = useState<number>();
  const dark = useDark();
  const failed = useRef(onProblem);
  failed.current = onProblem;

  useEffect(() => {
    if (code.length > largest) return failed.current(`the code has more than ${largest} characters.`);
    script(async () => setProven(true)).catch(() => failed.current("the server is not responding."));
  }, [code]);

  useEffect(() => {
    if (!proven) return;
    const late = setTimeout(() => failed.current("it took too long."), patience);
    const receive = (e: MessageEvent<FromFrame>) => {
      const to = frame.current?.contentWindow;
      if (!to || e.source !== to) return;
      const said = e.data;
      if (said?.type === "ready") to.postMessage({ code, dark, colours: colours() } satisfies ToFrame, "*");
      else if (said?.type === "drawn" && Number.isFinite(said.height)) {
        clearTimeout(late);
        setHeight(Math.max(40, Math.min(tallest, said.height)));
      } else if (said?.type === "failed") failed.current(String(said.why).slice(0, 300));
    };
    window.addEventListener("message", receive);
    return () => {
      clearTimeout(late);
      window.removeEventListener("message", receive);
    };
  }, [proven, code, dark]);

  if (!proven) return <div className="diagram shape" />;
  return (
    <iframe
      key={`${dark}`}
      ref={frame}
      title="Diagram"
      className="diagram"
      sandbox="allow-scripts"
      src={`${base}/frame/diagram.html`}
      style={{ height }}
      data-drawn={height !== undefined || undefined}
    />
  );
}

/** The colours of the page, as they are now. */
function colours(): ToFrame["colours"] {
  const probe = document.createElement("span");
  document.body.append(probe);
  const colour = (name: string) => {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
  };
  const all = {
    background: colour("panel"),
    raised: colour("raised"),
    line: colour("line"),
    text: colour("text"),
    muted: colour("muted"),
    tint: colour("tint"),
  };
  probe.remove();
  return all;
}
