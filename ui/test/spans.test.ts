import { parser as cpp } from "@lezer/cpp";
import { parser as go } from "@lezer/go";
import fc from "fast-check";
import { afterEach, describe, expect, it, vi } from "vitest";
import { colour } from "../src/text/colours";
import { languageOf, languageOfFile } from "../src/text/language";
import { byLine, colourHunk, type Span, type Token } from "../src/text/spans";

afterEach(() => vi.restoreAllMocks());

const textOf = (spans: readonly Span[]) => spans.map((s) => s.text).join("");

describe("byLine", () => {
  it("cuts a token at line breaks", () => {
    expect(byLine("a /*\nb */ c", [{ from: 2, to: 9, style: "x" }])).toEqual([
      [{ text: "a " }, { text: "/*", style: "x" }],
      [{ text: "b */", style: "x" }, { text: " c" }],
    ]);
  });
  it("keeps every line as it is, whatever the tokens are", () => {
    const cuts = fc.array(fc.nat(40), { maxLength: 12 }).map((ns) => ns.sort((a, b) => a - b));
    fc.assert(
      fc.property(fc.string({ unit: fc.constantFrom("a", "\n", " "), maxLength: 40 }), cuts, (text, at) => {
        const tokens: Token[] = at.slice(1).map((to, i) => ({ from: at[i] as number, to, style: "x" }));
        expect(byLine(text, tokens).map(textOf)).toEqual(text.split("\n"));
      }),
    );
  });
});

describe("colour", () => {
  it("gives up a text for which the parser needs too long", () => {
    let now = 0;
    const clock = vi.spyOn(performance, "now").mockImplementation(() => now++); // 1 ms for each step of the parser
    expect(colour(go, "return 1")).not.toEqual([]);
    expect(colour(cpp, '{"a":'.repeat(12_000))).toEqual([]);
    expect(clock.mock.calls.length).toBeLessThan(2000);
  });

  it("counts little of a step in which others used the processor", () => {
    let [now, calls] = [0, 0];
    vi.spyOn(performance, "now").mockImplementation(() => {
      calls += 1;
      if (calls < 10) now += 1000;
      return now;
    });
    expect(colour(go, "func f1500() int { return 1 }")).not.toEqual([]);
  });
});

describe("colourHunk", () => {
  it("colours the old and the new text of a hunk separately", () => {
    const lines = [' s := "a', "-x := 1", '+" + y', " // end"];
    const seen: string[] = [];
    const spans = colourHunk(lines, (text) => {
      seen.push(text);
      return [];
    });
    expect(seen.sort()).toEqual(['s := "a\n" + y\n// end', 's := "a\nx := 1\n// end']);
    expect(spans.map(textOf)).toEqual(lines.map((l) => l.slice(1)));
  });
  it("colours by the grammar of the language", () => {
    const [first] = colourHunk(['+return "hi" // said'], (text) => colour(go, text));
    expect(first).toEqual([
      { text: "return", style: "syn-keyword" },
      { text: " " },
      { text: '"hi"', style: "syn-string" },
      { text: " " },
      { text: "// said", style: "syn-comment" },
    ]);
  });
});

it("knows languages by the ends of file names and by labels", () => {
  expect([languageOfFile("a/b.test.ts"), languageOfFile("Makefile"), languageOfFile("a.go/x")]).toEqual([
    "typescript",
    undefined,
    undefined,
  ]);
  expect([languageOf("Python"), languageOf("sh"), languageOf("constructor")]).toEqual([
    "python",
    undefined,
    undefined,
  ]);
});
