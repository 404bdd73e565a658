import tailwindcss from "@tailwindcss/vite";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";
import { compress } from "./compress.ts";

// Address of the server during development. The server must know the origin of
// the development server, see README.md.
const server = process.env.RUNNEL_URL ?? "http://127.0.0.1:7317";

export default defineConfig({
  plugins: [react(), tailwindcss(), compress()],
  build: {
    target: "es2023",
    cssTarget: ["chrome123", "firefox120", "safari17.5"],
    modulePreload: { polyfill: false }, // the polyfill would be an inline script, and no target browser needs it
    assetsInlineLimit: 0, // no data: URLs, so that the content security policy stays narrow
    reportCompressedSize: false,
  },
  server: {
    port: 5173,
    strictPort: true,
    proxy: { "/api": { target: server, ws: true } },
  },
});
