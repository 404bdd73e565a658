// The file that the viewer shows.

import { create } from "zustand";
import type { FilePlace } from "../text/places";

/** A place in a file of a session's folder. */
export interface Viewed extends FilePlace {
  session: string;
}

const useOpen = create<{ file?: Viewed }>(() => ({}));

export const openFile = (file: Viewed) => useOpen.setState({ file });

export const closeFile = () => useOpen.setState({ file: undefined });

/** The open file of a session. */
export const useViewed = (session: string): Viewed | undefined =>
  useOpen(({ file }) => (file?.session === session ? file : undefined));
