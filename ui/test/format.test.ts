import { expect, it } from "vitest";
import { ago, bytes, cost, count, duration, elapsed, shortPath } from "../src/text/format";

it("says durations as people do", () => {
  expect([0, 320, 4100, 59_999, 125_000, 3_840_000].map(duration)).toEqual([
    "0 ms",
    "320 ms",
    "4.1 s",
    "59 s",
    "2 min 5 s",
    "1 h 4 min",
  ]);
  expect(duration(-1)).toBe("");
  expect(elapsed(7900)).toBe("7 s");
});

it("says times relative to now", () => {
  const now = Date.parse("2026-11-21T12:00:00Z");
  expect(
    [
      "2026-11-21T11:59:30Z",
      "2026-11-21T11:56:00Z",
      "2026-11-21T09:00:00Z",
      "2026-11-19T11:00:00Z",
      "nonsense",
    ].map((t) => ago(t, now)),
  ).toEqual(["now", "4m", "3h", "2d", ""]);
  expect(ago("2026-11-21T12:05:00Z", now)).toBe("now"); // a time in the future, from another clock
});

it("says amounts", () => {
  expect([999, 1000, 12_345, 99_999, 999_600, 1_250_000].map(count)).toEqual([
    "999",
    "1k",
    "12.3k",
    "100k",
    "1M",
    "1.3M",
  ]);
  expect([512, 2048, 3 << 20].map(bytes)).toEqual(["512 B", "2 KiB", "3 MiB"]);
  expect([0, 0.0012, 0.1834].map(cost)).toEqual(["$0", "$0.0012", "$0.18"]);
});

it("shortens paths only inside the folder", () => {
  expect(shortPath("/a/b/c.go", "/a/b")).toBe("c.go");
  expect(shortPath("/a/bc/d.go", "/a/b")).toBe("/a/bc/d.go");
});
