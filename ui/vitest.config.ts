import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["test/**/*.test.{ts,tsx}"],
    environment: "node", // a file that needs a document begins with a comment that chooses jsdom
    isolate: false, // test/setup.ts gives each file its own modules and document
    setupFiles: ["test/setup.ts"],
    testTimeout: 60_000, // for a test that hangs; tests of speed measure CPU time
  },
});
