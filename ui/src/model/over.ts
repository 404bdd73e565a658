// What lies over the whole page.

import { create } from "zustand";

export type Over = "keys" | "palette" | "audit" | "mcp" | "retention";

export const useOver = create<{ over?: Over }>(() => ({}));

export const openOver = (over: Over) => useOver.setState({ over });

export const closeOver = () => useOver.setState({ over: undefined });
