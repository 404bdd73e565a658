import { readFileSync } from "node:fs";
import { defineConfig, type Plugin } from "vite";
import { compress } from "./compress.ts";

// Builds the file that the page shows in a frame. It is complete in itself,
// because its policy lets it load nothing. The page is built before.
export default defineConfig({
  plugins: [complete(), compress()],
  publicDir: false,
  build: {
    target: "es2023",
    emptyOutDir: false,
    reportCompressedSize: false,
    chunkSizeWarningLimit: 4000,
    rolldownOptions: {
      input: "src/frame/diagram.ts",
      output: { format: "iife", codeSplitting: false },
    },
  },
});

const inline = (code: string) => code.replaceAll("</script", "<\\/script").replaceAll("<!--", "<\\!--");

/** Puts the library and the script into src/frame/diagram.html. */
function complete(): Plugin {
  return {
    name: "complete",
    generateBundle(_options, bundle) {
      for (const [name, chunk] of Object.entries(bundle)) {
        if (chunk.type !== "chunk") continue;
        delete bundle[name];
        const library = readFileSync("node_modules/@mermaid-js/tiny/dist/mermaid.tiny.js", "utf8");
        const source = readFileSync("src/frame/diagram.html", "utf8")
          .replace("/* the library */", () => inline(library))
          .replace("/* the script of diagram.ts */", () => inline(chunk.code));
        this.emitFile({ type: "asset", fileName: "frame/diagram.html", source });
      }
    },
  };
}
