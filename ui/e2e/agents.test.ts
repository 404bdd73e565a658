// Features of agents: settings, forms, questions, terminals.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import {
  addressOf,
  chooseAgent,
  chooseFolder,
  expectAccessible,
  expectQuiet,
  launch,
  logIn,
  newContext,
  session,
  skip,
  type Watch,
} from "./browser";
import { Server } from "./server";

const sizes = {
  wide: { viewport: { width: 1440, height: 900 } },
  phone: { viewport: { width: 360, height: 740 }, hasTouch: true, isMobile: true, deviceScaleFactor: 2 },
};

const terminal = join(import.meta.dirname, "../../provider/script/scripts/terminal.json");

// Without RUNNEL_LONG, a test that does the same in both sizes runs in one.
const every = process.env.RUNNEL_LONG === "1";

describe.skipIf(skip).each(Object.entries(sizes))("agents on a %s", (size, options) => {
  const on = (here: keyof typeof sizes) => it.runIf(every || size === here);
  let server: Server;
  let browser: Browser;
  let page: Page;
  let watch: Watch;
  const phone = size === "phone";

  beforeAll(async () => {
    [server, browser] = await Promise.all([Server.start(), launch()]);
    const permissions = ["clipboard-read", "clipboard-write"];
    const made = await newContext(browser, server, { ...options, permissions });
    watch = made.watch;
    page = await made.context.newPage();
  });
  afterAll(async () => {
    await browser?.close();
    await server?.close();
  });
  // The tests share a page: a new one takes as much processor time as a test.
  beforeEach(() => logIn(page, server));
  afterEach(async () => {
    expectQuiet(watch);
    await page.unrouteAll();
  });

  // Fails unless everything fits on the screen and is accessible.
  const good = async () => {
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(options.viewport.width);
    await expectAccessible(page);
  };
  const open = async (prompt: string | object) => {
    const id = await session(page, server, prompt);
    await page.goto(addressOf(server, id));
    return id;
  };
  const ended = () => page.locator("[data-row=end]").last().waitFor();
  const bar = () => page.getByRole("region", { name: "Approval" });
  // What the agent received as the answer to its question.
  const answerOf = async (n: number) =>
    (await page.locator("[data-row=approval]").nth(n).locator("[data-answer]").innerText()).replace(
      "Answer: ",
      "",
    );
  const copied = () => page.evaluate(() => navigator.clipboard.readText());
  const status = (id: string) =>
    page.evaluate(
      async (id) =>
        (
          await fetch(`/api/session/${id}/status`, {
            headers: { "Runnel-Key": localStorage.getItem("runnel.key") ?? "" },
          })
        ).json(),
      id,
    );

  on("phone")("says which agents there are and how to get those that are not", async () => {
    await page.goto(`${server.origin}/?new`);
    await page.getByRole("button", { name: /^Agent: / }).click();
    const list = page.getByRole("dialog", { name: "Agent" });
    await list.getByText("more that are not installed").click();
    const missing = list.locator("[data-agent][data-state=missing]").first();
    await missing.waitFor();
    const text = await missing.innerText();
    expect(text).toContain("not installed");
    expect(text).toContain("Install it with");
    const command = await missing.locator("code").first().innerText();
    await missing.getByRole("button", { name: `Copy ${command}` }).click();
    await expect.poll(copied).toBe(command);
    await missing.getByRole("radio").check();
    await good();
    await list.getByRole("button", { name: "Close" }).click();
    await page.getByText("is not installed").waitFor();
    await page.getByRole("textbox", { name: "Prompt" }).fill("text");
    expect(await page.getByRole("button", { name: "Send" }).isDisabled()).toBe(true);
    await good();
    await page.getByRole("textbox", { name: "Prompt" }).fill("");
  });

  on("wide")("begins a session with settings of the agent’s own", async () => {
    await page.goto(`${server.origin}/?new`);
    await chooseAgent(page, "Script");
    await chooseFolder(page, server.project);
    await page.getByRole("button", { name: "Settings" }).click();
    const chosen = page.getByRole("dialog", { name: "Settings" });
    await chosen.getByLabel("Pace").selectOption("fast");
    await chosen.getByRole("switch", { name: "Thoughts" }).click();
    await good();
    await chosen.getByRole("button", { name: "Close" }).click();
    await page.getByRole("textbox", { name: "Prompt" }).fill("text");
    await page.getByRole("button", { name: "Send" }).click();
    await ended();
    const id = new URL(page.url()).searchParams.get("session") ?? "";
    expect((await status(id)).given).toEqual({ pace: "fast", thoughts: "false" });
    await page.reload();
    await page.getByRole("button", { name: "Settings" }).click();
    const sheet = page.getByRole("dialog", { name: "Settings" });
    await expect.poll(() => sheet.getByLabel("Pace").inputValue()).toBe("fast");
    expect(await sheet.getByRole("switch").isChecked()).toBe(false);
  });

  it("changes settings while it runs, and shows what the agent makes of it", async () => {
    const id = await open("settings");
    await ended();
    const value = async (option: string) =>
      (await status(id)).config.find((o: { id: string }) => o.id === option)?.value;

    await page.getByRole("button", { name: "Settings" }).click();
    const sheet = page.getByRole("dialog", { name: "Settings" });
    await sheet.getByLabel("Effort").selectOption("high");
    await expect.poll(() => value("effort")).toBe("high");
    await sheet.getByText("Slower, and thinks longer").waitFor();
    await sheet.getByRole("switch", { name: "Web search" }).click();
    await expect.poll(() => value("web")).toBe("true");
    await good();
    if (phone) {
      const box = await sheet.boundingBox();
      expect(box && [box.x, box.width, Math.round(box.y + box.height)]).toEqual([0, 360, 740]);
    }

    // With forty models, the user searches with the keyboard.
    await sheet.getByRole("button", { name: "Model: River 1" }).click();
    const list = page.getByRole("dialog", { name: "Model" });
    await list.getByRole("combobox").fill("delta hard 3");
    await expect.poll(() => list.getByRole("option").count()).toBe(1);
    await good();
    await page.keyboard.press("Enter");
    await expect.poll(() => value("model")).toBe("sample-delta-3");
    await sheet.getByRole("button", { name: "Model: Delta 3" }).waitFor();
    await page.keyboard.press("Escape");
    await sheet.waitFor({ state: "detached" });

    // A setting changed in another tab appears here, too.
    await page.evaluate(
      async (id) =>
        fetch(`/api/session/${id}/options`, {
          method: "POST",
          headers: {
            "Content-Type": "application/json",
            "Runnel-Key": localStorage.getItem("runnel.key") ?? "",
          },
          body: JSON.stringify({ config: { mode: "plan" } }),
        }),
      id,
    );
    if (phone) await page.getByRole("button", { name: "Settings" }).click();
    const mode = phone
      ? sheet.getByLabel("Mode", { exact: true })
      : page.getByRole("combobox", { name: "Mode", exact: true });
    await expect.poll(() => mode.inputValue()).toBe("plan");

    // After a reload the page shows the current values.
    await page.reload();
    await ended();
    if (phone) await page.getByRole("button", { name: "Settings" }).click();
    await expect.poll(() => mode.inputValue()).toBe("plan");
    if (!phone) await page.getByRole("button", { name: "Model: Delta 3" }).waitFor();

    // An error appears next to the setting that caused it.
    await page.route("**/options", (r) => r.abort());
    await mode.selectOption("auto");
    await page.getByRole("alert").filter({ hasText: "not responding" }).waitFor();
    expect(await mode.inputValue()).toBe("plan");
    await good();
  });

  on("phone")("shows a terminal’s output as it grows, in its colours, and obeys nothing of it", async () => {
    const script = JSON.parse(readFileSync(terminal, "utf8"));
    script.steps[1].tool.ask = {}; // wait until the output is visible
    await open(script);
    const row = page.locator("[data-row=tool]").first();
    await row.getByRole("button").first().click();
    const out = row.locator("pre.terminal");
    // The progress line of a running command. The page checks for it in every
    // frame.
    const progress = page.waitForFunction(() => {
      const text = document.querySelector<HTMLElement>("[data-row=tool] pre.terminal")?.innerText ?? "";
      return /\[=+ *\]/.test(text) ? text : undefined;
    });
    await bar().getByRole("button", { name: "Allow once" }).and(page.locator(":enabled")).click();
    const seen = await (await progress).jsonValue();
    expect(seen?.match(/%/g)?.length).toBe(1);
    await row.locator("[data-exit='1']").waitFor();
    await ended();
    const text = await out.innerText();
    expect(text.split("\n").slice(0, 3)).toEqual([
      "fetch 12 modules",
      "fetched in 0.6 s",
      "=== RUN TestHello",
    ]);
    expect(text).toContain("think (1 of 2 failed)");
    expect(text).not.toMatch(/%|make test|ESC|CSI/);
    expect(await out.locator(".ansi-1.font-semibold").first().innerText()).toBe("--- FAIL");
    expect(await out.locator("[style], [onclick], a").count()).toBe(0);
    await row.getByRole("button", { name: "Copy output" }).click();
    await expect.poll(async () => (await copied()).split("\n")[1]).toBe("fetched in 0.6 s");
    await good();
    await row.getByRole("button", { name: "Show raw" }).click();
    expect(await row.locator("pre").last().innerText()).toContain("OSC 0;make test");
    await row.getByRole("button", { name: "Show raw" }).click();

    const long = page.locator("[data-row=tool]").nth(1);
    await long.getByRole("button").first().click();
    expect((await long.locator("pre").last().innerText()).split("\n").filter(Boolean).length).toBe(20);
    await long.getByRole("button", { name: "Show all 400 lines" }).click();
    const box = await long.locator("pre").last().boundingBox();
    expect(box?.height).toBeLessThanOrEqual(options.viewport.height * 0.7 + 1);
    await good();
  });

  on("phone")("fills in a form, and opens a page only by a click", async () => {
    let popups = 0;
    page.context().on("page", () => popups++);
    await open("form");
    await bar().waitFor();
    await bar().getByRole("textbox", { name: "Name of the service" }).fill("x");
    await bar().getByRole("button", { name: "Send" }).and(page.locator(":enabled")).click();
    await bar().getByText("At least 2 characters.").waitFor();
    expect(await bar().locator("[data-wrong]").count()).toBe(4);
    const focused = () =>
      page.evaluate(() => document.activeElement?.closest("[data-field]")?.getAttribute("data-field"));
    await expect.poll(focused).toBe("name");
    await good();
    await bar().getByRole("textbox", { name: "Name of the service" }).fill("greeter");
    await bar().getByRole("textbox", { name: "Contact for failures" }).fill("ops@example.org");
    await bar().getByRole("radio", { name: "Medium" }).check();
    await bar().getByRole("textbox", { name: "Replicas" }).fill("3");
    await bar().getByLabel("First day").fill("2026-11-22");
    await bar().getByRole("checkbox", { name: "metrics" }).check();
    await bar().getByRole("switch", { name: "Reachable" }).click();
    await good();
    await bar().getByRole("button", { name: "Send" }).click();

    const link = bar().getByRole("link", { name: "Open login.cloud.example in a new tab" });
    await link.waitFor();
    expect(await bar().locator("pre").innerText()).toBe(
      "https://login.cloud.example/device?code=RUNN-3L&return=https%3A%2F%2Fexample.org",
    );
    expect([await link.getAttribute("rel"), await link.getAttribute("target")]).toEqual([
      "noopener noreferrer nofollow",
      "_blank",
    ]);
    await good();
    await bar().getByRole("button", { name: "Decline" }).and(page.locator(":enabled")).click();
    await ended();
    expect(popups).toBe(0);
    expect(JSON.parse(await answerOf(0))).toEqual({
      name: "greeter",
      contact: "ops@example.org",
      from: "2026-11-22",
      region: "eu-1",
      tier: "m",
      replicas: 3,
      features: ["metrics"],
      public: true,
    });
    await page.getByText("Question: answered by you").waitFor();
    await page.getByText("Question: not answered by you").waitFor();
    await good();
  });

  on("wide")("answers one question by a button, and several in a form", async () => {
    await open("question");
    await bar().getByText("Which database shall it use?", { exact: true }).waitFor();
    await good();
    await bar().getByRole("button", { name: "PostgreSQL" }).and(page.locator(":enabled")).click();
    await bar().getByText("Which checks shall run").waitFor();
    await bar().getByRole("radio", { name: "Something else" }).check();
    await bar().getByRole("textbox", { name: "in your own words" }).fill("files");
    await bar().getByRole("checkbox", { name: "Tests" }).check();
    await bar().getByRole("checkbox", { name: "Fuzzing" }).check();
    await bar().getByRole("textbox", { name: "What shall the branch" }).fill("try-it");
    await good();
    await bar().getByRole("button", { name: "Answer", exact: true }).and(page.locator(":enabled")).click();
    await ended();
    await page.getByText("Question: PostgreSQL, answered by you").waitFor();
    expect(await answerOf(0)).toBe("PostgreSQL");
    expect(JSON.parse(await answerOf(1)).answers).toEqual({
      db: "files",
      checks: ["Tests", "Fuzzing"],
      name: "try-it",
    });
  });
});
