// Colours program text. This module is a script of its own, and so is each
// grammar. For nearly all texts, the parsers need time in proportion to the
// text. Of others, such as hostile ones, nothing is coloured, so that they cannot
// stop the page.

import type { Parser, Tree } from "@lezer/common";
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

const longest = 500; // ms
const longestStep = 50; // ms; a longer step has mostly waited for a processor that others use

/**
 * Returns the coloured parts of a text, in order and without overlaps; none if
 * the parser needs too long.
 */
export function colour(parser: Parser, text: string): Token[] {
  const out: Token[] = [];
  const tree = parsed(parser, text);
  if (!tree) return out;
  highlightTree(tree, highlighter, (from, to, style) => {
    out.push({ from, to, style: style.split(" ", 1)[0] ?? "" });
  });
  return out;
}

function parsed(parser: Parser, text: string): Tree | undefined {
  const parse = parser.startParse(text);
  for (let left = longest; left > 0; ) {
    const begun = performance.now();
    const tree = parse.advance();
    if (tree) return tree;
    left -= Math.min(performance.now() - begun, longestStep);
  }
  return undefined;
}
