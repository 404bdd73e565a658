// Screenshots of every state for people to inspect: `npm run screenshots`.

import type { Page } from "playwright-core";
import { describe, it } from "vitest";
import { addressOf, expectAccessible, launch, newContext, session, shot } from "./browser";
import { Server } from "./server";

const sizes = {
  wide: { viewport: { width: 1440, height: 900 } },
  phone: { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true, deviceScaleFactor: 2 },
};

describe.skipIf(process.env.RUNNEL_SCREENSHOTS !== "1")("pictures", () => {
  for (const colorScheme of ["light", "dark"] as const)
    for (const [size, options] of Object.entries(sizes))
      it(`${size}, ${colorScheme}`, async () => {
        const [server, browser] = await Promise.all([Server.start(), launch()]);
        const { context } = await newContext(browser, server, { ...options, colorScheme });
        const page = await context.newPage();
        const take = async (name: string) => {
          await page.waitForTimeout(300); // let elements fade in; no check depends on this wait
          await shot(page, `${name}-${size}-${colorScheme}`);
          await expectAccessible(page);
        };
        try {
          await page.goto(`${server.origin}/`);
          await page.getByRole("heading", { level: 1 }).waitFor();
          await take("login");
          await page.goto(server.link());
          await page.getByRole("heading", { name: "first session" }).waitFor();
          await take("empty");

          const open = async (prompt: string, state: string) => {
            const id = await session(page, server, prompt);
            await page.goto(addressOf(server, id));
            await page.locator(state).last().waitFor();
          };
          await open("demo: greet the world when there is no name", "[data-approval-bar]");
          await take("approval");
          await page.goto(`${server.origin}/`);
          await page.getByRole("heading", { name: "Needs you" }).first().waitFor();
          await take("list");
          await page.goBack();
          await allowAll(page);
          await take("turn");
          await page.getByRole("button", { name: "Details" }).click();
          await take("details");
          await page.getByRole("button", { name: "Close details" }).click();
          await page
            .getByRole("button", { name: /changed/ })
            .last()
            .click();
          await take("diff");
          await open("tools of every kind", "[data-row=end]");
          const folded = page.locator("[data-row=tool] button[aria-expanded=false]");
          while (await folded.count()) await folded.first().click();
          await take("tools");
          await open("terminal", "[data-row=end]");
          await page.locator("[data-row=tool]").first().getByRole("button").first().click();
          await page.locator("pre.terminal").scrollIntoViewIfNeeded();
          await take("terminal");
          await open("settings", "[data-row=end]");
          await page.getByRole("button", { name: "Settings" }).click();
          await take("settings");
          await page.getByRole("button", { name: "Model: River 1" }).last().click();
          await take("models");
          await open("form", "[data-approval-bar]");
          await page.getByRole("button", { name: "Send" }).and(page.locator(":enabled")).click();
          await take("form");
          await page.getByRole("button", { name: "Decline" }).click();
          await page.getByRole("link", { name: "cloud.example" }).waitFor();
          await take("page-to-visit");
          await open("question", "[data-approval-bar]");
          await take("question");
          await page.getByRole("button", { name: "SQLite" }).and(page.locator(":enabled")).click();
          await page.getByRole("radio").first().waitFor();
          await take("questions");
          await page.route("**/api/agents*", (r) => r.fulfill({ json: { agents: sampleAgents } }));
          await page.goto(`${server.origin}/?new`);
          await page.getByRole("button", { name: /^Agent: / }).click();
          await page.getByRole("button", { name: "Check again" }).click();
          await page.getByText("checking…").waitFor();
          await take("agents");
          await page.unroute("**/api/agents*");
          await open("fail to deploy", "[data-row=end]");
          await take("failed");
          await page.keyboard.press("?");
          await take("keys");
          await open("hang on", "[data-row=working]");
          await server.kill();
          await page.getByRole("status").filter({ hasText: "Reconnecting" }).waitFor();
          await take("reconnecting");
        } finally {
          await browser.close();
          await server.close();
        }
      });
});

// Agents in every state. The agents of this machine would make the screenshots
// differ between machines.
const sampleAgents = [
  {
    cliType: "brook",
    displayName: "Brook Code",
    installed: true,
    loggedIn: true,
    version: "2.1.197",
    models: [{ id: "small", name: "Small" }],
    modes: ["default", "acceptEdits", "plan"],
  },
  {
    cliType: "delta",
    displayName: "Delta",
    installed: true,
    loggedIn: false,
    version: "0.169.0",
    login: "delta login --device",
  },
  {
    cliType: "mere",
    displayName: "Mere CLI",
    checking: true,
    install: "npm install -g @mere/cli",
    login: "mere",
  },
  ...["Pond", "Tarn", "Loch", "Fen"].map((n) => ({
    cliType: n.toLowerCase(),
    displayName: n,
    install: `npm install -g ${n.toLowerCase()}`,
    problem: `${n} is not on the PATH.`,
  })),
  { cliType: "script", displayName: "Script", installed: true, loggedIn: true, version: "built in" },
];

async function allowAll(page: Page) {
  while (!(await page.locator("[data-row=end]").count())) {
    await page.locator("[data-row=end], [data-choice=allow_once]:enabled").first().waitFor();
    await page
      .locator("[data-choice=allow_once]:enabled")
      .click({ timeout: 2000 })
      .catch(() => undefined);
  }
}
