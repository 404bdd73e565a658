// People's ways through the page, with real agents whose model does what the
// prompts say. TestWorkWithRealAgentsInABrowser, in test/e2e, runs this file.

import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { addressOf, expectQuiet, launch, newContext, session, shot, type Watch } from "./browser";
import { Server } from "./server";

interface Work {
  agents: string[];
  project: string;
  env: string[]; // "NAME=value", what the agents need
}

const work: Work = JSON.parse(process.env.RUNNEL_WORK ?? '{"agents":[],"project":"","env":[]}');
const has = (agent: string) => work.agents.includes(agent);

// What the model answers, one step for each time it is asked.
const play = (...steps: object[]) => `go <<play ${JSON.stringify({ steps })}>>`;
const call = (name: string, input: object | string) => ({ blocks: [{ type: "tool_use", name, input }] });
const run = (command: string) => call("Bash", { command, description: "Run it" });

describe.skipIf(work.agents.length === 0)("work with real agents", () => {
  let server: Server;
  let browser: Browser;
  let watch: Watch;
  let page: Page;

  beforeAll(async () => {
    const env = Object.fromEntries(work.env.map((e) => e.split(/=(.*)/s).slice(0, 2)));
    [server, browser] = await Promise.all([Server.start(env, work.project), launch()]);
    const made = await newContext(browser, server);
    watch = made.watch;
    made.context.setDefaultTimeout(30_000); // agents take their time to start
    page = await made.context.newPage();
    await page.goto(server.link());
    await page.getByRole("navigation", { name: "Sessions" }).waitFor();
    writeFileSync(join(work.project, "notes.txt"), "a line\n".repeat(300));
  });
  afterAll(async () => {
    await browser?.close();
    await server?.close();
  });
  afterEach(() => expectQuiet(watch));

  const composer = () => page.getByRole("textbox", { name: "Prompt" });
  const stream = () => page.getByRole("region", { name: "Conversation" });
  const bar = () => page.getByRole("region", { name: "Approval" });
  const ends = () => page.locator("[data-row=end]").count();
  const send = async (prompt: string) => {
    await composer().fill(prompt);
    await page.keyboard.press("Enter");
  };
  const allow = () => bar().locator("[data-choice=allow_once]:enabled").first().click();
  const open = async (cliType: string, options: object = {}) => {
    const id = await session(page, server, undefined, { cliType, options });
    await page.goto(addressOf(server, id));
    await composer().waitFor();
    return id;
  };

  describe.skipIf(!has("claude-code"))("the end of the conversation", () => {
    const gap = () => stream().evaluate((e) => e.scrollHeight - e.scrollTop - e.clientHeight);
    const atEnd = async () => {
      await expect.poll(gap, { timeout: 2000 }).toBeLessThan(2);
      expect(await page.getByRole("button", { name: /^(To the end|\d+ new)$/ }).count()).toBe(0);
    };
    const seen = (text: ReturnType<Page["locator"]>) =>
      text.evaluate((e) => {
        const [box, all] = [e, e.closest("section") as Element].map((x) => x.getBoundingClientRect());
        return box !== undefined && all !== undefined && box.bottom > all.top && box.top < all.bottom;
      });
    /** A turn whose prompt has to be seen once it is sent, and whose end once it is there. */
    const turn = async (prompt: string, asked = 0) => {
      const before = await ends();
      await send(prompt);
      const sent = page.locator("[data-row=prompt]").nth(before).getByRole("heading");
      await sent.waitFor();
      await expect.poll(() => seen(sent), { timeout: 2000 }).toBe(true);
      for (let i = 0; i < asked; i++) {
        await page
          .locator(`[data-row=approval]`)
          .nth(before * asked + i)
          .waitFor();
        await bar().waitFor();
        await atEnd();
        await allow();
      }
      await expect.poll(ends, { timeout: 30_000 }).toBe(before + 1);
      await atEnd();
    };

    const first = { firstDelayMs: 500 }; // in which the prompt is to be seen
    const code = `\`\`\`ts\n${"export const a = 1; // and so on\n".repeat(60)}\`\`\`\n\n`;
    const paragraphs = "A paragraph of some length that is wrapped over the lines of the page. ".repeat(6);
    const kinds: Record<string, { prompt: string; asked?: number; image?: boolean }> = {
      "long outputs": {
        prompt: play({
          ...first,
          blocks: [{ type: "text", text: `${paragraphs}\n\n`, repeat: 20 }],
          pace: 1000,
        }),
      },
      "tool calls": {
        prompt: play(
          { ...first, ...run("cat notes.txt") },
          ...Array.from({ length: 8 }, () => run("cat notes.txt")),
          { text: paragraphs },
        ),
      },
      code: { prompt: play({ ...first, text: code.repeat(3), pace: 1000 }) },
      images: { prompt: play({ ...first, text: paragraphs.repeat(10) }), image: true },
      approvals: {
        prompt: play(
          { ...first, text: paragraphs.repeat(6), ...run("touch one") },
          { text: paragraphs.repeat(6), ...run("touch two") },
          { text: paragraphs },
        ),
        asked: 2,
      },
    };
    it.each(Object.entries(kinds))("is kept in a session of %s", async (name, kind) => {
      await open("claude-code");
      for (let i = 0; i < 2; i++) {
        if (kind.image)
          await page
            .getByLabel("Attach files")
            .setInputFiles({ name: "dot.png", mimeType: "image/png", buffer: dot });
        if (kind.image)
          await page.getByRole("button", { name: "Send" }).and(page.locator(":enabled")).waitFor();
        await turn(kind.prompt, kind.asked);
      }
      await shot(page, `end-${name}`);
    });

    // The session of the test before: its history is loaded, and read above its end.
    it("is where a loaded history begins, and where a prompt leads that is sent from above", async () => {
      await page.reload();
      await page.locator("[data-row=end]").last().waitFor();
      await atEnd();
      await stream().hover();
      await page.mouse.wheel(0, -900);
      await page.getByRole("button", { name: "To the end" }).waitFor();
      await turn(kinds.code?.prompt ?? "");
    });
  });

  describe.skipIf(!has("claude-code"))("an approval", () => {
    const precious = join(work.project, "precious");
    const asks = { firstDelayMs: 1500, ...run("rm -rf precious") };

    it("is not given by what is typed into the composer", async () => {
      await open("claude-code");
      writeFileSync(precious, "");
      await send(play(asks, { text: "Done." }));
      await page.getByRole("button", { name: "Stop" }).waitFor();
      // Digits, before the question, while it appears and once it is there.
      let typed = "";
      while (!(await bar().count())) {
        await page.keyboard.press("1");
        typed += "1";
      }
      for (let i = 0; i < 10; i++) {
        await page.keyboard.press("1");
        typed += "1";
      }
      expect(await composer().inputValue()).toBe(typed);
      await composer().fill("");
      await bar().locator("[data-choice=allow_once]:enabled").waitFor();
      await page.keyboard.type("1. please");
      expect(await composer().inputValue()).toBe("1. please");
      await bar().locator("[data-choice=allow_once]:enabled").waitFor();
      await shot(page, "approval-while-typing");
      await bar().locator("[data-choice=deny]").click();
      await expect.poll(ends, { timeout: 30_000 }).toBe(1);
      expect(await page.getByText("denied by you").count()).toBe(1);
      expect(existsSync(precious)).toBe(true);
    });

    it("stays away from a narrow page’s composer, which keeps what is typed", async () => {
      await page.setViewportSize({ width: 390, height: 844 });
      await composer().fill("");
      await composer().focus();
      await send(play(asks, { text: "Done." }));
      await bar().waitFor();
      await bar().locator("[data-choice=allow_once]:enabled").waitFor();
      await page.keyboard.type("1");
      expect(await composer().inputValue()).toBe("1");
      await shot(page, "approval-while-typing-narrow");
      await bar().locator("[data-choice=deny]:enabled").click();
      await expect.poll(ends, { timeout: 30_000 }).toBe(2);
      expect(existsSync(precious)).toBe(true);
      await page.setViewportSize({ width: 1440, height: 900 });
    });
  });
});

const dot = Buffer.from(
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
  "base64",
);
