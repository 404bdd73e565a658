// Conversations that began outside of Runnel, in the page of a real server.

import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { expectAccessible, expectQuiet, launch, newContext, skip } from "./browser";
import { Server } from "./server";

const id = "00000000-0000-4000-8000-000000000003"; // of the recorded conversation

// Stores the recorded conversation as Claude Code does.
function store(server: Server) {
  const recorded = resolve(import.meta.dirname, "../../provider/claude/testdata/text@2.1.330.txtar");
  const files = readFileSync(recorded, "utf8").split(/^-- (.*) --\n/m);
  const at = files.findIndex((name) => name.startsWith("stored/") && name.endsWith(`${id}.jsonl`));
  const text = files[at + 1] ?? "";
  const named = server.project.replaceAll(/[^A-Za-z0-9]/g, "-"); // as Claude Code names the folder
  const folder = join(dirname(server.project), ".claude/projects", named);
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, `${id}.jsonl`), text.replaceAll("/tmp/runnel-fixture/project", server.project));
}

describe.skipIf(skip)("conversations elsewhere", () => {
  let browser: Browser;
  beforeAll(async () => {
    browser = await launch();
  });
  afterAll(() => browser?.close());

  it("are listed on demand, and become sessions by a click", async () => {
    const server = await Server.start();
    const { context, watch } = await newContext(browser, server);
    try {
      store(server);
      const page = await context.newPage();
      await page.goto(server.link());
      const group = page.getByRole("region", { name: "Elsewhere" });
      await group.getByRole("button", { name: "Elsewhere" }).click();
      const row = group.locator(`[data-conversation="${id}"]`);
      await row.waitFor();
      expect(await row.textContent()).toContain("Second turn.");
      await expectAccessible(page);
      await page.goto(page.url());
      await group.getByRole("button", { name: "Elsewhere" }).click();
      await row.click();
      await page.getByText("Second turn.").last().waitFor();
      await page.waitForURL(/session=/);
      await row.waitFor({ state: "detached" });
      await page.locator("[data-session]").waitFor();
      expectQuiet(watch);
    } finally {
      await context.close();
      await server.close();
    }
  });

  it("are found by what they contain, and open at the item", async () => {
    const server = await Server.start();
    const { context, watch } = await newContext(browser, server);
    try {
      store(server);
      const page = await context.newPage();
      await page.goto(server.link());
      const field = page.getByRole("searchbox", { name: "Search sessions" });
      const hit = page.locator("button[data-hit]");
      await field.fill("second turn");
      await page.getByRole("combobox", { name: "Kind of item" }).selectOption("answer");
      // The server looks for changed files after each search.
      const found = page.getByRole("region", { name: "Found in conversations" });
      while (!(await hit.first().isVisible())) {
        await field.fill("");
        await found.waitFor({ state: "detached" });
        await field.fill("second turn");
        await found.locator("[data-hit], p:not(:empty)").first().waitFor();
      }
      await expect.poll(() => hit.count()).toBe(1); // until the kind applies, there are hits of other kinds
      await expectAccessible(page);
      await page.getByRole("combobox", { name: "Time" }).selectOption("1");
      await hit.waitFor({ state: "detached" });
      await page.getByRole("combobox", { name: "Time" }).selectOption("");
      await hit.focus();
      await page.keyboard.press("Enter");
      const row = page.locator("[aria-current=location]");
      await row.waitFor();
      expect(await row.textContent()).toContain("Second turn.");
      await page.waitForURL(/session=.*&item=/);
      await page.locator("a[data-hit]").waitFor(); // now an item of the session
      expectQuiet(watch);
    } finally {
      await context.close();
      await server.close();
    }
  });

  it("are not listed if the setting is off", async () => {
    const server = await Server.start({ RUNNEL_LIST_CONVERSATIONS: "false" });
    const { context, watch } = await newContext(browser, server);
    try {
      store(server);
      const page = await context.newPage();
      await page.goto(server.link());
      const group = page.getByRole("region", { name: "Elsewhere" });
      await group.getByRole("button", { name: "Elsewhere" }).click();
      await group.getByText("The setting list-conversations is off.").waitFor();
      expect(await group.locator("[data-conversation]").count()).toBe(0);
      expectQuiet(watch);
    } finally {
      await context.close();
      await server.close();
    }
  });
});
