// Measures in a real browser how fast the page is, and beside it a static page
// with the same instruments. The benchmark starts this program in the root of
// the repository, writes a request to its standard input and reads lines of
// JSON from its output: {"ready":true} when the page waits for an answer that
// streams, then a Result.
//
// Request: { link, session, other, floor, rounds, last } with the login link,
// the ids of a long and of an empty session, the address of the static pages,
// and the number of the last delta of the answer.
// Result: two Speeds, ours and floor, in milliseconds, and the bytes of the
// compressed scripts up to the first contentful paint (script) and up to the
// first view (viewScript).
// Speed: { paint, view, open, warm, scroll, stream, typing }: lists of the first
// contentful paints, of first views, of openings, of openings in a page that has
// shown the session before, of frames while the page scrolls, of frames while
// somebody types, and of the times from a key to its paint.

import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { resolve } from "node:path";
import { createInterface } from "node:readline";

const { chromium } = createRequire(resolve("ui/package.json"))("playwright-core");

const programs = [process.env.CHROMIUM, "/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
const line = await new Promise((done) => createInterface({ input: process.stdin }).once("line", done));
const { link, session, other, floor, rounds, last } = JSON.parse(line);
const origin = new URL(link).origin;
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
const viewport = { width: 1440, height: 900 };
const keys = 100; // pressed while an answer arrives
const between = 45; // ms from one key to the next
const turns = 60; // of the wheel

// A view is what a person waits for: an element within the window.
const views = { list: `[data-session="${session}"]`, end: "[data-row=end]", static: "[data-end]" };

try {
  const storageState = await loggedIn();
  const ours = { paint: [], view: [], open: [], warm: [], scroll: [], stream: [], typing: [] };
  const theirs = structuredClone(ours);
  let script = 0;
  let viewScript = 0;
  for (let i = 0; i <= rounds; i++) {
    const first = await load(`${origin}/`, views.list, storageState);
    const still = await load(`${floor}/`, views.static);
    const opened = await load(addressOf(session), views.end, storageState);
    const long = await load(`${floor}/long#end`, views.static);
    if (i === 0) continue; // the browser and the server run this for the first time
    script = Math.max(script, first.script);
    viewScript = Math.max(viewScript, first.viewScript);
    ours.paint.push(first.paint);
    ours.view.push(first.view);
    ours.open.push(opened.view);
    theirs.paint.push(still.paint);
    theirs.view.push(still.view);
    theirs.open.push(long.view);
  }
  const context = await browser.newContext({ viewport, storageState });
  const page = await opening(context, addressOf(session), views.end);
  for (let i = 0; i <= rounds; i++) {
    await page.locator(`[data-session="${other}"]`).first().click();
    await page.locator(views.end).waitFor({ state: "detached" });
    const took = await page.evaluate(click, [views.list, views.end]);
    if (i > 0) ours.warm.push(took);
  }
  const context2 = await browser.newContext({ viewport });
  const still = await opening(context2, `${floor}/long`, "p");
  for (let i = 0; i < rounds; i++) {
    await still.evaluate(() => document.querySelector("main").replaceChildren());
    theirs.warm.push(await still.evaluate(click, ["button", views.static]));
  }
  theirs.scroll = await scrolled(still);
  ours.scroll = await scrolled(page);
  await page.goto(addressOf(session));
  await page.locator(views.end).last().waitFor();
  [theirs.stream, theirs.typing] = await typed(still, still.locator("textarea"), undefined);
  const field = page.getByRole("textbox", { name: "Prompt", exact: true });
  [ours.stream, ours.typing] = await typed(page, field, last);
  console.log(JSON.stringify({ ours, floor: theirs, script, viewScript }));
} finally {
  await browser.close();
}
process.exit(0); // standard input is still open

function addressOf(id) {
  return `${origin}/?session=${encodeURIComponent(id)}`;
}

async function loggedIn() {
  const context = await browser.newContext({ viewport });
  const page = await context.newPage();
  page.setDefaultTimeout(60_000);
  await page.goto(link);
  await page.getByRole("navigation", { name: "Sessions" }).waitFor();
  await page.waitForLoadState("networkidle");
  const state = await context.storageState();
  await context.close();
  return state;
}

// opening opens an address and waits for a view.
async function opening(context, address, view) {
  const page = await context.newPage();
  page.setDefaultTimeout(60_000);
  await page.goto(address);
  await page.locator(view).first().waitFor();
  return page;
}

// load opens an address in a browser without a cache. It returns, from the
// beginning of the navigation, the first contentful paint and the frame with the
// view, and the bytes of the scripts up to either.
async function load(address, view, storageState) {
  const context = await browser.newContext({ viewport, storageState });
  try {
    await context.addInitScript(awaitView, view);
    const page = await context.newPage();
    page.setDefaultTimeout(60_000);
    await page.goto(address);
    return await page.evaluate(() => window.viewed);
  } finally {
    await context.close();
  }
}

// awaitView runs before the scripts of a page.
function awaitView(view) {
  window.viewed = new Promise((done) => {
    const painted = new MessageChannel();
    painted.port1.onmessage = () => {
      const at = performance.now();
      const paint = performance.getEntriesByName("first-contentful-paint")[0]?.startTime;
      const box = [...document.querySelectorAll(view)].at(-1)?.getBoundingClientRect();
      if (!box || box.bottom <= 0 || box.top >= innerHeight || paint === undefined) return requestAnimationFrame(frame);
      const scripts = performance.getEntriesByType("resource").filter((r) => /\.js(\?|$)/.test(r.name));
      const until = (end) => scripts.filter((r) => r.responseEnd > 0 && r.responseEnd <= end).reduce((n, r) => n + r.encodedBodySize, 0);
      done({ paint, view: at, script: until(paint), viewScript: until(at) });
    };
    const frame = () => painted.port2.postMessage(0);
    requestAnimationFrame(frame);
  });
}

// click runs in the page. It clicks an element and returns the time until a frame
// has the view.
function click([what, view]) {
  return new Promise((done) => {
    const painted = new MessageChannel();
    const began = performance.now();
    painted.port1.onmessage = () => {
      const box = [...document.querySelectorAll(view)].at(-1)?.getBoundingClientRect();
      if (box && box.bottom > 0 && box.top < innerHeight) done(performance.now() - began);
      else requestAnimationFrame(frame);
    };
    const frame = () => painted.port2.postMessage(0);
    document.querySelector(what).click();
    requestAnimationFrame(frame);
  });
}

// watch runs in the page. It records frames, and the times from each key to the
// task after the next frame.
function watch() {
  const seen = { frames: [], keys: [], over: false };
  let before;
  const frame = (now) => {
    if (before !== undefined) seen.frames.push(now - before);
    before = now;
    if (!seen.over) requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame);
  addEventListener(
    "keydown",
    (e) => {
      const painted = new MessageChannel();
      painted.port1.onmessage = () => seen.keys.push(performance.now() - e.timeStamp);
      requestAnimationFrame(() => painted.port2.postMessage(0));
    },
    true,
  );
  window.seen = seen;
}

function over() {
  window.seen.over = true;
  return [window.seen.frames, window.seen.keys];
}

// scrolled turns the wheel up and down again, and returns the frames.
async function scrolled(page) {
  await page.mouse.move(900, 400);
  await page.evaluate(watch);
  for (let i = 0; i < turns; i++) {
    await page.mouse.wheel(0, i < turns / 2 ? -600 : 600);
    await page.waitForTimeout(30); // as fast as a hand turns a wheel
  }
  return (await page.evaluate(over))[0];
}

// typed types into a field, meanwhile an answer arrives if the page expects one,
// and returns the frames and the times of the keys.
async function typed(page, field, last) {
  await field.click();
  if (last !== undefined) {
    console.log(JSON.stringify({ ready: true }));
    await page.waitForFunction(() => /\d+@\d{19};/.test([...document.querySelectorAll("[data-row]")].slice(-3).map((r) => r.textContent).join(" ")));
  }
  await page.evaluate(watch);
  for (let i = 0; i < keys; i++) {
    await page.keyboard.press(i % 6 === 5 ? "Space" : "abcdefghij"[i % 10]);
    await page.waitForTimeout(between); // as fast as a person types
  }
  const result = await page.evaluate(over);
  if (last !== undefined)
    await page.waitForFunction(
      (last) => [...document.querySelectorAll("[data-row]")].slice(-3).some((r) => r.textContent.includes(`${last}@`)),
      last,
    );
  return result;
}
