import { describe, expect, it } from "vitest";
import { terminalLines } from "../src/text/ansi";
import { cpuTime } from "./cpu";

const text = (output: string) =>
  terminalLines(output).map((l) => l.map((s) => (s.mark ? `‹${s.mark}›` : s.text)).join(""));

describe("terminalLines", () => {
  it("draws colours and weights, and drops nothing else", () => {
    const [line] = terminalLines("\x1b[1;31mFAIL\x1b[0m ok");
    expect(line).toEqual([
      { text: "FAIL", className: "ansi-1 font-semibold", mark: undefined },
      { text: " ok", className: "", mark: undefined },
    ]);
  });

  it("does not take the parts of a colour for attributes", () => {
    expect(terminalLines("\x1b[38;5;1mx\x1b[48;2;3;4;1my")[0]?.map((s) => s.className)).toEqual([
      "ansi-1",
      "ansi-1",
    ]);
  });

  it.each([
    ["cursor movement", "a\x1b[2Kb", "a‹CSI 2K›b"],
    [
      "a link",
      "\x1b]8;;http://evil.example\x07text\x1b]8;;\x07",
      "‹OSC 8;;http://evil.example›text‹OSC 8;;›",
    ],
    ["the clipboard", "\x1b]52;c;cm0gLXJm\x1b\\x", "‹OSC 52;c;cm0gLXJm›x"],
    ["a device string", "\x1bPq#0\x1b\\x", "‹DCS q#0›x"],
    ["a two-byte escape", "\x1bcx", "‹ESC c›x"],
    ["an unfinished sequence", "x\x1b[", "x‹ESC [›"],
    ["eight-bit CSI", "\x9b2Jx", "‹CSI 2J›x"],
    ["private SGR", "\x1b[>4;2mx", "‹CSI >4;2m›x"],
    ["a lone carriage return", "safe\rEVIL", "safe‹CR›EVIL"],
    ["direction", "a\u202eb", "a‹RLO›b"],
  ])("names and never obeys %s", (_name, output, want) => {
    expect(text(output)).toEqual([want]);
  });

  it("splits lines, also of Windows", () => {
    expect(text("a\r\nb\nc\n")).toEqual(["a", "b", "c"]);
    expect(text("")).toEqual([""]);
  });

  it("stays fast on hostile output", () => {
    const took = cpuTime(() => {
      terminalLines("\x1b]".repeat(60_000));
      terminalLines("\x1b[".repeat(60_000));
      terminalLines(`\x1bP${"x".repeat(200_000)}`);
    });
    expect(took).toBeLessThan(3000);
  });
});
