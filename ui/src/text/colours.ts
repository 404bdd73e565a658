// Colours program text. This module is a script of its own, and so is each
// grammar. The parsers need time in proportion to the text, whatever the text
// is, so a hostile file cannot stop the page as it could with regular
// expressions.

import type { Parser } from "@lezer/common";
import { highlightTree, tags as t, tagHighlighter } from "@lezer/highlight";
import type { Token } from "./spans";

const highlighter = tagHighlighter([
  { tag: [t.keyword, t.self, t.modifier, t.operatorKeyword, t.controlKeyword], class: "syn-keyword" },
  { tag: [t.string, t.special(t.string), t.character, t.regexp, t.monospace], class: "syn-string" },
  { tag: [t.number, t.bool, t.null, t.atom, t.unit, t.color, t.escape], class: "syn-literal" },
  { tag: [t.comment, t.lineComment, t.blockComment, t.docComment, t.meta], class: "syn-comment" },
  { tag: [t.typeName, t.className, t.namespace, t.tagName, t.heading, t.macroName], class: "syn-type" },
  {
    tag: [
      t.function(t.variableName),
      t.function(t.propertyName),
      t.definition(t.function(t.variableName)),
      t.attributeName,
      t.definition(t.propertyName),
      t.labelName,
    ],
    class: "syn-name",
  },
]);

/** Returns the coloured parts of a text, in order and without overlaps. */
export function colour(parser: Parser, text: string): Token[] {
  const out: Token[] = [];
  highlightTree(parser.parse(text), highlighter, (from, to, style) => {
    out.push({ from, to, style: style.split(" ", 1)[0] ?? "" });
  });
  return out;
}
