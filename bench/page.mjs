// Measures in a real browser how soon the page paints what an agent writes.
// The benchmark starts this program in the root of the repository, writes a
// request to its standard input and reads lines of JSON from its output:
// {"ready":true} when the page shows the session, then a Result.
//
// Request: { link, session, last } with the login link, the id of the session
// and the number of the last delta to wait for.
// Result: { delays, frames } in milliseconds: for each delta from the agent's
// clock to the paint, and between all frames of the answer.

import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { resolve } from "node:path";
import { createInterface } from "node:readline";

const { chromium } = createRequire(resolve("ui/package.json"))("playwright-core");

const programs = [process.env.CHROMIUM, "/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
const line = await new Promise((done) => createInterface({ input: process.stdin }).once("line", done));
const { link, session, last } = JSON.parse(line);
const browser = await chromium.launch({
  executablePath: programs.find((p) => p && existsSync(p)),
  args: [
    ...(process.getuid?.() === 0 ? ["--no-sandbox"] : []),
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
  ],
});
try {
  const page = await browser.newPage({ viewport: { width: 1440, height: 900 } });
  page.setDefaultTimeout(60_000);
  await page.goto(link);
  await page.getByRole("navigation", { name: "Sessions" }).waitFor();
  await page.goto(`${new URL(link).origin}/?session=${encodeURIComponent(session)}`);
  await page.getByRole("textbox", { name: "Prompt" }).waitFor();
  await page.evaluate(watch, last);
  console.log(JSON.stringify({ ready: true }));
  console.log(JSON.stringify(await page.evaluate(() => window.painting)));
} finally {
  await browser.close();
}
process.exit(0); // standard input is still open

// watch runs in the page and sets window.painting, a promise. A delta counts as painted when a task that runs after
// a frame finds it in the document.
function watch(last) {
  window.painting = new Promise((done) => {
    const delays = [];
    const frames = [];
    let newest = -1;
    let before = 0;
    // performance.timeOrigin and the agent's clock may have drifted apart.
    // Date.now() is the system's clock, in whole milliseconds.
    const drift = [];
    for (let ms = Date.now(); drift.length < 10; ) {
      if (Date.now() === ms) continue;
      ms = Date.now();
      drift.push(ms - performance.timeOrigin - performance.now());
    }
    const epoch = performance.timeOrigin + drift.sort((a, b) => a - b)[5];
    const began = Date.now();
    const painted = new MessageChannel();
    painted.port1.onmessage = () => {
      const at = epoch + performance.now();
      const rows = document.querySelectorAll("[data-row]");
      const text = [...rows].slice(-3).map((row) => row.textContent).join(" ");
      for (const [, number, nanos] of text.matchAll(/(\d+)@(\d{19});/g)) {
        const written = Number(nanos) / 1e6;
        if (Number(number) <= newest || written < began) continue;
        newest = Number(number);
        delays.push(at - written);
      }
      if (newest >= last) done({ delays, frames });
      else requestAnimationFrame(frame);
    };
    const frame = (now) => {
      if (newest >= 0) frames.push(now - before);
      before = now;
      painted.port2.postMessage(0);
    };
    requestAnimationFrame(frame);
  });
}
