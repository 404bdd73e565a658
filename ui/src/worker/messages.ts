// The messages between the page and its service worker. There are only types
// here, because the worker is a script without imports.

export type NoticeKind = "needs-you" | "finished";

/** A notice that a browser shows. */
export interface Notice {
  kind: NoticeKind;
  title: string;
  body: string;
  open: string; // address within the page to open by a click
}

/** To the worker: show a notice. */
export interface ToWorker {
  notice: Notice;
}

/** To a page: somebody clicked a notice. */
export interface ToPage {
  open: string;
}
