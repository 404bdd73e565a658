// Draws the icons of the installed page from public/icon.svg: `npm run icons`.
// They change so rarely that the results are committed.

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { it } from "vitest";
import { launch } from "./browser";

const dir = join(import.meta.dirname, "../public");

it.skipIf(process.env.RUNNEL_ICONS !== "1")("draws the icons", async () => {
  const svg = readFileSync(join(dir, "icon.svg"), "utf8");
  const browser = await launch();
  const draw = async (name: string, size: number, scale: number, background?: string) => {
    const page = await browser.newPage({ viewport: { width: size, height: size } });
    await page.setContent(
      `<body style="margin:0;display:grid;place-items:center;height:100vh;background:${background ?? "transparent"}">` +
        svg.replace("<svg ", `<svg width="${size * scale}" height="${size * scale}" `),
    );
    writeFileSync(join(dir, name), await page.screenshot({ omitBackground: !background }));
    await page.close();
  };
  await draw("icon-192.png", 192, 1);
  await draw("icon-512.png", 512, 1);
  await draw("icon-maskable.png", 512, 0.8, "#12343b"); // systems cut a circle or another shape out of it
  await browser.close();
});
