// Recognises the language of a file by its name, and of a block of code by its
// label.

const names = {
  cpp: "c cc cpp cxx h hh hpp hxx ino",
  css: "css",
  go: "go golang",
  html: "html htm",
  java: "java",
  javascript: "js jsx mjs cjs javascript",
  json: "json jsonl webmanifest",
  markdown: "md markdown",
  php: "php",
  python: "py pyi python",
  rust: "rs rust",
  typescript: "ts mts cts typescript",
  tsx: "tsx",
  xml: "xml svg xsl xsd plist",
  yaml: "yaml yml",
};

/** A language whose text the page can colour. */
export type Language = keyof typeof names;

const byName = new Map(
  Object.entries(names).flatMap(([l, all]) => all.split(" ").map((n) => [n, l as Language])),
);

/** The language of a label such as "ts" or "Python". */
export const languageOf = (label: string): Language | undefined => byName.get(label.toLowerCase());

/** The language of the file at a path. */
export const languageOfFile = (path: string): Language | undefined =>
  languageOf(/\.([^./\\]+)$/.exec(path)?.[1] ?? "");
