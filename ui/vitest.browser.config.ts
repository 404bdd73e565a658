import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["e2e/**/*.test.ts"],
    environment: "node",
    // Two processes run the files: while one waits, the other works. Each loads
    // the libraries once, and the tests of its files share a browser.
    isolate: false,
    maxWorkers: 2,
    // Timeouts for a test that hangs. They are long because the machine may be
    // busy.
    testTimeout: 300_000,
    hookTimeout: 300_000,
    expect: { poll: { timeout: 60_000 } },
  },
});
