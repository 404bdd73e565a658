import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["test/**/*.test.{ts,tsx}"],
    environment: "jsdom",
    setupFiles: ["test/window.ts"],
    testTimeout: 60_000, // for a test that hangs; tests of speed measure CPU time
  },
});
