// Another program that uses our addresses, before or while the server is down,
// must not receive anything that a browser keeps for the page.

import { createServer, type Server as HTTPServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import type { Browser, BrowserContext, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { addressOf, launch, loadNothingAhead, newContext, session, skip } from "./browser";
import { Server } from "./server";

/** Starts another server on one of our addresses. */
export function squat(port: number, host: string, listener: RequestListener): Promise<HTTPServer> {
  const squatter = createServer(listener);
  return new Promise((done, fail) => {
    squatter.on("error", fail);
    squatter.listen(port, host, () => done(squatter));
  });
}

export const leave = (squatter: HTTPServer) =>
  new Promise<void>((done) => {
    squatter.close(() => done());
    squatter.closeAllConnections();
  });

// A preview page whose service worker would answer requests for any later page
// of the same address.
const preview: RequestListener = (req, res) => {
  if (req.url === "/worker.js") {
    res.setHeader("Content-Type", "text/javascript");
    res.end(`
      self.addEventListener("install", () => self.skipWaiting());
      self.addEventListener("activate", (e) => e.waitUntil(self.clients.claim()));
      self.addEventListener("fetch", (e) => {
        if (e.request.mode === "navigate")
          e.respondWith(new Response("<title>mine</title>", { headers: { "Content-Type": "text/html" } }));
      });`);
    return;
  }
  res.setHeader("Content-Type", "text/html");
  res.end("<title>a preview</title>");
};

// A program that tries to get the requests of the page through a service worker.
// The worker passes them on, so that nobody notices it.
const thief: RequestListener = (req, res) => {
  if (req.url === "/worker.js" || req.url === "/sw.js") {
    res.setHeader("Content-Type", "text/javascript");
    res.end(`
      self.tried = false;
      self.addEventListener("install", () => self.skipWaiting());
      const take = async () => {
        await self.clients.claim();
        for (const page of await self.clients.matchAll({ type: "window", includeUncontrolled: true }))
          if (new URL(page.url).pathname === "/") await page.navigate("/evil").catch(() => {});
        self.tried = true;
      };
      self.addEventListener("activate", () => void take()); // a navigation waits for the end of this event
      self.addEventListener("fetch", (e) => e.waitUntil((async () => {
        const { request } = e;
        const text = request.method + " " + request.url + " " + JSON.stringify([...request.headers]);
        await (await caches.open("stolen")).put("/stolen/" + crypto.randomUUID(), new Response(text));
      })()));`);
    return;
  }
  res.setHeader("Content-Type", "text/html");
  res.end("<title>a preview</title>");
};

/** The requests that the worker of such a program has received. */
const thefts = (page: Page) =>
  page.evaluate(async () => {
    const cache = await caches.open("stolen");
    const found = await Promise.all((await cache.keys()).map((k) => cache.match(k)));
    return Promise.all(found.map((r) => r?.text() ?? ""));
  });

describe.skipIf(skip)("the page's origin", () => {
  let server: Server;
  let browser: Browser;
  let context: BrowserContext;
  let page: Page;
  const squatters: HTTPServer[] = [];

  beforeAll(async () => {
    [server, browser] = await Promise.all([Server.start(), launch()]);
  });
  afterAll(async () => {
    await browser?.close();
    await server?.close();
  });
  beforeEach(async () => {
    ({ context } = await newContext(browser, server));
    page = await context.newPage();
  });
  afterEach(async () => {
    await context.close();
  });

  it("is not that of a preview which had our port before, and left a service worker", async () => {
    await server.stop();
    const squatter = await squat(server.port, "127.0.0.1", preview);
    const there = `http://127.0.0.1:${server.port}/`;
    await page.goto(there);
    await page.evaluate(async () => {
      await navigator.serviceWorker.register("/worker.js");
      await navigator.serviceWorker.ready;
    });
    await leave(squatter);
    await page.goto(there);
    expect(await page.title()).toBe("mine");
    await server.start();

    // A link opens the page at its own name, and the worker at the old address
    // is removed soon.
    const second = await context.newPage();
    await second.goto(server.link());
    await second.getByRole("navigation", { name: "Sessions" }).waitFor();
    await page.goto(there).catch(() => {}); // the removal of the worker may open the address at the same time
    await page.getByText("FORBIDDEN_ORIGIN").waitFor();
    const workers = () =>
      page.evaluate(async () => (await navigator.serviceWorker.getRegistrations()).length);
    await expect.poll(workers).toBe(0);
  });

  it("cannot be taken by a program on [::1]", async () => {
    await expect(squat(server.port, "::1", preview)).rejects.toThrow("EADDRINUSE");
    await server.stop();
    const squatter = await squat(server.port, "::1", preview);
    onTestFinished(() => leave(squatter));
    await expect(server.start()).rejects.toThrow("is in use by another program");
    await leave(squatter);
    await server.start();
  });

  it("is of no use to a program that takes our port while a tab is open", async () => {
    await loadNothingAhead(page); // so that the tab still lacks a script
    await page.goto(server.link());
    await page.getByRole("navigation", { name: "Sessions" }).waitFor();
    const id = await session(page, server, { steps: [{ text: "fine" }] });
    await page.goto(addressOf(server, id));
    await page.locator("[data-row=end]").waitFor();
    const [cookie] = await context.cookies(`${server.origin}/api`);
    const key = await page.evaluate(() => localStorage.getItem("runnel.key"));
    if (!cookie || !key) throw new Error("not logged in");
    const prompt = page.getByRole("textbox", { name: "Prompt" });
    await prompt.fill("a secret draft");

    await server.kill();
    const got: string[] = [];
    const rogue: RequestListener = (req, res) => {
      let body = "";
      req.on("data", (more) => {
        body += more;
      });
      req.on("end", () => {
        got.push(`${req.method} ${req.url} ${JSON.stringify(req.rawHeaders)} ${body}`);
        res.setHeader("Content-Type", "application/json");
        res.end('{"proof":"","sessions":[],"agents":[],"turnId":"t"}');
      });
    };
    for (const host of ["127.0.0.1", "::1"]) {
      const squatter = await squat(server.port, host, rogue);
      squatter.on("upgrade", (req, socket) => {
        got.push(`${req.url} ${JSON.stringify(req.rawHeaders)}`);
        socket.destroy();
      });
      onTestFinished(() => leave(squatter));
      squatters.push(squatter);
    }
    await page.getByText("Another program is running at the server’s address.").waitFor();
    await page.getByRole("button", { name: "Send" }).click();
    await page.getByText("did not prove that it is your server").waitFor();
    await page.getByRole("button", { name: "Details" }).click();
    await page.bringToFront(); // a tab that wakes up connects at once
    await page.evaluate(() => window.dispatchEvent(new Event("online")));
    await expect.poll(() => got.length).toBeGreaterThan(3);
    expect(got.filter((g) => !g.startsWith("POST /api/login/proof "))).toEqual([]);
    for (const secret of [cookie.value, key, "a secret draft"]) expect(got.join()).not.toContain(secret);

    // After the server returns, the tab continues, and the prompt is still
    // there.
    await Promise.all(squatters.splice(0).map(leave));
    await server.start();
    await expect.poll(() => prompt.inputValue()).toBe("a secret draft");
    await page.getByText("Another program is running").waitFor({ state: "detached" });
    await page.getByRole("button", { name: "Send" }).click();
    await page.locator("[data-row]").filter({ hasText: "a secret draft" }).waitFor();
  });

  it("runs no script that a program with our port left in the browser's cache", async () => {
    const { context: before } = await newContext(browser, server); // this context has its own cache
    const first = await before.newPage();
    await first.goto(server.origin);
    const script = await first.locator("link#page").evaluate((e: HTMLLinkElement) => e.href);
    await before.close();
    await server.stop();
    const squatter = await squat(server.port, "127.0.0.1", (_, res) => {
      res.setHeader("Content-Type", "text/javascript");
      res.setHeader("Cache-Control", "public, max-age=31536000, immutable");
      res.end("document.title = 'mine'");
    });
    // A preview under the name of the page uses the same cache.
    const elsewhere = await squat(0, "127.0.0.1", (_, res) => {
      res.setHeader("Content-Type", "text/html");
      res.end(`<script src="${script}"></script>`);
    });
    onTestFinished(() => leave(elsewhere));
    const { port } = elsewhere.address() as AddressInfo;
    const other = await context.newPage();
    await other.goto(`http://${new URL(server.origin).hostname}:${port}/`);
    expect(await other.title()).toBe("mine");
    await leave(squatter);
    await server.start();
    await page.goto(server.link());
    await page.getByRole("navigation", { name: "Sessions" }).waitFor();
    expect(await page.title()).not.toBe("mine");
  });

  // Browsers request the script of the page's worker again about once a day,
  // without a word to the page.
  it("sends nothing through a worker that took the place of its own", async () => {
    const whole = await launch({ whole: true }); // the other Chromium updates no worker on demand
    onTestFinished(() => whole.close());
    const { context } = await newContext(whole, server);
    const page = await context.newPage();
    const started = context.waitForEvent("serviceworker");
    await page.goto(server.link());
    await page.getByRole("navigation", { name: "Sessions" }).waitFor();
    await started;
    const scopesNow = () =>
      page.evaluate(async () => (await navigator.serviceWorker.getRegistrations()).map((r) => r.scope));
    await expect.poll(async () => (await scopesNow()).length).toBe(1); // the worker may start before it is registered
    await page.evaluate(() => Object.assign(window, { same: true }));
    const cdp = await context.newCDPSession(page);
    await cdp.send("ServiceWorker.enable");

    await server.kill();
    const squatters = await Promise.all(["127.0.0.1", "::1"].map((at) => squat(server.port, at, thief)));
    onTestFinished(async () => {
      await Promise.all(squatters.map(leave));
    });
    const scopes = await scopesNow();
    const stolen = context.waitForEvent("serviceworker");
    // A request during an update is dropped, such as during one that found no server.
    const update = () => cdp.send("ServiceWorker.updateRegistration", { scopeURL: scopes[0] as string });
    const updates = setInterval(() => void update(), 2000);
    onTestFinished(() => clearInterval(updates));
    await update();
    const rogue = await stolen;
    clearInterval(updates);
    await expect.poll(() => rogue.evaluate("tried")).toBe(true);
    expect(await page.evaluate("window.same")).toBe(true); // the tab still has its document
    await Promise.all(squatters.splice(0).map(leave));
    const restored = context.waitForEvent("serviceworker");
    await server.start();
    const id = await session(page, server, "text");
    await page.goto(addressOf(server, id));
    await page.locator("[data-row=end]").waitFor();
    expect(await thefts(page)).toEqual([]);
    expect(await (await restored).evaluate("typeof tried")).toBe("undefined");
  });

  it("logs nobody in through a worker of another program", async () => {
    for (const script of ["/worker.js", "/sw.js"]) {
      const { context } = await newContext(browser, server);
      const page = await context.newPage();
      await server.kill();
      const squatter = await squat(server.port, "127.0.0.1", thief);
      onTestFinished(() => leave(squatter));
      await page.goto(`${server.origin}/preview`);
      await page.evaluate(async (script) => {
        await navigator.serviceWorker.register(script, { scope: "/" });
        await navigator.serviceWorker.ready;
      }, script);
      await expect.poll(() => page.evaluate(() => Boolean(navigator.serviceWorker.controller))).toBe(true);
      await leave(squatter);
      await server.start();

      await page.goto(server.link());
      const controlled = () => page.evaluate(() => navigator.serviceWorker.controller?.scriptURL);
      await expect.poll(controlled).toBe(undefined);
      await page.goto(server.link());
      await page.getByRole("navigation", { name: "Sessions" }).waitFor();
      expect(await controlled()).toBe(undefined);
      const seen = await thefts(page);
      expect(seen.some((t) => t.startsWith(`GET ${server.origin}/`))).toBe(true);
      expect(seen.filter((t) => !t.startsWith("GET ") || /runnel-key/i.test(t))).toEqual([]);
      await context.close();
    }
  });

  it("stays logged in although a program on another port of its host sets cookies", async () => {
    await page.goto(server.link());
    await page.getByRole("navigation", { name: "Sessions" }).waitFor();
    const tossed: string[] = []; // of other paths than ours: one of the same path replaces it
    for (const path of ["/", "/api/me", "/api/session", "/api/ws"])
      tossed.push(`runnel_session=tossed; Path=${path}`);
    for (let i = 0; i < 10; i++) tossed.push(`large${i}=${"x".repeat(3700)}; Path=/`);
    const elsewhere = await squat(0, "127.0.0.1", (req, res) => {
      res.setHeader("Set-Cookie", tossed);
      preview(req, res);
    });
    onTestFinished(() => leave(elsewhere));
    const { port } = elsewhere.address() as AddressInfo;
    const other = await context.newPage();
    await other.goto(`http://${new URL(server.origin).hostname}:${port}/`);
    const cookies = await context.cookies(`${server.origin}/api/me`);
    expect(cookies.filter((c) => c.value === "tossed").map((c) => c.path)).toContain("/api/me");
    expect(cookies.reduce((size, c) => size + c.name.length + c.value.length, 0)).toBeGreaterThan(37_000);

    await page.reload();
    await page.getByRole("navigation", { name: "Sessions" }).waitFor();
    const id = await session(page, server, { steps: [{ text: "fine" }] });
    await page.goto(addressOf(server, id));
    await page.locator("[data-row=end]").waitFor();
  });

  it("is another one after `runnel login --new-origin`", async () => {
    await page.goto(server.link());
    await page.getByRole("navigation", { name: "Sessions" }).waitFor();
    const link = server.link("--new-origin");
    expect(new URL(link).origin).not.toBe(server.origin);
    await page.getByRole("heading", { name: "not logged in" }).waitFor();
    await page.goto(link);
    await page.getByRole("navigation", { name: "Sessions" }).waitFor();
    await page.goto(`${server.origin}/`);
    await page.getByText("FORBIDDEN_ORIGIN").waitFor();
    await server.stop();
    await server.start(); // the server reuses its stored address
    expect(server.origin).toBe(new URL(link).origin);
  });
});
