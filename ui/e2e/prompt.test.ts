// Prompts: the first one, those of new sessions, and what they can contain.

import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
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

const sizes = {
  wide: { viewport: { width: 1440, height: 900 } },
  phone: { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true, deviceScaleFactor: 2 },
};

const dot =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const log = Array.from({ length: 120 }, (_, i) => `12:00:${i} GET /api/session ${200 + (i % 3)}`).join("\n");

// Without RUNNEL_LONG, a test that does the same in both sizes runs in one.
const every = process.env.RUNNEL_LONG === "1" || process.env.RUNNEL_SCREENSHOTS === "1";

describe.skipIf(skip).each(Object.entries(sizes))("prompts on a %s", (size, options) => {
  const on = (here: keyof typeof sizes) => it.runIf(every || size === here);
  let server: Server;
  let browser: Browser;
  let page: Page;
  let watch: Watch;
  const phone = size === "phone";

  beforeAll(async () => {
    [server, browser] = await Promise.all([Server.start(), launch()]);
    for (const name of ["src/greet.go", "src/greeting/words.go", "docs/greet.md", ".env", "build/greet.o"]) {
      mkdirSync(dirname(join(server.project, name)), { recursive: true });
      writeFileSync(join(server.project, name), name);
    }
    writeFileSync(join(server.project, ".gitignore"), "build\n");
    const made = await newContext(browser, server, {
      ...options,
      permissions: ["clipboard-read", "clipboard-write"],
    });
    watch = made.watch;
    page = await made.context.newPage();
    await page.goto(server.link());
  });
  afterAll(async () => {
    await browser?.close();
    await server?.close();
  });
  afterEach(() => expectQuiet(watch));

  const field = () => page.getByRole("textbox", { name: "Prompt" });
  const send = () => page.getByRole("button", { name: "Send" });
  const offers = () => page.getByRole("listbox", { name: /^(Files|Commands)$/ });
  const attached = () => page.getByRole("list", { name: "Attachments" }).getByRole("listitem");
  const ended = () => page.locator("[data-row=end]").last().waitFor();
  const pick = async (name: RegExp) => {
    const option = offers().getByRole("option", { name });
    if (phone) return option.tap();
    while ((await option.getAttribute("aria-selected")) !== "true") await field().press("ArrowDown");
    await field().press("Enter");
  };
  const good = async (name: string) => {
    await shot(page, `prompt-${name}-${size}`);
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(options.viewport.width);
    await expectAccessible(page);
  };
  const home = async () => {
    await page.goto(`${server.origin}/`);
    await page.getByRole("main", { name: "New session" }).waitFor();
  };
  const api = (path: string) =>
    page.evaluate(async (path) => {
      const headers = { "Runnel-Key": localStorage.getItem("runnel.key") ?? "" };
      return (await fetch(path, { headers })).json();
    }, path);
  const sessions = async (): Promise<number> => (await api("/api/session/list?projectId=*")).sessions.length;
  /** The user's message of the newest turn. */
  const prompted = async () => {
    const id = new URL(page.url()).searchParams.get("session");
    const { items } = await api(`/api/session/${id}/items`);
    const said = items.filter(
      (e: { payload: { message?: { origin: string } } }) => e.payload.message?.origin === "user",
    );
    return said.at(-1).payload.message;
  };
  /** Pastes a text, or a picture. */
  const paste = (what: { text?: string; picture?: string }) =>
    field().evaluate((el, { text, picture }) => {
      const data = new DataTransfer();
      if (text !== undefined) data.setData("text/plain", text);
      if (picture !== undefined) {
        const bytes = Uint8Array.from(atob(picture), (c) => c.charCodeAt(0));
        data.items.add(new File([bytes], "image.png", { type: "image/png" }));
      }
      el.dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true }));
    }, what);

  it("begin with an example, and say how to get an agent", async () => {
    await page.getByRole("heading", { name: "Start your first session" }).waitFor();
    await page.getByText("8 agents to install").click();
    const command = page.locator("[data-agent=codex] code").first();
    const text = await command.innerText();
    await page.getByRole("button", { name: `Copy ${text}` }).click();
    await expect.poll(() => page.evaluate(() => navigator.clipboard.readText())).toBe(text);
    await page.getByText("8 agents to install").click();
    await good("first");
    const example = page.getByRole("button", { name: "Watch a scripted turn" });
    await (phone ? example.tap() : example.click());
    await page.getByRole("region", { name: "Approval" }).waitFor();
    expect((await prompted()).content).toBe("demo");
    await home();
    await page.getByRole("region", { name: "Needs you" }).getByRole("link").waitFor();
    await field().waitFor();
    await good("home");
  });

  it("begin a session in a folder that is typed, with a file and a picture", async () => {
    await home();
    await page.getByRole("button", { name: /^Folder: / }).click();
    const folder = page.getByRole("combobox", { name: "Folder" });
    const above = dirname(server.project);
    if (phone) await folder.tap();
    else await expect.poll(() => folder.evaluate((el) => el === document.activeElement)).toBe(true);
    await page.keyboard.insertText(`${above}/gre`);
    await page.getByRole("dialog", { name: "Folder" }).getByRole("option").first().waitFor();
    await good("folder");
    await folder.press("Tab");
    await expect.poll(() => folder.inputValue()).toBe(`${server.project}/`);
    await page.getByRole("dialog", { name: "Folder" }).getByRole("option", { name: "docs" }).waitFor();
    await folder.press("Enter");
    await folder.waitFor({ state: "detached" });

    await field().click();
    await page.keyboard.type("text @greet"); // the first word names the script
    await offers().getByRole("option", { name: "greet.go" }).waitFor();
    await good("files");
    expect(await offers().getByRole("option").allInnerTexts()).not.toContain("greet.o");
    await field().press("Escape");
    await offers().waitFor({ state: "detached" });
    await field().fill("text ");
    await page.keyboard.type("@greeti");
    await pick(/^greeting/);
    expect(await field().inputValue()).toBe("text @src/greeting/");
    await pick(/^words\.go/);
    expect(await field().inputValue()).toBe("text @src/greeting/words.go ");
    await page.keyboard.type("to me");

    await paste({ picture: dot });
    await expect.poll(() => attached().locator("img").count()).toBe(1);
    await expect.poll(() => send().isEnabled()).toBe(true);
    await good("draft");
    await page.reload();
    expect(await field().inputValue()).toBe("text @src/greeting/words.go to me");
    await expect.poll(() => attached().allInnerTexts()).toEqual([expect.stringContaining("image.png")]);
    await send().click();
    await ended();
    const said = await prompted();
    expect(said.content).toBe("text @src/greeting/words.go to me");
    expect(said.attachments).toMatchObject([{ name: "image.png", mediaType: "image/png" }]);
    const picture = page.locator("[data-row=prompt]").getByRole("img", { name: "image.png" });
    const width = () => picture.evaluate((img: HTMLImageElement) => img.naturalWidth);
    await expect.poll(width).toBe(1);
    await good("picture");
    await page.reload();
    await expect.poll(width).toBe(1);
    await page.getByRole("button", { name: "image.png: show larger" }).click();
    await page.getByRole("button", { name: "image.png: show smaller" }).waitFor();
    expect((await api("/api/projects")).projects[0].projectDir).toBe(server.project);
    await home();
    expect(await field().inputValue()).toBe("");
    expect(await attached().count()).toBe(0);
  });

  on("phone")("come back if the session does not start, and start no second one", async () => {
    await home();
    await field().fill("text to keep");
    const error = {
      type: "AGENT_NOT_LOGGED_IN",
      message: "the agent is not logged in",
      details: { login: "agent login" },
    };
    await page.route("**/api/session/create", (r) => r.fulfill({ status: 503, json: { error } }));
    await send().click();
    const alert = page.getByRole("alert");
    await alert.getByText("agent login", { exact: true }).waitFor();
    await good("refused");
    expect(await field().inputValue()).toBe("text to keep");
    await page.unroute("**/api/session/create");

    const before = await sessions();
    await page.route("**/send", (r) => r.abort());
    await send().click();
    await alert.filter({ hasText: "not responding" }).waitFor();
    expect(await field().inputValue()).toBe("text to keep");
    await page.unroute("**/send");
    await send().click();
    await ended();
    expect((await prompted()).content).toBe("text to keep");
    expect(await sessions()).toBe(before + 1);
  });

  on("wide")("offer the agent’s commands at the beginning, also after the server was killed", async () => {
    const commands = [
      { name: "compact", description: "Shorten the conversation", hint: "what to keep" },
      { name: "review", description: "Check the changes" },
    ];
    const id = await session(page, server, { steps: [{ session: { commands } }, { text: "Done." }] });
    await page.goto(`${server.origin}/?session=${id}`);
    await ended();
    await field().click();
    await page.keyboard.type("/");
    await offers()
      .getByRole("option", { name: /^\/compact what to keep/ })
      .waitFor();
    await good("commands");
    await server.kill();
    await server.start();
    await page.reload();
    await ended();
    await field().fill("");
    await field().click();
    await page.keyboard.type("/re");
    await pick(/^\/review/);
    expect(await field().inputValue()).toBe("/review ");
    await page.keyboard.type("see /co");
    expect(await offers().count()).toBe(0);
    await home();
    await field().fill("/c"); // a new session most likely has the same commands
    await offers()
      .getByRole("option", { name: /^\/compact/ })
      .waitFor();
    await field().fill("");
  });

  on("phone")("make files of a pasted log and of dropped code", async () => {
    const id = await session(page, server, "text");
    await page.goto(`${server.origin}/?session=${id}`);
    await ended();
    await field().fill("text ");
    await paste({ text: log });
    await attached().getByText("120 lines").waitFor();
    expect(await field().inputValue()).toBe("text ");
    await attached().getByRole("button", { name: "Paste as text" }).click();
    expect(await field().inputValue()).toBe(`text ${log}`);
    expect(await attached().count()).toBe(0);
    await field().fill("text ");
    await paste({ text: log });
    await attached().getByText("120 lines").waitFor();
    await page.getByRole("main").evaluate((el) => {
      const data = new DataTransfer();
      data.items.add(new File(["package main\n"], "main.go"));
      data.items.add(new File([new Uint8Array([0, 1, 2])], "tool.bin"));
      const drag = (type: string) =>
        el.dispatchEvent(new DragEvent(type, { dataTransfer: data, bubbles: true, cancelable: true }));
      drag("dragenter");
      drag("drop");
    });
    const refused = attached().filter({ hasText: "tool.bin" });
    await refused.getByText("not UTF-8 text").waitFor();
    await good("attachments");
    await refused.getByRole("button", { name: "Remove tool.bin" }).click();
    await expect.poll(() => send().isEnabled()).toBe(true);
    const turns = await page.locator("[data-row=end]").count();
    await send().click();
    await expect.poll(() => page.locator("[data-row=end]").count()).toBe(turns + 1);
    const said = await prompted();
    expect(said.content).toBe("text");
    expect(said.attachments).toMatchObject([
      { name: "pasted.txt", mediaType: "text/plain" },
      { name: "main.go", mediaType: "text/plain" },
    ]);
    expect(await attached().count()).toBe(0);
  });
});
