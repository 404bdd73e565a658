// The title and the icon of the browser's tab, which also say how many sessions
// need somebody.

import { useEffect } from "react";
import { useStore } from "../model/store";
import { needsYou } from "../sessions/groups";
import { plain } from "../text/visible";
import { base } from "../wire/base";

/** Keeps title and icon up to date. `id` is the session on the screen. */
export function useTab(id: string | undefined) {
  const count = useStore((s) => needsYou(s.sessions.values()).length);
  const title = useStore((s) => (id ? s.sessions.get(id)?.title : undefined));
  useEffect(() => {
    document.title = titleOf(count, title);
    return () => {
      document.title = titleOf(0);
    };
  }, [count, title]);
  useEffect(() => {
    setIcon(count);
    return () => setIcon(0);
  }, [count]);
}

export function titleOf(count: number, title?: string): string {
  const name = title === undefined ? "" : ` – ${plain(title, 60) || "New session"}`;
  return `${count > 0 ? `(${count}) ` : ""}Runnel${name}`;
}

const file = `${base}/icon.svg`;

function setIcon(count: number) {
  const link = document.querySelector<HTMLLinkElement>("link[rel=icon]");
  if (!link) return;
  const drawn = count > 0 ? badged(count) : undefined;
  link.type = drawn ? "image/png" : "image/svg+xml";
  link.href = drawn ?? file;
}

const size = 64; // px

/**
 * Draws the page's icon with a number in its corner, as a PNG in a data: URL.
 * The drawing is that of icon.svg. Returns undefined if the browser cannot
 * draw.
 */
function badged(count: number): string | undefined {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = size;
  const c = canvas.getContext("2d");
  if (!c) return undefined;
  c.scale(size / 32, size / 32);
  c.fillStyle = "#12343b";
  c.beginPath();
  c.roundRect(0, 0, 32, 32, 7);
  c.fill();
  c.strokeStyle = "#7fd6e0";
  c.lineWidth = 2.6;
  c.lineCap = "round";
  c.stroke(new Path2D("M8 8c0 6 8 5 8 10s-4 4-4 7M16 7c0 5 7 5 7 10s-4 5-4 8"));

  const x = 21.5;
  const disc = (radius: number) => {
    c.beginPath();
    c.arc(x, x, radius, 0, 2 * Math.PI);
    c.fill();
  };
  c.globalCompositeOperation = "destination-out";
  disc(12);
  c.globalCompositeOperation = "source-over";
  c.fillStyle = "#f0a020";
  disc(10.5);
  c.fillStyle = "#12343b";
  c.font = `bold ${count > 9 ? 12 : 17}px sans-serif`;
  c.textAlign = "center";
  c.textBaseline = "middle";
  c.fillText(count > 9 ? "9+" : String(count), x, x + 1);
  return canvas.toDataURL("image/png");
}
