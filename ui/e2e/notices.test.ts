// How people learn that a session needs them, also while they look elsewhere.

import type { Browser, BrowserContext, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { addressOf, expectQuiet, launch, newContext, session, skip, type Watch } from "./browser";
import { Server } from "./server";

const sizes = {
  "on a desk": { viewport: { width: 1440, height: 900 } },
  "on a phone": {
    viewport: { width: 390, height: 844 },
    hasTouch: true,
    isMobile: true,
    deviceScaleFactor: 2,
  },
};

let server: Server;
let browser: Browser;

beforeAll(async () => {
  if (!skip) [server, browser] = await Promise.all([Server.start(), launch()]);
});
afterAll(async () => {
  await browser?.close();
  await server?.close();
});

for (const [where, options] of Object.entries(sizes))
  describe.skipIf(skip)(`a person ${where}`, () => {
    let context: BrowserContext;
    let watch: Watch;
    let page: Page;

    beforeEach(async () => {
      ({ context, watch } = await newContext(browser, server, options));
      page = await context.newPage();
      await page.goto(server.link());
      await page.getByRole("heading", { level: 1 }).first().waitFor();
    });
    afterEach(async () => {
      await context.close();
    });

    const icon = (p: Page) => p.locator("link[rel=icon]").getAttribute("href");
    const allow = async (p: Page, id: string) => {
      await p.goto(addressOf(server, id));
      await p.locator("[data-approval-bar]").getByRole("button", { name: "Allow once" }).click();
      await p.locator("[data-row=end]").last().waitFor();
    };

    it("sees in every tab how many sessions need somebody", async () => {
      const quiet = await session(page, server, "text");
      await page.goto(addressOf(server, quiet));
      await page.locator("[data-row=end]").waitFor();
      const list = await context.newPage();
      await list.goto(`${server.origin}/`);
      await expect.poll(() => list.title()).toBe("Runnel");
      await expect.poll(() => page.title()).toBe("Runnel – text");
      expect(await icon(page)).toBe("/icon.svg");

      const icons: (string | null)[] = [];
      const asking: string[] = [];
      for (const n of [1, 2]) {
        asking.push(await session(page, server, "approve"));
        for (const p of [page, list])
          await expect.poll(() => p.title()).toMatch(new RegExp(`^\\(${n}\\) Runnel`));
        expect(await page.title()).toBe(`(${n}) Runnel – text`);
        icons.push(await icon(page));
        expect(await icon(list)).toBe(icons.at(-1));
      }
      expect(new Set(icons).size).toBe(2);
      // The icon is an image with the badge in its corner.
      const corner = await page.evaluate(async (src) => {
        const image = new Image();
        image.src = src ?? "";
        await image.decode();
        const canvas = document.createElement("canvas");
        [canvas.width, canvas.height] = [image.width, image.height];
        const context = canvas.getContext("2d") as CanvasRenderingContext2D;
        context.drawImage(image, 0, 0);
        return [...context.getImageData(image.width - 6, image.height * 0.68, 1, 1).data];
      }, icons[0]);
      expect(corner).toEqual([240, 160, 32, 255]);

      for (const id of asking) await allow(list, id);
      for (const p of [page, list]) await expect.poll(() => p.title()).toMatch(/^Runnel – /);
      await expect.poll(() => icon(page)).toBe("/icon.svg");
      expectQuiet(watch);
    });
  });
