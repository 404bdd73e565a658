// Leads the page through its states, on a desktop and a phone, light and dark.
// Axe must find nothing in any of them. `npm run screenshots` also saves a
// picture of each, for people to inspect.

import { expect, it } from "vitest";
import { expectAccessible, launch, newContext, shot, skip } from "./browser";
import { Server } from "./server";
import { forms, reading, trouble, turn, type Walk } from "./states";

const sizes = {
  wide: { viewport: { width: 1440, height: 900 } },
  phone: { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true, deviceScaleFactor: 2 },
};

const pictures = process.env.RUNNEL_SCREENSHOTS === "1";
const every = pictures || process.env.RUNNEL_LONG === "1";

// Without RUNNEL_LONG, only the states that people see most are checked.
const walks: [keyof typeof sizes, "light" | "dark", ((w: Walk) => Promise<void>)[]][] = every
  ? (["wide", "phone"] as const).flatMap((size) =>
      (["light", "dark"] as const).map(
        (colours) => [size, colours, [turn, reading, forms, trouble]] as (typeof walks)[number],
      ),
    )
  : [["phone", "dark", [turn]]];

it.skipIf(skip).each(walks)("has no barrier in any state, %s, %s", async (size, colorScheme, parts) => {
  const [server, browser] = await Promise.all([Server.start(), launch()]);
  const { context } = await newContext(browser, server, { ...sizes[size], colorScheme });
  const page = await context.newPage();
  const visited: string[] = [];
  const visit = async (name: string) => {
    if (pictures) await page.waitForTimeout(300); // let elements fade in; no check depends on this wait
    await shot(page, `${name}-${size}-${colorScheme}`);
    await expectAccessible(page, name);
    expect(await page.evaluate(() => document.documentElement.scrollWidth), name).toBe(
      sizes[size].viewport.width,
    );
    visited.push(name);
  };
  try {
    for (const part of parts) await part({ page, server, phone: size === "phone", visit });
    if (every) expect(new Set(visited).size).toBeGreaterThanOrEqual(20);
  } finally {
    await browser.close();
    await server.close();
  }
});
