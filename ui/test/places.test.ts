import { describe, expect, it } from "vitest";
import { placeOf, placesIn } from "../src/text/places";

const dir = "/home/me/greeter";

describe("places in files", () => {
  it.each([
    ["src/greet.go:42", "src/greet.go", 42],
    ["greet.go:42:7", "greet.go", 42],
    ["greet.go:42-50", "greet.go", 42],
    ["src/greet.go#L42", "src/greet.go", 42],
    ["src/greet.go#L42-L50", "src/greet.go", 42],
    ["src/App.tsx(12,5)", "src/App.tsx", 12],
    ["/home/me/greeter/src/greet.go:3", "src/greet.go", 3],
    ["./src/greet.go", "src/greet.go", undefined],
    ["greet.go", "greet.go", undefined],
    ["Makefile", "Makefile", undefined],
    ["a dir/x.go", undefined, undefined],
    ["weird/file.xyz:7", "weird/file.xyz", 7],
  ])("finds %s", (text, path, line) => {
    expect(placeOf(text, dir)).toEqual(path && { path, line });
  });

  it.each([
    "fmt.Println",
    "os.Args",
    "event.Item",
    "and/or",
    "v1.2.3",
    "localhost:8080",
    "example.com:443",
    "https://example.com/a.go:1",
    "../other/secret.go:1",
    "src/../../secret.go",
    "/etc/passwd",
    "/home/me/greeter2/a.go:1",
    "/home/me/greeter/../a.go:1",
    "src//a.go",
    "src/",
    "a\u202eog.x.go:1",
    "a\\b.go:1",
    "",
    `${"a/".repeat(200)}x.go`,
  ])("takes %s for no place", (text) => {
    expect(placeOf(text, dir)).toBeUndefined();
  });

  it("cuts plain text at places with a line, and at no others", () => {
    expect(placesIn("See greet.go:3, (src/a.ts:10) and main.go. At 10:30, example.com:80.", dir)).toEqual([
      { text: "See " },
      { text: "greet.go:3", place: { path: "greet.go", line: 3 } },
      { text: ", (" },
      { text: "src/a.ts:10", place: { path: "src/a.ts", line: 10 } },
      { text: ") and main.go. At 10:30, example.com:80." },
    ]);
    expect(placesIn("it is in greet.go:12.", dir).map((p) => p.text)).toEqual([
      "it is in ",
      "greet.go:12",
      ".",
    ]);
    expect(placesIn("nothing", dir)).toEqual([{ text: "nothing" }]);
  });
});
