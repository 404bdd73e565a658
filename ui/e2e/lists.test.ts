// The queue of a session, and what is unread, on two devices.

import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  addressOf,
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

describe.skipIf(skip)("lists", () => {
  let server: Server;
  let browser: Browser;
  let desk: Page;
  let phone: Page;
  const watches: Watch[] = [];

  beforeAll(async () => {
    [server, browser] = await Promise.all([Server.start(), launch()]);
    const device = async (options: object) => {
      const { context, watch } = await newContext(browser, server, options);
      watches.push(watch);
      const page = await context.newPage();
      await page.goto(server.link());
      await page.getByRole("heading", { name: "first session" }).waitFor();
      return page;
    };
    desk = await device({});
    phone = await device({
      viewport: { width: 390, height: 844 },
      hasTouch: true,
      isMobile: true,
      colorScheme: "dark",
    });
  });
  afterAll(async () => {
    await browser?.close();
    await server?.close();
  });

  const rows = (page: Page) => page.locator("[data-queued]");
  const queue = (page: Page) => page.getByRole("region", { name: "Queue" });
  const order = (page: Page) =>
    rows(page)
      .getByTitle("Edit this prompt")
      .evaluateAll((all) => all.map((e) => e.lastElementChild?.textContent));

  it("of queued prompts are edited, reordered and held on one device, and continued on another", async () => {
    const id = await session(desk, server, "hang");
    await desk.goto(addressOf(server, id));
    const composer = desk.getByRole("textbox", { name: "Prompt", exact: true });
    await desk.getByRole("button", { name: "Stop" }).waitFor();
    const texts = ["text one", "text two\nof two lines", `text three ${"and more ".repeat(60)}the end`];
    for (const [i, text] of texts.entries()) {
      await composer.fill(text);
      await desk.keyboard.press("Enter");
      await rows(desk).nth(i).waitFor();
      await expect.poll(() => composer.inputValue()).toBe("");
    }
    expect((await order(desk)).map((t) => t?.slice(0, 10))).toEqual(["text one", "text two o", "text three"]);
    await expectAccessible(desk);
    await shot(desk, "queue-wide-light");

    // The keyboard moves a prompt, and the focus stays with it.
    await desk.getByRole("button", { name: "Move up: text three" }).press("Enter");
    await expect.poll(async () => (await order(desk))[1]?.slice(0, 10)).toBe("text three");
    await expect
      .poll(() => desk.evaluate(() => document.activeElement?.ariaLabel))
      .toMatch(/^Move up: text three/);
    await desk.keyboard.press("Enter");
    await expect.poll(async () => (await order(desk))[0]?.slice(0, 10)).toBe("text three");
    await expect
      .poll(() => desk.evaluate(() => document.activeElement?.ariaLabel))
      .toMatch(/^Move down: text three/);

    // The editor has the whole text, and Escape leaves the prompt as it was.
    const field = desk.getByRole("textbox", { name: "Queued prompt" });
    await desk.getByRole("button", { name: "Edit: text three" }).click();
    expect(await field.inputValue()).toBe(texts[2]);
    await field.fill("text lost");
    await field.press("Escape");
    await field.waitFor({ state: "detached" });
    expect(await desk.getByText("Esc again stops").count()).toBe(0);
    await desk.getByRole("button", { name: "Edit: text one" }).click();
    await field.fill("text first");
    await field.press("Enter");
    await desk.getByRole("button", { name: "Edit: text first" }).waitFor();
    // A removed prompt can be put back where it was.
    const rest = ["text first", "text two of two lines"];
    const remove = desk.getByRole("button", { name: "Remove: text three" });
    await remove.click();
    await expect.poll(() => order(desk)).toEqual(rest);
    await desk.getByRole("button", { name: "Undo" }).click();
    await expect.poll(async () => (await order(desk))[0]?.slice(0, 10)).toBe("text three");
    await desk.getByRole("button", { name: "Edit: text three" }).click();
    expect(await field.inputValue()).toBe(texts[2]);
    await field.press("Escape");
    expect(await desk.getByRole("button", { name: "Undo" }).count()).toBe(0);
    await remove.click();
    await expect.poll(() => order(desk)).toEqual(rest);

    await desk.getByRole("button", { name: "Edit: text two" }).click(); // on the desk, while the phone starts it
    await desk.getByRole("button", { name: "Stop" }).click();
    await queue(desk).getByText("Queue held: 2 prompts wait until you continue.").waitFor();
    await desk.locator("[data-row=end]").waitFor();
    await expectAccessible(desk);
    await shot(desk, "queue-held-wide-light");

    await phone.goto(addressOf(server, id));
    await queue(phone).getByText("Queue held: 2 prompts").waitFor();
    await expect.poll(() => order(phone)).toEqual(["text first", "text two of two lines"]);
    await expectAccessible(phone);
    await shot(phone, "queue-held-phone-dark");
    await queue(phone).getByRole("button", { name: "Continue the queue" }).tap();
    await phone.locator("[data-row=end]").nth(2).waitFor();
    await queue(phone).waitFor({ state: "detached" });

    // A change that came too late can become a new prompt.
    await queue(desk).getByRole("alert").filter({ hasText: "no longer waits" }).waitFor();
    await field.fill("text late");
    await desk.getByRole("button", { name: "Queue as a new prompt" }).click();
    await queue(desk).waitFor({ state: "detached" });
    await desk.locator("[data-row=end]").nth(3).waitFor();
    await desk.getByRole("heading", { name: "text late" }).waitFor();
    for (const watch of watches) expectQuiet(watch);
  });

  it("of sessions show as unread what no device has shown", async () => {
    const id = await session(desk, server, "text");
    await phone.goto(`${server.origin}/?list`);
    const row = phone.locator(`nav [data-session="${id}"]`);
    const unread = row.getByText(", unread");
    await unread.waitFor({ state: "attached" });
    await shot(phone, "unread-phone-dark");
    await desk.goto(addressOf(server, id));
    await unread.waitFor({ state: "detached" });
    await phone.reload();
    await row.waitFor();
    expect(await unread.count()).toBe(0);
    for (const watch of watches) expectQuiet(watch);
  });

  it("of commands and sessions are found by name, and folded", async () => {
    const palette = desk.getByRole("dialog", { name: "Commands" });
    const find = desk.getByRole("combobox", { name: "Find a command or a session" });
    const run = async (typed: string) => {
      await desk.keyboard.press("Control+k");
      await find.fill(typed);
      await palette.getByRole("option").first().waitFor();
      await desk.keyboard.press("Enter");
      await palette.waitFor({ state: "detached" });
    };
    await desk.goto(`${server.origin}/`);
    await desk
      .getByRole("heading", { name: "Finished since you looked" })
      .or(desk.getByText("Nothing waits"))
      .waitFor();
    await run("hang");
    await desk.getByRole("heading", { level: 1, name: "hang" }).waitFor();
    await run("session det");
    await desk.getByRole("button", { name: "Close details" }).waitFor();
    await run("write");
    await expect.poll(() => desk.evaluate(() => document.activeElement?.id)).toBe("composer");
    await desk.keyboard.press("Control+k"); // while somebody writes, too
    await find.fill("no such command");
    await palette.getByText("Nothing matches.").waitFor();
    await find.fill("");
    await find.press("ArrowUp");
    await expect
      .poll(() => palette.getByRole("option", { selected: true }).textContent())
      .toMatch(/^(hang|text)/);
    await expectAccessible(desk);
    await shot(desk, "palette-wide-light");
    await desk.keyboard.press("Escape");
    await palette.waitFor({ state: "detached" });
    await expect.poll(() => desk.evaluate(() => document.activeElement?.id)).toBe("composer");

    const sessions = desk.locator("nav [data-session]");
    await sessions.nth(1).waitFor();
    const folder = desk
      .getByRole("navigation", { name: "Sessions" })
      .getByRole("button", { name: /^greeter-/ });
    await folder.click();
    await expect.poll(() => sessions.count()).toBe(1); // the one on the screen
    expect(await folder.innerText()).toMatch(/\n2\b/);
    await desk.reload();
    await expect.poll(() => sessions.count()).toBe(1);
    await expectAccessible(desk);
    await shot(desk, "folded-wide-light");
    await folder.click();
    await expect.poll(() => sessions.count()).toBe(2);
    for (const watch of watches) expectQuiet(watch);
  });

  it("of a thousand sessions draw only what is near the screen", async () => {
    const overview = await desk.evaluate(async () => {
      const headers = { "Runnel-Key": localStorage.getItem("runnel.key") ?? "" };
      return (await fetch("/api/overview", { headers })).json();
    });
    const [one] = overview.sessions;
    overview.sessions = Array.from({ length: 1000 }, (_, i) => ({
      ...one,
      sessionId: `s${i}`,
      title: `Session ${i}`,
    }));
    await desk.route("**/api/overview", (r) => r.fulfill({ json: overview }));
    await desk.goto(`${server.origin}/`);
    const rows = desk.locator("nav [data-session]");
    await expect.poll(() => rows.count()).toBeGreaterThanOrEqual(1000);
    const drawn = () =>
      rows.evaluateAll(
        (all) =>
          all.filter((e) => e.firstElementChild?.checkVisibility({ contentVisibilityAuto: true })).length,
      );
    await expect.poll(drawn).toBeLessThan(100);
    expect(await drawn()).toBeGreaterThan(3);
    await desk.unroute("**/api/overview");
    for (const watch of watches) expectQuiet(watch);
  });

  it("and sessions have controls that are large enough for a thumb", async () => {
    const small = () =>
      phone.evaluate(() =>
        [...document.querySelectorAll("button, a[href], input:not([type=file]), select, textarea")]
          .filter((e) => e.checkVisibility() && !e.closest(".prose-block"))
          .map((e) => ({ e, r: e.getBoundingClientRect() }))
          .filter(({ r }) => r.width > 1 && (r.height < 44 || r.width < 44))
          .map(({ e, r }) => `${Math.round(r.width)}x${Math.round(r.height)} ${e.outerHTML.slice(0, 160)}`),
      );
    const fits = () => phone.evaluate(() => document.documentElement.scrollWidth);
    await phone.goto(`${server.origin}/?list`);
    await phone.locator("nav [data-session]").first().waitFor();
    expect(await small(), "list").toEqual([]);
    await phone.goto(addressOf(server, await session(phone, server, "tools of every kind")));
    await phone.locator("[data-row=end]").waitFor();
    expect(await small(), "session").toEqual([]);
    expect(await fits()).toBe(390);
    await expectAccessible(phone);
    await shot(phone, "session-phone-dark");
    for (const watch of watches) expectQuiet(watch);
  });
});
