// Compresses the files of the built page, so that the server sends few bytes
// and compresses nothing while it runs.

import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { extname, join, resolve } from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import type { Plugin } from "vite";

const least = 1024; // bytes; a smaller file fits into one packet anyway

// Size in bytes above which Brotli does not try its best: for a file of 2.5 MB
// that takes eight seconds. Only the frame of diagrams is so large, and a browser
// loads it once.
const large = 1_000_000;

/**
 * The content codings, by the extension of their files. The server chooses one
 * for each request, see httpapi/coding.go.
 */
export const codings: Readonly<Record<string, (data: Buffer) => Buffer>> = {
  ".br": (data) =>
    brotliCompressSync(data, {
      params: {
        [constants.BROTLI_PARAM_QUALITY]: data.length > large ? 9 : constants.BROTLI_MAX_QUALITY,
        [constants.BROTLI_PARAM_SIZE_HINT]: data.length,
      },
    }),
  ".gz": (data) => gzipSync(data, { level: 9 }),
};

/**
 * Writes each file above 1 KiB of a folder in each coding, if that makes it
 * smaller. The server changes index.html for each of its starts, so index.html
 * cannot be compressed here.
 */
export function compressFolder(dir: string) {
  for (const entry of readdirSync(dir, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile() || entry.name === "index.html" || extname(entry.name) in codings) continue;
    if (extname(entry.name) === ".png") continue; // is compressed
    const file = join(entry.parentPath, entry.name);
    const data = readFileSync(file);
    if (data.length <= least) continue;
    for (const [extension, encode] of Object.entries(codings)) {
      if (isNewer(file + extension, file)) continue; // by an earlier build of the same page
      const small = encode(data);
      if (small.length < data.length) writeFileSync(file + extension, small);
    }
  }
}

function isNewer(file: string, than: string): boolean {
  const written = (f: string) => statSync(f, { throwIfNoEntry: false })?.mtimeMs ?? 0;
  return written(file) >= written(than);
}

/** Compresses the page at the end of its build. */
export function compress(): Plugin {
  let dir = "";
  return {
    name: "compress",
    apply: "build",
    configResolved: (config) => {
      dir = resolve(config.root, config.build.outDir);
    },
    closeBundle: (error?: Error) => {
      if (!error) compressFolder(dir);
    },
  };
}
