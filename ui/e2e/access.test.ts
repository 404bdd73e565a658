// The page without a mouse: the keyboard alone, and a phone's touch.

import type { Browser, BrowserContext, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import {
  addressOf,
  expectAccessible,
  expectQuiet,
  launch,
  newContext,
  session,
  skip,
  type Watch,
} from "./browser";
import { Server } from "./server";

describe.skipIf(skip)("without a mouse", () => {
  let server: Server;
  let browser: Browser;
  let context: BrowserContext;
  let watch: Watch;
  let page: Page;

  beforeAll(async () => {
    [server, browser] = await Promise.all([Server.start(), launch()]);
  });
  afterAll(async () => {
    await browser?.close();
    await server?.close();
  });
  const login = async (options: object = {}) => {
    ({ context, watch } = await newContext(browser, server, options));
    page = await context.newPage();
    await page.goto(server.link());
    await page.getByRole("textbox", { name: "Prompt" }).waitFor();
  };
  afterEach(async () => {
    expectQuiet(watch);
    await context.close();
  });
  const focused = (what: "ariaLabel" | "tagName" | "id" | "textContent") =>
    page.evaluate((what) => document.activeElement?.[what], what);
  const inList = () =>
    page.evaluate(() => document.activeElement?.closest("[data-session]")?.getAttribute("data-session"));

  it("the first Tab offers the way past the list, and the list is one stop of Tab", async () => {
    await login();
    const ids: string[] = [];
    for (const title of ["text one", "text two", "text three"]) ids.push(await session(page, server, title));
    await page.goto(addressOf(server, ids[0] as string));
    await page.locator("[data-row=end]").waitFor();
    await page.locator("nav [data-session]").nth(2).waitFor();
    const rows = await page
      .locator("nav [data-session]")
      .evaluateAll((all) => all.map((e) => e.getAttribute("data-session")));

    await page.evaluate(() => (document.activeElement as HTMLElement).blur());
    await page.keyboard.press("Tab");
    expect(await focused("textContent")).toBe("Skip to the content");
    await expectAccessible(page);
    await page.keyboard.press("Enter");
    expect(await focused("tagName")).toBe("MAIN");
    await page.keyboard.press("Tab");
    expect(await page.evaluate(() => document.activeElement?.closest("main") !== null)).toBe(true);
    expect(await page.evaluate(() => location.hash)).toBe("");

    await page.keyboard.press("/");
    expect(await focused("id")).toBe("filter");
    await page.keyboard.press("Tab");
    expect(await focused("ariaLabel")).toBe("All commands");
    await page.keyboard.press("Tab");
    expect(await inList()).toBe(ids[0]); // the session on the screen
    const at = rows.indexOf(ids[0] as string);
    await page.keyboard.press("Home");
    await page.keyboard.press("ArrowDown");
    expect(await inList()).toBe(rows[0]); // below its folder
    await page.keyboard.press("ArrowDown");
    expect(await inList()).toBe(rows[1]);
    await page.keyboard.press("Shift+Tab");
    await page.keyboard.press("Tab");
    expect(await inList()).toBe(rows[1]); // where the focus was
    await page.keyboard.press("Enter");
    await page.locator(`nav [data-session="${rows[1]}"][aria-current]`).waitFor();
    await page.keyboard.press("Tab");
    expect(await page.evaluate(() => document.activeElement?.closest("nav") === null)).toBe(true);
    expect(at).toBeGreaterThanOrEqual(0);
    expect(await page.locator("nav [data-session][tabindex='0']").count()).toBe(1);

    await page.keyboard.press("/");
    await page.keyboard.press("ArrowDown");
    expect(await page.evaluate(() => document.activeElement?.closest("nav") !== null)).toBe(true);
  });

  it("every action is a command, also on a phone, with room for the title", async () => {
    const phone = { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true };
    await login(phone);
    const id = await session(page, server, "approve");
    await page.goto(addressOf(server, id));
    await page.locator("[data-approval-bar]").waitFor();
    const all = page.getByRole("button", { name: "All commands" });
    const options = () => page.getByRole("option").allInnerTexts();
    const choose = async (name: string) => {
      await all.tap();
      await page.getByRole("option", { name, exact: true }).tap();
    };
    const title = await page.getByRole("heading", { level: 1 }).evaluate((e) => e.clientWidth);
    expect(title).toBeGreaterThan(200);

    await all.tap();
    await page.getByRole("option", { name: "Audit log" }).waitFor(); // is offered once the page knows that it may read it
    const offered = (await options()).map((o) => o.split("\n")[0]);
    for (const name of [
      "Answer: Allow once",
      "Answer: Deny",
      "Stop the turn",
      "Changes",
      "Session details",
      "Rename, export or delete the session",
      "Fork the session",
      "End the session",
      "New session",
      "All sessions",
      "Search sessions and conversations",
      "Change the colours",
      "Devices that are logged in",
      "Notifications",
      "Audit log",
      "Keyboard shortcuts",
    ])
      expect(offered).toContain(name);
    await page.keyboard.press("Escape");
    await choose("Answer: Allow once");
    await page.locator("[data-row=end]").waitFor();
    await choose("Session details");
    await page.getByRole("complementary", { name: "Details" }).waitFor();
    await page.getByRole("button", { name: "Close details" }).tap();
    await choose("Mode, model and other settings");
    await page.getByRole("dialog", { name: "Settings" }).waitFor();
    await page.keyboard.press("Escape");
    await choose("Rename, export or delete the session");
    await page
      .getByRole("dialog", { name: "Session" })
      .getByRole("textbox", { name: "Title" })
      .fill("Renamed");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { level: 1, name: "Renamed" }).waitFor();
    await choose("Devices that are logged in"); // a button of the list, which a phone shows alone
    await page.getByRole("dialog", { name: "Devices" }).waitFor();
    await page.keyboard.press("Escape");
    await choose("Search sessions and conversations");
    await expect.poll(() => focused("id")).toBe("filter");
    await choose("New session");
    await page.getByRole("main", { name: "New session" }).waitFor();
    await choose("Audit log");
    const audit = page.getByRole("dialog", { name: "Audit log" });
    await audit.getByText("Approval decided").waitFor();
    await audit.getByRole("button", { name: "Verify the log" }).tap();
    await audit.getByText("each is as it was written, and none is missing").waitFor();
    await audit.getByRole("searchbox").fill("approval decided");
    await expect.poll(() => audit.getByRole("listitem").count()).toBe(1);
    await audit.getByRole("searchbox").fill("login code");
    const codes = await audit.getByRole("listitem").count();
    server.link(); // is written to the log
    await expect.poll(() => audit.getByRole("listitem").count()).toBe(codes + 1);
  });
});
