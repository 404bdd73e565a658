import type { Browser, BrowserContext, Page } from "playwright-core";
import { afterAll, beforeAll, describe, it } from "vitest";
import { addressOf, expectAccessible, launch, newContext, session, skip } from "./browser";
import { Server } from "./server";

// An agent may skip heading levels, and may begin with a deep level.
const headings = {
  steps: [
    { text: "#### Fourth\n\ntext\n\n# First\n\n###### Sixth\n\n## Second\n\ntext" },
    { tool: { name: "Bash", kind: "execute", title: "ls", arguments: { command: "ls" }, output: "a\nb" } },
    { plan: [{ content: "one", status: "in_progress" }] },
  ],
};

describe.skipIf(skip)("names and headings", () => {
  let server: Server;
  let browser: Browser;
  let context: BrowserContext;
  let page: Page;

  beforeAll(async () => {
    [server, browser] = await Promise.all([Server.start(), launch()]);
    ({ context } = await newContext(browser, server));
    page = await context.newPage();
    await page.goto(server.link());
    await page.getByRole("navigation", { name: "Sessions" }).waitFor();
  });
  afterAll(async () => {
    await context?.close();
    await browser?.close();
    await server?.close();
  });
  const open = async (prompt: string | object) => {
    await page.goto(addressOf(server, await session(page, server, prompt)));
  };

  it("leave out no level in what an agent says, and call buttons what they show", async () => {
    await open(headings);
    await page.locator("[data-row=end]").last().waitFor();
    await expectAccessible(page);
    await page.getByRole("button", { name: "Details" }).click();
    await page.getByRole("heading", { name: "Details" }).waitFor();
    await expectAccessible(page);
  });

  it.each(["approve", "question", "form", "plan"])("are in order in what is asked: %s", async (prompt) => {
    await open(
      prompt === "plan"
        ? {
            steps: [
              {
                tool: {
                  name: "ExitPlanMode",
                  arguments: { plan: "### Deep\n\n# High" },
                  ask: { kind: "plan", title: "The plan" },
                },
              },
            ],
          }
        : prompt,
    );
    await page.getByRole("region", { name: "Approval" }).waitFor();
    await expectAccessible(page);
  });

  it("hold what is shown on a phone", async () => {
    const phone = await newContext(browser, server, { viewport: { width: 390, height: 844 } });
    const small = await phone.context.newPage();
    await small.goto(server.link());
    await small.getByRole("button", { name: "Sessions" }).click();
    await small.getByRole("main", { name: "Sessions" }).waitFor();
    await small.goto(addressOf(server, await session(small, server, "text")));
    await small.locator("[data-row=end]").last().waitFor();
    await small.getByRole("button", { name: "Settings" }).waitFor();
    await expectAccessible(small);
    await phone.context.close();
  });

  it("are in order in the middle of a long conversation, and in settings", async () => {
    const long = Array.from({ length: 60 }, (_, i) => `### Part ${i}\n\n${"text ".repeat(60)}`).join("\n\n");
    await open({
      steps: [{ text: long }, { plan: [{ content: "one", status: "pending" }] }, { text: long }],
    });
    await page.locator("[data-row=end]").last().waitFor();
    await expectAccessible(page);
    await page
      .getByRole("region", { name: "Conversation" })
      .evaluate((e) => e.scrollTo(0, e.scrollHeight / 2));
    await expectAccessible(page);
    await page.keyboard.press("n");
    await page.getByRole("main", { name: "New session" }).waitFor();
    await expectAccessible(page);
  });
});
