// The details of a session: its plan, what it used, and its raw events.

import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { addressOf, expectAccessible, expectQuiet, launch, newContext, session, skip } from "./browser";
import { Server } from "./server";

const sizes = {
  wide: { viewport: { width: 1440, height: 900 } },
  phone: { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true },
};

const work = {
  steps: [
    {
      plan: [
        { content: "Read the code", status: "completed" },
        { content: "Change it", status: "in_progress" },
        { content: "Test it", status: "pending" },
      ],
    },
    { text: "Half of it is done." },
    {
      usage: {
        usage: {
          inputTokens: 1200,
          outputTokens: 300,
          cacheReadInputTokens: 45000,
          cacheCreationInputTokens: 800,
          reasoningTokens: 120,
        },
        contextTokens: 150000,
        contextWindow: 200000,
        costUsd: 0.25,
        rateLimit: { status: "allowed_warning", kind: "five_hour", utilization: 0.92, resetsAt: 2000000000 },
      },
    },
  ],
};
const more = {
  steps: [
    { text: "Another one." },
    {
      usage: {
        usage: { inputTokens: 10, outputTokens: 20 },
        costUsd: 0.5,
        rateLimit: { status: "allowed", kind: "weekly", utilization: 0.1 },
      },
    },
  ],
};

// Without RUNNEL_LONG, each test runs in one of the sizes.
const every = process.env.RUNNEL_LONG === "1";

describe.skipIf(skip).each(Object.entries(sizes))("the details, %s,", (size, options) => {
  const on = (here: keyof typeof sizes) => it.runIf(every || size === here);
  let server: Server;
  let browser: Browser;
  let page: Page;
  let quiet: () => void;

  beforeAll(async () => {
    [server, browser] = await Promise.all([Server.start(), launch()]);
    const { context, watch } = await newContext(browser, server, options);
    quiet = () => expectQuiet(watch);
    await context.grantPermissions(["clipboard-read", "clipboard-write"]);
    page = await context.newPage();
    await page.goto(server.link());
    await page.getByRole("textbox", { name: "Prompt" }).waitFor();
  });
  afterAll(async () => {
    await browser?.close();
    await server?.close();
  });

  const open = async () => {
    if (size === "wide") return page.getByRole("button", { name: "Details" }).click();
    await page.getByRole("button", { name: "All commands" }).click();
    await page.getByRole("option", { name: "Session details" }).click();
  };
  const send = async (prompt: object, ends: number) => {
    await page.getByRole("textbox", { name: "Prompt", exact: true }).fill(JSON.stringify(prompt));
    await page.getByRole("button", { name: "Send" }).click();
    await page
      .locator("[data-row=end]")
      .nth(ends - 1)
      .waitFor();
  };

  on("phone")("show the plan, the context, the limits, and tokens and cost by kind and by turn", async () => {
    await page.goto(addressOf(server, await session(page, server, work)));
    await page.locator("[data-row=end]").waitFor();
    await send(more, 2);
    await open();
    const details = page.getByRole("complementary", { name: "Details" });
    const text = async (region: string) =>
      (await details.getByRole("region", { name: region, exact: true }).innerText()).replace(/\s+/g, " ");

    const plan = details.getByRole("region", { name: "Plan" });
    await plan.getByRole("meter", { name: "Done" }).waitFor();
    expect(await text("Plan")).toContain("1 of 3");
    expect(await plan.getByRole("listitem").count()).toBe(3);
    expect(await text("Usage")).toContain("150k of 200k tokens");
    expect(await text("Usage")).toMatch(/Limit \(five hour\) 92 %, almost reached resets .*2033/);
    expect(await text("Usage")).toContain("Limit (weekly) 10 %");
    await details.getByText("$0.75 in 2 turns").waitFor();
    const total = await text("Session total");
    for (const row of [
      "New input 1.2k",
      "Read from the cache 45k",
      "Written to the cache 800",
      "Output 320",
      "of it for reasoning 120",
    ])
      expect(total).toContain(row);
    await details.getByText("By turn").click();
    const rows = details.getByRole("row");
    expect((await rows.allInnerTexts()).map((r) => r.split("\t").slice(1).join(" ").trim())).toEqual([
      "New Cached Out Cost",
      "10 0 20 $0.50",
      "1.2k 45.8k 300 $0.25",
    ]);
    expect(await text("Session")).toMatch(/Agent process (running since .*|not running)/);
    await expectAccessible(page);
    quiet();
  });

  on("wide")("show the raw events, live, with a filter and a copy", async () => {
    const id = await session(page, server, work);
    await page.goto(addressOf(server, id));
    await page.locator("[data-row=end]").waitFor();
    await open();
    await page.getByRole("button", { name: "Raw events" }).click();
    const dialog = page.getByRole("dialog", { name: "Raw events" });
    const events = dialog.locator("[data-event]");
    await dialog.locator("[data-event=response_done]").waitFor();
    expect(await dialog.locator("[data-event=item_delta]").count()).toBe(0);
    await dialog.getByRole("checkbox", { name: "Deltas" }).check();
    await dialog.locator("[data-event=item_delta]").first().waitFor();
    await dialog.getByRole("searchbox", { name: "Filter events" }).fill("usage_updated");
    await expect.poll(() => events.count()).toBe(1);
    await dialog.getByRole("status").getByText("1 event").waitFor();
    await events.locator("summary").click();
    await dialog.getByText('"utilization": 0.92').waitFor();
    await expectAccessible(page);
    await dialog.getByRole("button", { name: "Copy the events as JSONL" }).click();
    const copied = async () => (await page.evaluate(() => navigator.clipboard.readText())).split("\n");
    await expect.poll(async () => JSON.parse((await copied())[0] ?? "{}").type).toBe("usage_updated");
    expect(await copied()).toHaveLength(1);

    // An event that happens meanwhile appears.
    await dialog.getByRole("searchbox", { name: "Filter events" }).fill("usage_updated weekly");
    await expect.poll(() => events.count()).toBe(0);
    await page.evaluate(
      async ({ id, content }) => {
        const headers = {
          "Content-Type": "application/json",
          "Runnel-Key": localStorage.getItem("runnel.key") ?? "",
        };
        await fetch(`/api/session/${id}/send`, {
          method: "POST",
          headers,
          body: JSON.stringify({ content }),
        });
      },
      { id, content: JSON.stringify(more) },
    );
    await dialog.locator("[data-event=usage_updated]").waitFor();
    quiet();
  });
});
