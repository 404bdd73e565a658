import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { terminal, textOf } from "../src/text/terminal";
import { cpuTime } from "./cpu";

const text = (output: string) =>
  terminal(output).lines.map((l) => l.map((s) => (s.mark ? `‹${s.mark}›` : s.text)).join(""));
const classes = (output: string) => terminal(output).lines[0]?.map((s) => [s.text, s.className]);

describe("a terminal's output", () => {
  it("has lines, also of Windows", () => {
    expect(text("a\r\nb\nc\n")).toEqual(["a", "b", "c"]);
    expect(text("a\r\r\n\n")).toEqual(["a", ""]);
    expect(text("")).toEqual([""]);
  });

  it("draws colours and weights", () => {
    expect(classes("\x1b[1;31mFAIL\x1b[0m ok\x1b[2m dim\x1b[m")).toEqual([
      ["FAIL", "ansi-1 font-semibold"],
      [" ok", ""],
      [" dim", "text-muted"],
    ]);
    expect(classes("\x1b[3;4;9mx\x1b[23;24;29my")).toEqual([
      ["x", "italic underline line-through"],
      ["y", ""],
    ]);
    expect(classes("\x1b[7mx\x1b[27my\x1b[41mz")).toEqual([
      ["x", "ansi-inverse"],
      ["y", ""],
      ["z", "ansi-on ansi-on-1"],
    ]);
  });

  it.each([
    ["a progress line", "10 %\r50 %\rdone\n", ["done"]],
    ["a shorter line over a longer one", "downloading\rdone", ["doneloading"]],
    ["erasing to the end", "downloading\r\x1b[Kdone", ["done"]],
    ["erasing from the middle", "abcdef\b\b\b\x1b[Kx", ["abcx"]],
    ["erasing to the beginning", "abcdef\b\b\x1b[1Kx", ["    xf"]],
    ["erasing all of a line", "abc\x1b[2Kd", ["   d"]],
    ["backspaces", "tyop\b\b\bpo!", ["tpo!"]],
    ["backspaces at the beginning", "\b\b\bx", ["x"]],
    ["bold as of nroff", "N\bNA\bA", ["NA"]],
    ["accents", "e\u0301x\rE", ["Ex"]],
    ["one line only", "a\nb\rc", ["a", "c"]],
  ])("writes over: %s", (_name, output, want) => expect(text(output)).toEqual(want));

  it("keeps the colour of what is not written over", () => {
    expect(classes("\x1b[31mabc\x1b[0m\rX")).toEqual([
      ["X", ""],
      ["bc", "ansi-1"],
    ]);
  });

  it.each([
    ["cursor movement", "a\x1b[5;7Hb\x1b[2A", "ab", 2],
    ["clearing", "a\x1b[2Jb\x1bcd", "abd", 2],
    ["the other screen", "\x1b[?1049hvi\x1b[?1049l", "vi", 2],
    ["a link, but its text", "\x1b]8;;http://evil.example\x07text\x1b]8;;\x1b\\", "text", 2],
    ["the clipboard", "\x1b]52;c;cm0gLXJm\x1b\\x", "x", 1],
    ["the title", "\x1b]0;root@bank\x07x", "x", 1],
    ["a device string", "\x1bPq#0\x1b\\x", "x", 1],
    ["an application's string", "\x1b_Gf=100;AAAA\x1b\\x", "x", 1],
    ["a character set", "\x1b(0x\x0e", "x", 2],
    ["eight-bit CSI and OSC", "\x9b2Jx\x9d0;t\x9cy", "xy", 2],
    ["bells and padding", "x\x07\0\x7fy", "xy", 3],
    ["requests to answer", "\x1b[6n\x1b[c\x1b[>0qx", "x", 3],
    ["private SGR", "\x1b[>4;2m\x1b[?1mx", "x", 2],
    ["an unfinished sequence at the end", "x\x1b[3", "x", 1],
    ["an unfinished string at the end", "x\x1b]0;ti", "x", 1],
    ["an escape at the end", "x\x1b", "x", 1],
  ])("obeys nothing of %s", (_name, output, want, skipped) => {
    expect(text(output)).toEqual([want]);
    expect(terminal(output).skipped).toBe(skipped);
  });

  it("does not lose what follows a string that has no end", () => {
    expect(text("\x1b]0;title\nrm -rf ~\n")).toEqual(["", "rm -rf ~"]);
    const long = "x".repeat(10_000);
    expect(text(`\x1bP${long}`)).toEqual([long]);
  });

  it("names what would turn text around or hide in it", () => {
    expect(text("a\u202eb\u200bc")).toEqual(["a‹RLO›b‹ZWSP›c"]);
    expect(text("a\x01\x85b")).toEqual(["a‹U+0001›‹NEL›b"]);
  });

  it("gives its text to the clipboard", () => {
    expect(textOf(terminal("\x1b[31ma\x1b[0mb\nc\rd").lines)).toBe("ab\nd");
  });
});

// Parts of sequences, complete sequences and text, in any order.
const hostile = fc
  .array(
    fc.oneof(
      fc.constantFrom(
        "\x1b",
        "\x1b[",
        "\x1b]",
        "\x1bP",
        "\x9b",
        "\x9d",
        "\x9c",
        "\x07",
        "\r",
        "\b",
        "\n",
        "\r\n",
        "\x1b\\",
        "\x1b[31m",
        "\x1b[0m",
        "\x1b[999999999999m",
        "\x1b[38;2;",
        "\x1b[K",
        "\x1b[1K",
        "\x1b[2K",
        "\x1b[999999C",
        "8;;javascript:alert(1)",
        "<script>alert(1)</script>",
        "\u0301",
        "\u200d",
        "👩‍💻",
        "\ud800",
        "\u202e",
      ),
      fc.string({ unit: "binary", maxLength: 8 }),
      fc.string({ maxLength: 8 }),
    ),
    { maxLength: 60 },
  )
  .map((parts) => parts.join(""));

describe("hostile output", () => {
  const known =
    /^(ansi-(\d|inverse|on ansi-on-\d)|text-muted|font-semibold|italic|underline|line-through| )*$/;

  it("becomes text and known classes, and never more than it was", () => {
    fc.assert(
      fc.property(hostile, (output) => {
        const { lines } = terminal(output);
        let length = 0;
        for (const line of lines)
          for (const span of line) {
            length += span.text.length;
            expect(span.className).toMatch(known);
            if (!span.mark) expect(span.text).not.toMatch(/[\0-\x08\x0a-\x1f\x7f-\x9f\u202a-\u202e]/);
          }
        expect(length).toBeLessThanOrEqual(output.length);
        expect(lines.length).toBeLessThanOrEqual(output.split("\n").length);
      }),
      { numRuns: 3000 },
    );
  });

  it("does not depend on where it was cut, once the next piece is there", () => {
    fc.assert(
      fc.property(hostile, hostile, (a, b) => {
        // Complete lines do not change when more output follows.
        const before = terminal(`${a}\n`).lines;
        expect(textOf(terminal(`${a}\n${b}`).lines.slice(0, before.length))).toBe(textOf(before));
      }),
    );
  });

  it("leaves plain text as it is", () => {
    fc.assert(
      fc.property(fc.string(), (s) => {
        const plain = s.replace(/[\x7f\r]/g, "");
        expect(textOf(terminal(plain).lines)).toBe(plain.replace(/\n$/, ""));
      }),
    );
  });

  it.each([
    ["unfinished strings", "\x1b]".repeat(200_000)],
    ["unfinished strings that begin with one character", "\x9d".repeat(200_000)],
    ["long unfinished strings", `\x1b]${"x".repeat(4000)}`.repeat(100)],
    ["unfinished sequences", "\x1b[".repeat(200_000)],
    ["parameters", `\x1b[${"1;".repeat(200_000)}m`],
    ["parameters without an end", `\x1b[${"1;".repeat(200_000)}`],
    ["a line written over and over", `${"x".repeat(2000)}\r`.repeat(200)],
    ["erasing to the beginning", `${"x".repeat(50_000)}${"\x1b[1K".repeat(100_000)}`],
    ["erasing and going back", `${"x".repeat(50_000)}${"\x1b[1K\b".repeat(50_000)}`],
    ["erasing whole lines", `${"x".repeat(50_000)}${"\x1b[2K".repeat(100_000)}`],
    ["erasing and writing", `${"x".repeat(50_000)}${"\x1b[1Kx\b\b".repeat(50_000)}`],
    ["erasing to the end", `${"x".repeat(50_000)}${"\r\x1b[Kx".repeat(50_000)}`],
    ["lines", "\n".repeat(400_000)],
    ["carriage returns", "\r".repeat(400_000)],
    ["backspaces", `x${"\b".repeat(400_000)}`],
    ["colours", "\x1b[31mx".repeat(60_000)],
    ["accents", `x\r${"\u0301".repeat(200_000)}`],
    ["one long line", "x".repeat(1_000_000)],
  ])("takes no long time: %s", (_name, output) => {
    expect(cpuTime(() => terminal(output))).toBeLessThan(2000);
  });
});
