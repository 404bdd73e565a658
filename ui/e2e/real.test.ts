// Checks what the page shows of a real agent that does what its prompts say.
// TestEveryAgentInABrowser in test/e2e starts the server, runs this file and
// names the features that the agent lacks.

import type { Browser, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import {
  chooseFolder,
  expectAccessible,
  expectQuiet,
  launch,
  newContext,
  shot,
  told,
  type Watch,
} from "./browser";

interface Real {
  agent: string;
  origin: string;
  link: string;
  project: string;
  prompts: Record<"text" | "tool" | "colour" | "edit" | "denied" | "fail" | "long", string>;
  cannot: Record<string, string>;
  silent: boolean; // the agent does not report the output of commands
}

const none = { agent: "an agent", origin: "", link: "", project: "", prompts: {}, cannot: {}, silent: false };
const real: Real = JSON.parse(process.env.RUNNEL_REAL ?? JSON.stringify(none));

describe.skipIf(real.origin === "")(`the page of ${real.agent}`, () => {
  const { agent, origin, link, project, prompts, cannot, silent } = real;
  let browser: Browser;
  let watch: Watch;
  let page: Page;

  beforeAll(async () => {
    browser = await launch();
    const made = await newContext(browser, { origin });
    watch = made.watch;
    page = await made.context.newPage();
    await page.goto(link);
    await page.getByRole("navigation", { name: "Sessions" }).waitFor();
  });
  afterAll(async () => {
    await browser?.close();
  });
  afterEach(() => expectQuiet(watch));

  const ends = () => page.locator("[data-row=end]").count();
  const send = async (prompt: string) => {
    await page.getByRole("textbox", { name: "Prompt" }).fill(prompt);
    await page.getByRole("button", { name: "Send" }).click();
  };
  /** Sends a prompt and answers all approvals until its turn ends. */
  const turn = async (prompt: string, kind: "allow_once" | "deny" = "allow_once") => {
    const before = await ends();
    await send(prompt);
    let asked = 0;
    await expect
      .poll(async () => {
        const choice = page.locator(`[data-choice=${kind}]:enabled`).first();
        if (
          (await choice.count()) &&
          (await choice.click({ timeout: 1000 }).then(
            () => true,
            () => false,
          ))
        )
          asked++;
        return ends();
      })
      .toBe(before + 1);
    return asked;
  };
  const last = (row: string) => page.locator(`[data-row=${row}]`).last();
  const good = async (name: string) => {
    await shot(page, `${agent}-${name}`);
    await expectAccessible(page);
    expect(await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)).toBe(0);
  };

  it("is found, with its version, and is begun with", async () => {
    await page.goto(`${origin}/?new`);
    await page.getByRole("button", { name: /^Agent: / }).click();
    const row = page.locator(`[data-agent="${agent}"]`);
    // The server may still be detecting the agent, and missing agents may be
    // collapsed.
    const state = async () => `${await row.getAttribute("data-state")}: ${await row.textContent()}`;
    await expect.poll(state).toMatch(/^(ready|silent): /);
    if (!/did not say/.test(await state())) expect(await row.innerText()).toMatch(/\d+\.\d+/);
    await row.getByRole("radio").check();
    await page.getByRole("button", { name: "Close" }).click();
    await chooseFolder(page, project);
    await good("new");
  });

  it("says something, as Markdown", async () => {
    await turn(prompts.text); // the prompt that begins the session
    await last("prose").locator("strong").filter({ hasText: "世界" }).waitFor();
    expect(await last("prose").innerText()).toBe("Grüße, 世界 🙂.");
    await good("text");
  });

  it("offers its settings, and changes one", async () => {
    const button = page.getByRole("button", { name: "Settings" });
    const one = page.locator(
      "form[aria-label=Prompt] select, form[aria-label=Prompt] [aria-haspopup=dialog]",
    );
    expect(await one.count()).toBeGreaterThan(0);
    if (!(await button.isVisible())) return;
    await button.click();
    const sheet = page.getByRole("dialog", { name: "Settings" });
    expect(await sheet.locator("[data-setting]").count()).toBeGreaterThan(0);
    await good("settings");
    // Each change either takes effect or shows an error; then the old value is
    // set again.
    const field = sheet
      .locator("[data-setting^='config:']")
      .filter({ has: page.locator("option:nth-child(2)") })
      .first();
    if (await field.count()) {
      const select = field.locator("select");
      const was = await select.inputValue();
      const values = await select
        .locator("option")
        .evaluateAll((os) => os.map((o) => (o as HTMLOptionElement).value));
      const wanted = values.find((v) => v !== was && v !== "") ?? was;
      for (const value of [wanted, was]) {
        await select.selectOption(value);
        await expect.poll(() => field.getAttribute("aria-busy")).toBe("false");
        if ((await select.inputValue()) !== value)
          expect(await field.innerText()).toMatch(/kept|cannot|no such|not/);
      }
      expect(await select.inputValue()).toBe(was);
    }
    await page.keyboard.press("Escape");
    await sheet.waitFor({ state: "detached" });
  });

  it.skipIf(cannot.Tool)("runs a command and shows what it printed", async () => {
    await turn(prompts.tool);
    const row = last("tool");
    expect(await row.innerText()).toMatch(/^Run/);
    expect(await row.innerText()).toContain("printf");
    await row.getByRole("button").first().click();
    const text = await row.locator("[data-terminal]").innerText();
    if (silent) expect(text).toBe("No output.");
    else for (const line of ["plain", "done"]) expect(text).toContain(line);
    await good("tool");
  });

  // Some agents remove colours, or all output that has colours.
  it.skipIf(cannot.Tool)("draws a terminal’s output and obeys nothing of it", async () => {
    await turn(prompts.colour);
    const row = last("tool");
    await row.getByRole("button").first().click();
    const text = await row.locator("[data-terminal]").innerText();
    expect(text).toMatch(/red[\s\S]*done|No output/);
    expect(text).not.toMatch(/\u001b|ESC|\[31m|10%/);
    await good("colour");
  });

  it.skipIf(cannot.Edit)("changes a file and shows how", async () => {
    await turn(prompts.edit);
    const row = last("tool");
    expect(await row.innerText()).toMatch(/(Create|Edit)\s+seen\.txt/);
    expect(await row.innerText()).toContain("+2");
    await page
      .getByRole("button", { name: /1 file changed/ })
      .last()
      .click();
    const added = page.getByRole("dialog").locator(".diff-line.add .body");
    await expect.poll(() => added.allInnerTexts()).toEqual(["one", "two"]);
    await good("edit");
    await page.keyboard.press("Escape");
    await page.locator("dialog").waitFor({ state: "detached" });
  });

  it.skipIf(cannot.ApprovalDenied ?? cannot.ApprovalAllowed)("asks, and is told no", async () => {
    expect(await turn(prompts.denied, "deny")).toBe(1);
    await page
      .getByText(/denied by you/)
      .last()
      .waitFor();
    await good("denied");
  });

  it("is stopped", async () => {
    const before = await ends();
    await send(prompts.long);
    await last("prose").filter({ hasText: "on and" }).waitFor();
    await page.getByRole("button", { name: "Stop" }).click();
    await expect.poll(ends).toBe(before + 1);
    await last("end").getByText("Stopped by you").waitFor();
  });

  it.skipIf(cannot.Failure)("fails, with its reason", async () => {
    await turn(prompts.fail);
    await last("end").getByRole("button", { name: "Try again" }).waitFor();
    expect(await last("end").locator("p").allInnerTexts()).toEqual([
      expect.any(String),
      expect.stringMatching(/\w+ \w+/),
    ]);
    await good("failed");
  });

  it("shows the same after a reload", async () => {
    const opened = page.locator("[data-row] button[aria-expanded=true]"); // a reload does not keep these open
    while (await opened.count()) await opened.first().click();
    const before = await told(page);
    await page.reload();
    await expect.poll(() => told(page)).toEqual(before);
  });
});
