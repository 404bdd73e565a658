// @vitest-environment node

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";

// A script may be loaded only from a server that has proved its identity, and
// parts.tsx requests the proof. The page's own script is the exception: it is
// loaded together with the document that names it.
const ofDocument = "void import(/* @vite-ignore */ page.href);";

it("imports scripts only through part or script", () => {
  const src = join(import.meta.dirname, "../src");
  const files = readdirSync(src, { recursive: true, encoding: "utf8" }).filter((f) => /\.tsx?$/.test(f));
  const found = files.flatMap((f) =>
    readFileSync(join(src, f), "utf8")
      .split("\n")
      .filter((line) => /\bimport\(/.test(line) && !/\b(part|script)\(\(\) => import\(/.test(line))
      .filter((line) => !(f === "first/first.ts" && line.trim() === ofDocument))
      .map((line) => `${f}: ${line.trim()}`),
  );
  expect(found).toEqual([]);
});
