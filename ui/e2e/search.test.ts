import type { Browser, BrowserContext, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  expectAccessible,
  expectQuiet,
  launch,
  newContext,
  session,
  shot,
  skip,
  type Watch,
} from "./browser";
import { Server } from "./server";

const phone = { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true };

describe.skipIf(skip)("search", () => {
  let server: Server;
  let browser: Browser;

  beforeAll(async () => {
    [server, browser] = await Promise.all([Server.start(), launch()]);
  });
  afterAll(async () => {
    await browser?.close();
    await server?.close();
  });

  const login = async (options = {}): Promise<{ page: Page; context: BrowserContext; watch: Watch }> => {
    const { context, watch } = await newContext(browser, server, { colorScheme: "light", ...options });
    const page = await context.newPage();
    await page.goto(server.link());
    await page.getByRole("heading", { level: 1 }).first().waitFor();
    return { page, context, watch };
  };

  it("opens an old item of a long session, and of a folded call", async () => {
    const { page, context, watch } = await login();
    const steps = [{ text: "The zebra crosses the 斑马线 here." }];
    for (let i = 0; i < 300; i++) steps.push({ text: `Filling line ${i} without the animal.` });
    const id = await session(page, server, JSON.stringify({ steps }));
    await session(page, server, "tools of every kind");
    await page.goto(`${server.origin}/`);

    const field = page.getByRole("searchbox", { name: "Search sessions" });
    const found = page.getByRole("region", { name: "Found in conversations" });
    const hit = found.locator("[data-hit]");
    const search = async (text: string, kind: string) => {
      await field.fill(""); // removes the hits of the last search
      await hit.first().waitFor({ state: "detached" });
      await field.fill(text);
      await page.getByRole("combobox", { name: "Kind of item" }).selectOption(kind);
      // The server indexes behind the session.
      while (!(await hit.first().isVisible())) {
        await field.fill("");
        await field.fill(text);
        await page.getByRole("combobox", { name: "Kind of item" }).selectOption(kind);
        await found.locator("[data-hit], p:not(:empty)").first().waitFor();
      }
    };
    await search("zebra cross", "answer");
    expect(await hit.count()).toBe(1);
    expect(await hit.locator("mark").allTextContents()).toEqual(["zebra", "crosses"]);
    await shot(page, "search-wide-light");
    await expectAccessible(page);
    await hit.click();
    const row = page.locator("[aria-current=location]");
    await row.waitFor();
    expect(page.url()).toContain(`session=${id}&item=`);
    expect(await row.textContent()).toContain("The zebra crosses");
    await expect.poll(() => inView(page, "[aria-current=location]")).toBe(true);
    await shot(page, "search-item-wide-light");
    await page.reload();
    await row.waitFor();
    await expect.poll(() => inView(page, "[aria-current=location]")).toBe(true);

    await search("斑马", "");
    expect(await hit.first().locator("mark").first().textContent()).toBe("斑马");

    await search("file2", "command");
    await hit.first().click();
    await expect.poll(() => row.textContent()).toContain("file2");
    await expect.poll(() => inView(page, "[aria-current=location]")).toBe(true);
    expectQuiet(watch);
    await context.close();
  });

  it("keeps the search on a phone, where a session covers the list", async () => {
    const { page, context, watch } = await login(phone);
    await page.getByRole("button", { name: "Sessions" }).click();
    await page.getByRole("searchbox", { name: "Search sessions" }).fill("zebra cross");
    const hit = page.locator("[data-hit]");
    await hit.first().waitFor();
    await shot(page, "search-phone-light");
    await expectAccessible(page);
    await hit.first().click();
    await page.locator("[aria-current=location]").waitFor();
    await page.getByRole("button", { name: "All sessions" }).click();
    await hit.first().waitFor();
    expectQuiet(watch);
    await context.close();
  });
});

function inView(page: Page, selector: string): Promise<boolean> {
  return page.evaluate((s) => {
    const r = document.querySelector(s)?.getBoundingClientRect();
    return r !== undefined && r.top >= 100 && r.top < innerHeight - 40;
  }, selector);
}
