import tailwindcss from "@tailwindcss/vite";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";
import { compress } from "./compress.ts";
import { views } from "./views.ts";

// Address of the server during development. The server must know the origin of
// the development server, see README.md.
const server = process.env.RUNNEL_URL ?? "http://127.0.0.1:7317";

export default defineConfig({
  base: "./", // a proxy may serve the page below a path
  plugins: [react(), tailwindcss(), views(), compress()],
  build: {
    target: "es2023",
    cssTarget: ["chrome123", "firefox120", "safari17.5"],
    // The server puts the scripts into a folder with a new name at each start,
    // and changes their addresses in index.html only. So only index.html
    // preloads scripts; they import each other by relative addresses.
    modulePreload: {
      polyfill: false, // it would be an inline script, and no target browser needs it
      resolveDependencies: (_script, files, { hostType }) => (hostType === "html" ? files : []),
    },
    cssCodeSplit: false,
    assetsInlineLimit: 0, // no data: URLs, so that the content security policy stays narrow
    reportCompressedSize: false,
  },
  server: {
    port: 5173,
    strictPort: true,
    proxy: { "/api": { target: server, ws: true } },
  },
});
