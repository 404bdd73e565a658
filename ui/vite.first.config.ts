import { defineConfig } from "vite";
import { compress } from "./compress.ts";

// Builds the script that runs before the first paint. It is one file, which
// index.html loads by its name; the server changes the address at each of its
// starts, like that of every script. The page is built before.
export default defineConfig({
  plugins: [compress()],
  publicDir: false,
  build: {
    target: "es2023",
    emptyOutDir: false,
    reportCompressedSize: false,
    rolldownOptions: {
      input: "src/first/first.ts",
      output: { format: "iife", codeSplitting: false, entryFileNames: "assets/[name].js" },
    },
  },
});
