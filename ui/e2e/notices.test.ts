// How people learn that a session needs them, also while they look elsewhere.

import type { Browser, BrowserContext, Page, Worker } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import {
  addressOf,
  expectAccessible,
  expectQuiet,
  launch,
  newContext,
  session,
  shot,
  skip,
  type Watch,
} from "./browser";
import { type Message, PushService } from "./pushservice";
import { Server } from "./server";

const sizes = {
  "on a desk": { viewport: { width: 1440, height: 900 } },
  "on a phone": {
    viewport: { width: 390, height: 844 },
    hasTouch: true,
    isMobile: true,
    deviceScaleFactor: 2,
  },
};

let server: Server;
let browser: Browser;
let service: PushService;

beforeAll(async () => {
  if (skip) return;
  const settings = { RUNNEL_PUSH: "loopback" };
  [server, browser, service] = await Promise.all([Server.start(settings), launch(), PushService.start()]);
});
afterAll(async () => {
  await service?.close();
  await browser?.close();
  await server?.close();
});

// On a busy machine Chromium sometimes leaves the worker's update undone. The
// tab then shows the notice itself, which this test cannot read. It runs with
// RUNNEL_LONG=1.
const busy = !process.env.RUNNEL_LONG;

for (const [where, options] of Object.entries(sizes))
  describe.skipIf(skip)(`a person ${where}`, () => {
    let context: BrowserContext;
    let watch: Watch;
    let page: Page;

    beforeEach(async () => {
      ({ context, watch } = await newContext(browser, server, options));
      page = await context.newPage();
      await page.goto(server.link());
      await page.getByRole("heading", { level: 1 }).first().waitFor();
    });
    afterEach(async () => {
      await context.close();
    });

    const icon = (p: Page) => p.locator("link[rel=icon]").getAttribute("href");
    const allow = async (p: Page, id: string) => {
      await p.goto(addressOf(server, id));
      await p.locator("[data-approval-bar]").getByRole("button", { name: "Allow once" }).click();
      await p.locator("[data-row=end]").last().waitFor();
    };

    it("sees in every tab how many sessions need somebody", async () => {
      const quiet = await session(page, server, "text");
      await page.goto(addressOf(server, quiet));
      await page.locator("[data-row=end]").waitFor();
      const list = await context.newPage();
      await list.goto(`${server.origin}/`);
      await expect.poll(() => list.title()).toBe("Runnel");
      await expect.poll(() => page.title()).toBe("Runnel – text");
      expect(await icon(page)).toBe("/icon.svg");

      const icons: (string | null)[] = [];
      const asking: string[] = [];
      for (const n of [1, 2]) {
        asking.push(await session(page, server, "approve"));
        for (const p of [page, list])
          await expect.poll(() => p.title()).toMatch(new RegExp(`^\\(${n}\\) Runnel`));
        expect(await page.title()).toBe(`(${n}) Runnel – text`);
        await expect.poll(() => icon(page)).not.toBe(icons.at(-1) ?? "/icon.svg"); // it is drawn after the title
        icons.push(await icon(page));
        // Two tabs may draw the edges of the number differently.
        await expect.poll(() => icon(list)).toMatch(/^data:image\/png/);
      }
      expect(new Set(icons).size).toBe(2);
      // The icon is an image with the badge in its corner.
      const corner = await page.evaluate(async (src) => {
        const image = new Image();
        image.src = src ?? "";
        await image.decode();
        const canvas = document.createElement("canvas");
        [canvas.width, canvas.height] = [image.width, image.height];
        const context = canvas.getContext("2d") as CanvasRenderingContext2D;
        context.drawImage(image, 0, 0);
        return [...context.getImageData(image.width - 6, image.height * 0.68, 1, 1).data];
      }, icons[0]);
      expect(corner).toEqual([240, 160, 32, 255]);

      for (const id of asking) await allow(list, id);
      for (const p of [page, list]) await expect.poll(() => p.title()).toMatch(/^Runnel – /);
      await expect.poll(() => icon(page)).toBe("/icon.svg");
      expectQuiet(watch);
    });
  });

describe.skipIf(skip)("a person who switched notifications on", () => {
  let whole: Browser; // only the whole Chromium receives push messages
  let context: BrowserContext;
  let watch: Watch;
  let page: Page;
  let elsewhere: Page; // somewhere else, where the person looks
  let worker: Worker;

  beforeAll(async () => {
    whole = await launch({ whole: true });
  });
  afterAll(async () => {
    await whole?.close();
  });
  const begin = async (options: object) => {
    ({ context, watch } = await newContext(whole, server, options));
    await service.use(context);
    page = await context.newPage();
    const started = context.waitForEvent("serviceworker");
    await page.goto(server.link());
    await page.getByRole("heading", { level: 1 }).first().waitFor();
    worker = await started;
    const state = () =>
      page.evaluate(async () => (await navigator.serviceWorker.getRegistration("/sw.js"))?.active?.state);
    await expect.poll(state).toBe("activated"); // Chromium can abandon the start if the page leaves before
    await session(page, server);
    await page.goto(`${server.origin}/?list`);
    const focus = await context.newCDPSession(page);
    await focus.send("Emulation.setFocusEmulationEnabled", { enabled: false }); // else every tab has the focus
    elsewhere = await context.newPage();
    await elsewhere.goto("about:blank");
    await page.bringToFront();
  };
  afterEach(async () => {
    await context.close();
  });

  const dialog = () => page.getByRole("dialog", { name: "Notifications" });
  const open = async () => {
    if (!new URL(page.url()).search) await page.goto(`${server.origin}/?list`); // a phone shows the composer
    await page.getByRole("button", { name: "Notifications" }).click();
    await dialog().waitFor();
  };
  const lookElsewhere = async () => {
    await elsewhere.bringToFront();
    await expect.poll(() => page.evaluate(() => document.hasFocus())).toBe(false);
  };
  // What the browser shows, as kind, title and text.
  const notices = () =>
    worker.evaluate(async () => {
      const { registration } = self as unknown as { registration: ServiceWorkerRegistration };
      const shown = await registration.getNotifications();
      return shown.map((n) => [n.tag, n.title, n.body]).sort();
    });
  const click = (tag: string) =>
    worker.evaluate(async (tag) => {
      const scope = self as unknown as { registration: ServiceWorkerRegistration } & EventTarget;
      const [notification] = await scope.registration.getNotifications({ tag });
      const Click = (self as unknown as { NotificationEvent: new (t: string, o: object) => Event })
        .NotificationEvent;
      scope.dispatchEvent(new Click("notificationclick", { notification }));
    }, tag);
  const decide = (id: string) =>
    page.evaluate(async (id) => {
      const headers = {
        "Content-Type": "application/json",
        "Runnel-Key": localStorage.getItem("runnel.key") ?? "",
      };
      const status = await (await fetch(`/api/session/${id}/status`, { headers })).json();
      const [asked] = status.pendingApprovals;
      const body = { choice: "allow", argumentsDigest: asked.argumentsDigest };
      const path = `/api/session/${id}/approvals/${asked.id}`;
      const r = await fetch(path, { method: "POST", headers, body: JSON.stringify(body) });
      if (!r.ok) throw new Error(await r.text());
    }, id);

  it.skipIf(busy)("sees notices of an open tab while they look elsewhere", async () => {
    await begin(sizes["on a desk"]);
    await open();
    const byTab = dialog().getByRole("switch", { name: "While a tab is open" });
    await byTab.click(); // the person denies what the browser asks
    await dialog().getByText("This browser blocks notifications").waitFor();
    await expectAccessible(page);
    await context.grantPermissions(["notifications"], { origin: server.origin });
    await expect.poll(() => byTab.isEnabled()).toBe(true);
    expect(await byTab.isChecked()).toBe(false);
    await byTab.click();
    await expect.poll(() => byTab.isChecked()).toBe(true);
    await expectAccessible(page);
    await shot(page, "notifications-wide");
    await page.keyboard.press("Escape");
    await dialog().waitFor({ state: "detached" });

    // The worker controls no page, and receives no request of the page.
    expect(await page.evaluate(() => navigator.serviceWorker.controller)).toBe(null);

    await lookElsewhere();
    const asking = await session(page, server, "approve");
    await expect.poll(notices).toEqual([["needs-you", "approve", expect.stringMatching(/^Asks: /)]]);
    await decide(asking);
    await expect.poll(notices).toEqual([["finished", "approve", "Finished"]]);
    const second = await session(page, server, "approve");
    await expect.poll(async () => (await notices()).length).toBe(2);
    await decide(second);
    await expect.poll(notices).toEqual([["finished", "2 sessions have finished", "approve, approve"]]);

    await page.bringToFront();
    await expect.poll(notices).toEqual([]);
    await lookElsewhere();
    const again = await session(page, server, "approve");
    await expect.poll(notices).toEqual([["needs-you", "approve", expect.stringMatching(/^Asks: /)]]);
    await click("needs-you");
    await page.waitForURL(addressOf(server, again));
    await expect.poll(notices).toEqual([]);
    expectQuiet(watch);
  });

  it("receives notes of a push service also while no tab is open", async () => {
    await begin({ ...sizes["on a phone"], permissions: ["notifications"] });
    await open();
    const byPush = dialog().getByRole("switch", { name: "Also when no tab is open" });
    await expect.poll(() => byPush.isEnabled()).toBe(true);
    expect(await byPush.isChecked()).toBe(false);
    expect(await page.evaluate(() => localStorage.getItem("test.subscription"))).toBe(null);
    await byPush.click();
    await dialog().getByText("(127.0.0.1)").waitFor();
    const key = await page.evaluate(() => localStorage.getItem("test.subscription"));
    await expectAccessible(page);
    await shot(page, "notifications-phone");
    await dialog().getByRole("button", { name: "Close" }).click();

    const cdp = await context.newCDPSession(elsewhere);
    const registered = new Promise<string>((done) => {
      cdp.on("ServiceWorker.workerRegistrationUpdated", ({ registrations: [r] }) => {
        if (r) done(r.registrationId);
      });
    });
    await cdp.send("ServiceWorker.enable");
    const registrationId = await registered;
    // The browser receives a message from its push service.
    const deliver = (m: Message | undefined) => {
      if (!m) throw new Error("the push service has received no message");
      return cdp.send("ServiceWorker.deliverPushMessage", {
        origin: server.origin,
        registrationId,
        data: m.text,
      });
    };

    await lookElsewhere();
    const asking = await session(page, server, "approve");
    await expect.poll(() => service.messages.length).toBe(1);
    await decide(asking);
    await expect.poll(() => service.messages.length).toBe(2);
    const [needsYou, finished] = service.messages;
    expect(needsYou).toMatchObject({ text: '{"kind":"needs-you"}', sender: key });
    expect(finished).toMatchObject({ text: '{"kind":"finished"}', sender: key, bytes: needsYou?.bytes });
    expect(needsYou?.headers).toMatchObject({ "content-encoding": "aes128gcm", ttl: "3600" });
    expect(await notices()).toEqual([]); // nobody asked for notices of an open tab

    await page.goto("about:blank");
    // A busy Chromium drops a message of its DevTools without an error.
    const delivered = async () => {
      for (const message of [needsYou, finished]) await deliver(message);
      return notices();
    };
    await expect.poll(delivered, { interval: 1000 }).toEqual([
      ["finished", "A session has finished", ""],
      ["needs-you", "A session needs you", ""],
    ]);

    // Nothing is sent after the person switched it off.
    await page.goto(server.origin);
    await page.bringToFront();
    await open();
    await expect.poll(() => byPush.isChecked()).toBe(true);
    await byPush.click();
    await expect.poll(() => page.evaluate(() => localStorage.getItem("test.subscription"))).toBe(null);
    await page.reload();
    await open();
    await expect.poll(() => byPush.isEnabled()).toBe(true);
    expect(await byPush.isChecked()).toBe(false);
    expectQuiet(watch);
  });
});
