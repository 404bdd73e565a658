// A browser that records violations: anything that the page must never do.

import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import {
  type Browser,
  type BrowserContext,
  type BrowserContextOptions,
  chromium,
  type Page,
} from "playwright-core";
import { expect } from "vitest";
import type { Server } from "./server";

export const skip = process.env.RUNNEL_SKIP_BROWSER === "1";

const axeSource = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

const shared = new Map<boolean, Promise<Browser>>(); // by whole

interface Options {
  whole?: boolean; // with the services that only the whole Chromium has, such as push messages
  scrollbars?: boolean; // shows scrollbars, as on a desktop
  args?: string[]; // further arguments
}

/**
 * Returns a browser. All tests of the process share it, so `close` closes only
 * the contexts that were made with the returned browser. With `scrollbars` or
 * `args`, the browser is a new one.
 */
export async function launch({ whole = false, scrollbars, args }: Options = {}): Promise<Browser> {
  if (scrollbars || args) return start({ whole, scrollbars, args });
  if (!(await shared.get(whole))?.isConnected()) shared.set(whole, start({ whole }));
  const browser = await (shared.get(whole) as Promise<Browser>);
  const contexts: BrowserContext[] = [];
  return Object.assign(Object.create(browser) as Browser, {
    newContext: async (options?: BrowserContextOptions) => {
      const context = await browser.newContext(options);
      contexts.push(context);
      return context;
    },
    close: async () => void (await Promise.all(contexts.map((c) => c.close()))),
  });
}

// Chromium without windows and without services such as push messages. It needs
// two thirds of the processor time of the whole Chromium.
const shell = "/usr/bin/chromium-headless-shell";

function start({ scrollbars, whole, args = [] }: Options): Promise<Browser> {
  const found = [
    process.env.CHROMIUM,
    ...(whole ? [] : [shell]),
    "/usr/bin/chromium",
    "/usr/bin/chromium-browser",
    "/usr/bin/google-chrome",
  ].find((p) => p && existsSync(p));
  if (!found)
    throw new Error(
      "chromium is missing: install it (on Debian: apt-get install chromium), set CHROMIUM, or skip these tests with RUNNEL_SKIP_BROWSER=1",
    );
  return chromium.launch({
    executablePath: found,
    ignoreDefaultArgs: scrollbars ? ["--hide-scrollbars"] : [],
    args: [
      ...(process.getuid?.() === 0 ? ["--no-sandbox"] : []),
      ...[
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        ...args,
      ],
    ],
  });
}

/**
 * Lets a page load its scripts only when it needs them, as in a browser that
 * never has time.
 */
export const loadNothingAhead = (page: Page) =>
  page.addInitScript(() => {
    window.requestIdleCallback = () => 0;
  });

/**
 * Slows a page's processor down by a factor, as on an old phone or a busy
 * machine, until the returned function is called. Meanwhile Chromium keeps a
 * processor busy, also if the page waits.
 */
export async function slow(page: Page, times: number): Promise<() => Promise<void>> {
  const session = await page.context().newCDPSession(page);
  await session.send("Emulation.setCPUThrottlingRate", { rate: times });
  return async () => {
    await session.send("Emulation.setCPUThrottlingRate", { rate: 1 });
    await session.detach();
  };
}

/** Forbidden events in a context. */
export interface Watch {
  violations: string[]; // of the content security policy
  foreign: string[]; // requests to other origins
  errors: string[]; // uncaught errors, and dialogs
}

export async function newContext(
  browser: Browser,
  server: Pick<Server, "origin">,
  options: BrowserContextOptions = {},
): Promise<{ context: BrowserContext; watch: Watch }> {
  // Without motion, a page that waits draws no frames.
  const usual = { viewport: { width: 1440, height: 900 }, reducedMotion: "reduce" } as const;
  const context = await browser.newContext({ ...usual, ...options });
  context.setDefaultTimeout(60_000); // a busy machine may be slow
  const watch: Watch = { violations: [], foreign: [], errors: [] };
  await context.exposeBinding("__violated", (_source, what: string) => watch.violations.push(what));
  await context.addInitScript(() => {
    document.addEventListener("securitypolicyviolation", (e) => {
      (window as unknown as { __violated(s: string): void }).__violated(
        `${e.violatedDirective} ${e.blockedURI} ${e.sample}`,
      );
    });
  });
  context.on("request", (r) => {
    const url = r.url();
    if (!url.startsWith(server.origin) && !url.startsWith("data:") && !url.startsWith("blob:"))
      watch.foreign.push(url);
  });
  context.on("weberror", (e) => watch.errors.push(String(e.error())));
  context.on("dialog", (d) => {
    watch.errors.push(`dialog: ${d.message()}`);
    void d.dismiss();
  });
  return { context, watch };
}

const logins = new WeakMap<Server, Awaited<ReturnType<BrowserContext["storageState"]>>>();

/**
 * Logs a page's browser in and leaves the page at an address of the server. The
 * first call for a server uses a link, and the next calls restore what the
 * browser stored then. So they load no view: the test loads the one it needs.
 */
export async function logIn(page: Page, server: Server) {
  const login = logins.get(server);
  if (!login) {
    await page.goto(server.link());
    await page.waitForFunction(() => localStorage.getItem("runnel.key"));
    logins.set(server, await page.context().storageState());
    return;
  }
  await page.context().addCookies(login.cookies);
  await page.goto(`${server.origin}/icon.svg`);
  const stored = login.origins.find((o) => o.origin === server.origin)?.localStorage ?? [];
  await page.evaluate((items) => {
    for (const { name, value } of items) localStorage.setItem(name, value);
  }, stored);
}

export function expectQuiet(watch: Watch) {
  expect(watch).toEqual({ violations: [], foreign: [], errors: [] });
}

/**
 * Creates a session and sends its first prompt. The agent is the scripted one
 * unless `create` names another.
 */
export async function session(
  page: Page,
  server: Server,
  prompt?: string | object,
  create: { cliType?: string; projectDir?: string; options?: object } = {},
): Promise<string> {
  const content = typeof prompt === "object" ? JSON.stringify(prompt) : prompt;
  return page.evaluate(
    async ({ create, content }) => {
      const post = async (path: string, body: object) => {
        const r = await fetch(path, {
          method: "POST",
          headers: {
            "Content-Type": "application/json",
            "Runnel-Key": localStorage.getItem("runnel.key") ?? "",
          },
          body: JSON.stringify(body),
        });
        if (!r.ok) throw new Error(`${path}: ${r.status} ${await r.text()}`);
        return r.json();
      };
      const { sessionId } = await post("/api/session/create", create);
      if (content !== undefined) await post(`/api/session/${sessionId}/send`, { content });
      return sessionId as string;
    },
    { create: { cliType: "script", projectDir: server.project, ...create }, content },
  );
}

/** Waits until a session has no running turn, without showing the session. */
export async function over(page: Page, id: string) {
  const turn = () =>
    page.evaluate(async (id) => {
      const headers = { "Runnel-Key": localStorage.getItem("runnel.key") ?? "" };
      return (await (await fetch(`/api/session/${id}/status`, { headers })).json()).turnId;
    }, id);
  await expect.poll(turn).toBeFalsy();
}

/** Chooses the agent of the next session, by its name. */
export async function chooseAgent(page: Page, name: string) {
  await page.getByRole("button", { name: /^Agent: / }).click();
  await page.getByRole("dialog", { name: "Agent" }).getByRole("radio", { name }).check();
  await page.getByRole("dialog", { name: "Agent" }).getByRole("button", { name: "Close" }).click();
}

/** Chooses the folder of the next session, by its path. */
export async function chooseFolder(page: Page, dir: string) {
  await page.getByRole("button", { name: /^Folder: / }).click();
  const field = page.getByRole("combobox", { name: "Folder" });
  await field.fill(dir);
  await field.press("Enter");
  await field.waitFor({ state: "detached" });
}

export const addressOf = (server: Server, id: string) =>
  `${server.origin}/?session=${encodeURIComponent(id)}`;

/** Fails if the page has an accessibility problem; `state` names the page's state in the failure. */
export async function expectAccessible(page: Page, state?: string) {
  if (!(await page.evaluate(() => "axe" in window))) await page.evaluate(axeSource);
  const found = await page.evaluate(async () => {
    const { axe } = window as unknown as {
      axe: {
        run(
          options: object,
        ): Promise<{ violations: { id: string; nodes: { html: string; failureSummary?: string }[] }[] }>;
      };
    };
    // For users of voice control, the accessible name of a button must contain
    // its visible text.
    const rules = { "label-content-name-mismatch": { enabled: true } };
    const { violations } = await axe.run({ rules, resultTypes: ["violations"] });
    return violations.map(
      (v) => `${v.id}: ${v.nodes.map((n) => `${n.html} ${n.failureSummary ?? ""}`).join("\n")}`,
    );
  });
  expect(found, state).toEqual([]);
}

/** The text of the stream, without durations. */
export async function told(page: Page): Promise<string[]> {
  return page.locator("[data-row]").evaluateAll((rows) =>
    rows.map((r) => {
      const copy = r.cloneNode(true) as HTMLElement;
      for (const t of copy.querySelectorAll("time")) t.remove();
      return `${r.getAttribute("data-row")} ${copy.textContent?.replace(/\s+/g, " ").trim()}`;
    }),
  );
}

const shots = join(import.meta.dirname, "../test-results/screenshots");

/** Saves a screenshot for people to inspect, if enabled. */
export async function shot(page: Page, name: string) {
  if (process.env.RUNNEL_SCREENSHOTS !== "1") return;
  mkdirSync(shots, { recursive: true });
  await page.screenshot({ path: join(shots, `${name}.png`) });
}
