import tailwindcss from "@tailwindcss/vite";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

// The server's address while developing. The server has to know this one's origin:
// see README.md.
const server = process.env.RUNNEL_URL ?? "http://127.0.0.1:7317";

export default defineConfig({
  plugins: [react(), tailwindcss()],
  build: {
    target: "es2023",
    cssTarget: ["chrome123", "firefox120", "safari17.5"],
    modulePreload: { polyfill: false }, // the polyfill is an inline concern that no target browser needs
    assetsInlineLimit: 0, // nothing as a data: URL, so that the policy stays narrow
    reportCompressedSize: false,
  },
  server: {
    port: 5173,
    strictPort: true,
    proxy: { "/api": { target: server, ws: true } },
  },
});
