import { defineConfig } from "vite";
import { compress } from "./compress.ts";

// Builds the service worker. It is one file without imports, and controls the
// addresses below its own. The page is built before.
export default defineConfig({
  plugins: [compress()],
  publicDir: false,
  build: {
    target: "es2023",
    emptyOutDir: false,
    reportCompressedSize: false,
    rolldownOptions: { input: "src/worker/sw.ts", output: { entryFileNames: "[name].js" } },
  },
});
