// @vitest-environment node

import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { brotliDecompressSync, gunzipSync } from "node:zlib";
import { describe, expect, it, onTestFinished } from "vitest";
import { compressFolder } from "../compress";

const decode = { ".br": brotliDecompressSync, ".gz": gunzipSync };

describe("the files of the page", () => {
  it("are compressed where that makes them smaller", () => {
    const dir = mkdtempSync(join(tmpdir(), "runnel-dist-"));
    onTestFinished(() => rmSync(dir, { recursive: true }));
    mkdirSync(join(dir, "assets"));
    const random = Buffer.from(crypto.getRandomValues(new Uint8Array(5000)));
    const files = {
      "index.html": "<p>".repeat(1000),
      "icon.svg": "<svg/>".repeat(100),
      "assets/a.js": "let a = 1;".repeat(1000),
      "assets/b.woff2": random,
    };
    for (const [name, data] of Object.entries(files)) writeFileSync(join(dir, name), data);
    const listed = ["assets", "assets/a.js", "assets/a.js.br", "assets/a.js.gz", "assets/b.woff2"];
    for (let build = 0; build < 2; build++) {
      compressFolder(dir); // the second time in a folder that has the compressed files
      expect(readdirSync(dir, { recursive: true }).sort()).toEqual([...listed, "icon.svg", "index.html"]);
    }
    for (const [extension, decoded] of Object.entries(decode))
      expect(decoded(readFileSync(join(dir, `assets/a.js${extension}`))).toString()).toBe(
        files["assets/a.js"],
      );
  });

  const dist = join(import.meta.dirname, "../dist/assets");
  it.skipIf(!existsSync(dist))("were compressed when the page was built", () => {
    const scripts = readdirSync(dist).filter((name) => /\.(js|css)$/.test(name));
    expect(scripts.length).toBeGreaterThanOrEqual(2);
    for (const name of scripts) {
      const data = readFileSync(join(dist, name));
      if (data.length <= 1024) continue;
      for (const [extension, decoded] of Object.entries(decode))
        expect(decoded(readFileSync(join(dist, name + extension))).equals(data)).toBe(true);
    }
  });
});
