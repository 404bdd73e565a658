// The grammars of the languages that the page can colour. Each is a script of
// its own.

import type { Parser } from "@lezer/common";
import { script } from "../app/parts";
import type { Language } from "../text/language";

const javascript = (dialect: string) => () =>
  script(() => import("@lezer/javascript")).then((m) => m.parser.configure({ dialect }));

export const grammars: Record<Language, () => Promise<Parser>> = {
  cpp: () => script(() => import("@lezer/cpp")).then((m) => m.parser),
  css: () => script(() => import("@lezer/css")).then((m) => m.parser),
  go: () => script(() => import("@lezer/go")).then((m) => m.parser),
  html: () => script(() => import("@lezer/html")).then((m) => m.parser),
  java: () => script(() => import("@lezer/java")).then((m) => m.parser),
  javascript: javascript("jsx"),
  json: () => script(() => import("@lezer/json")).then((m) => m.parser),
  markdown: () => script(() => import("@lezer/markdown")).then((m) => m.parser),
  // A part of a file seldom has the tag that begins a program.
  php: () => script(() => import("@lezer/php")).then((m) => m.parser.configure({ top: "Program" })),
  python: () => script(() => import("@lezer/python")).then((m) => m.parser),
  rust: () => script(() => import("@lezer/rust")).then((m) => m.parser),
  typescript: javascript("ts"),
  tsx: javascript("jsx ts"),
  xml: () => script(() => import("@lezer/xml")).then((m) => m.parser),
  yaml: () => script(() => import("@lezer/yaml")).then((m) => m.parser),
};
