import { describe, expect, it } from "vitest";
import { classOf, isSgr, plain, sgr } from "../src/text/sgr";

const of = (...sequences: string[]) => classOf(sequences.reduce(sgr, plain));

describe("colours and weights", () => {
  it("sets them, adds to them and takes them back", () => {
    expect(of("1;31")).toBe("ansi-1 font-semibold");
    expect(of("1;31", "0")).toBe("");
    expect(of("1;31", "")).toBe("");
    expect(of("2")).toBe("text-muted");
    expect(of("1", "2", "22")).toBe("");
    expect(of("3;4;9")).toBe("italic underline line-through");
    expect(of("3;4;9", "23;24;29")).toBe("");
    expect(of("7")).toBe("ansi-inverse");
    expect(of("7", "27", "41")).toBe("ansi-on ansi-on-1");
    expect(of("92")).toBe("ansi-2");
    expect(of("103")).toBe("ansi-on ansi-on-3");
    expect(of("31;41", "39;49")).toBe("");
    expect(of("999999999999")).toBe("");
  });

  it("draws many colours as the nearest of eight, and takes their parts for nothing else", () => {
    expect(of("38;5;1")).toBe("ansi-1");
    expect(of("38;5;9")).toBe("ansi-1");
    expect(of("38;5;208")).toBe("ansi-3"); // orange
    expect(of("38;5;244")).toBe("");
    expect(of("38;2;250;20;30")).toBe("ansi-1");
    expect(of("38:2::20;1")).toBe("font-semibold");
    expect(of("38:2::20:200:30")).toBe("ansi-2");
    expect(of("38;2;20;30;240;1")).toBe("ansi-4 font-semibold");
    expect(of("48;2;1;4;7;1")).toBe("font-semibold");
    expect(of("4:3")).toBe("underline");
    expect(of("38")).toBe("");
    expect(of("31;38;7;1;3")).toBe("ansi-1 font-semibold italic"); // 7 names no colour
    expect(of("31;38:7:1;3")).toBe("ansi-1 italic");
  });

  it("leaves the sequences of one terminal alone", () => {
    expect(["", "1;31", "38:2::1:2:3"].every(isSgr)).toBe(true);
    expect([">4;2", "?1"].some(isSgr)).toBe(false);
  });
});
