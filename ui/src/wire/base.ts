/**
 * The path of the page without the slash at its end: "" unless a proxy serves
 * the page below a path. Every address of the page begins with it.
 */
export const base = typeof location === "undefined" ? "" : location.pathname.replace(/\/[^/]*$/, "");
