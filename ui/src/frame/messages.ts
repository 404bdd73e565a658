// The messages between the page and the frame that draws a diagram.

/** What to draw, in the colours of the page. */
export interface ToFrame {
  code: string;
  dark: boolean;
  colours: Record<"background" | "raised" | "line" | "text" | "muted" | "tint", string>;
}

/** What the frame says. The page trusts none of it. */
export type FromFrame =
  | { type: "ready" }
  | { type: "drawn"; height: number } // pixels
  | { type: "failed"; why: string };
