import { describe, expect, it } from "vitest";
import { exact, hasHidden, plain, visible } from "../src/text/visible";

const marks = (text: string) => visible(text).flatMap((p) => (p.mark ? [p.mark] : []));
const shown = (text: string) =>
  visible(text)
    .map((p) => (p.mark ? `‹${p.mark}›` : p.text))
    .join("");

describe("visible", () => {
  it("leaves ordinary text alone", () => {
    const text = "naïve café 漢字 עברית مرحبا 👍🏽 👩‍👩‍👧 ⚠️ 1️⃣ \ttab\nline";
    expect(visible(text)).toEqual([{ text }]);
    expect(hasHidden(text.replace(/\u200d/g, ""))).toBe(false);
  });

  it.each([
    ["escape", "a\x1b[31mb", "a‹ESC›[31mb"],
    ["override of direction", "a\u202egnp.exe", "a‹RLO›gnp.exe"],
    ["isolates", "\u2066x\u2069", "‹LRI›x‹PDI›"],
    ["zero width", "rm\u200b -rf\u2060", "rm‹ZWSP› -rf‹WJ›"],
    ["joiner without an emoji", "a\u200db", "a‹ZWJ›b"],
    ["C1", "\u009b31m", "‹CSI›31m"],
    ["byte order mark", "\ufeffx", "‹BOM›x"],
    ["tag characters", "x\u{e0041}", "x‹U+E0041›"],
    ["filler", "x\u3164", "x‹U+3164›"],
    ["variation selector", "build\ufe01", "build‹U+FE01›"],
    ["variation selector of an emoji behind a letter", "build\ufe0f 1\ufe0f", "build‹U+FE0F› 1‹U+FE0F›"],
    ["shorthand control", "x\u{1bca0}", "x‹U+1BCA0›"],
    ["hieroglyph control", "x\u{13430}", "x‹U+13430›"],
    ["lone surrogate", "x\ud800y", "x‹U+D800›y"],
    ["carriage return", "safe\rEVIL", "safe‹CR›EVIL"],
    ["separators", "a\u2028b", "a‹LS›b"],
  ])("names what cannot be seen: %s", (_name, text, want) => {
    expect(shown(text)).toBe(want);
    expect(hasHidden(text)).toBe(true);
  });

  it("gives the same answer each time it is asked", () => {
    const text = "a\x1bb\x1bc";
    for (let i = 0; i < 3; i++) {
      expect(hasHidden(text)).toBe(true);
      expect(marks(text)).toEqual(["ESC", "ESC"]);
    }
  });

  it("loses nothing", () => {
    const text = "a\x1b\u202e\n\tb\u200b👩‍👧c";
    expect(
      visible(text)
        .map((p) => p.text)
        .join(""),
    ).toBe(text);
    expect(
      exact(text)
        .map((p) => p.text)
        .join(""),
    ).toBe(text);
  });

  it("marks line breaks and odd blanks where it must be exact", () => {
    expect(exact("a\n\tb\u00a0c\u3000").flatMap((p) => p.mark ?? [])).toEqual([
      "LF",
      "U+0009",
      "NBSP",
      "U+3000",
    ]);
  });

  it("makes one bounded line for titles", () => {
    expect(plain("a\n\n  b\u202e")).toBe("a b‹RLO›");
    expect(plain("x".repeat(1000)).length).toBeLessThan(310);
  });
});
