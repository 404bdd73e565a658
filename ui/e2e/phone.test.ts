// A phone in the local network uses the page of a real server, over TLS.

import { createHash } from "node:crypto";
import { networkInterfaces } from "node:os";
import { connect } from "node:tls";
import { expect, it } from "vitest";
import { expectAccessible, expectQuiet, launch, newContext, session, shot, skip } from "./browser";
import { Server } from "./server";

// The addresses on which the server listens with --lan.
const local = /^(10\.|192\.168\.|172\.(1[6-9]|2\d|3[01])\.|100\.(6[4-9]|[7-9]\d|1[01]\d|12[0-7])\.|f[cd])/;
const addresses = Object.values(networkInterfaces())
  .flat()
  .filter((a) => a && !a.internal && local.test(a.address));

const phone = {
  viewport: { width: 390, height: 844 },
  hasTouch: true,
  isMobile: true,
  userAgent:
    "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Mobile Safari/537.36",
};

/**
 * The hash of the server's public key, by which a browser accepts exactly this
 * certificate. Fails unless the authority has issued the certificate.
 */
function keyHash(origin: string, authority: string): Promise<string> {
  const { hostname, port } = new URL(origin);
  return new Promise((done, fail) => {
    const host = hostname.replace(/[[\]]/g, "");
    const socket = connect({ host, port: Number(port), ca: authority }, () => {
      const key = socket.getPeerX509Certificate()?.publicKey.export({ type: "spki", format: "der" });
      socket.destroy();
      if (key) done(createHash("sha256").update(key).digest("base64"));
      else fail(new Error("the server has no certificate"));
    });
    socket.on("error", fail);
  });
}

it.skipIf(skip || addresses.length === 0)("works on a phone in the local network", async () => {
  const server = await Server.start({ RUNNEL_LAN: "true" });
  const link = /or open (https:\S+#c=\S+)/.exec(server.command("login", "--qr"))?.[1] ?? "";
  const { origin } = new URL(link);
  const hash = await keyHash(origin, server.command("certificate", "--pem"));
  const browser = await launch({ args: [`--ignore-certificate-errors-spki-list=${hash}`] });
  const { context, watch } = await newContext(browser, { origin }, phone);
  try {
    const started = context.waitForEvent("serviceworker");
    const page = await context.newPage();
    await page.goto(link);
    await page.getByRole("textbox", { name: "Prompt" }).waitFor();
    expect((await started).url()).toBe(`${origin}/sw.js`);
    expect(await page.evaluate(() => window.isSecureContext)).toBe(true);
    expect(page.url()).not.toContain("#c=");

    const id = await session(page, server, "approve");
    await page.goto(`${origin}/?session=${encodeURIComponent(id)}`);
    await page
      .getByRole("button", { name: /^Allow/ })
      .first()
      .tap();
    await page.locator("[data-row=end]").waitFor();
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(390);
    await shot(page, "phone-session");

    await page.goto(`${origin}/?list`);
    await page.locator("[data-session]").waitFor();
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(390);
    await page.getByRole("button", { name: "Devices" }).tap();
    const devices = page.getByRole("dialog", { name: "Devices" });
    await devices.getByText("Chrome on Android").waitFor();
    await devices.getByText("this device").waitFor();
    await expectAccessible(page);
    await shot(page, "phone-devices");

    await devices.getByRole("button", { name: "Rename Chrome on Android" }).tap();
    await devices.getByRole("textbox", { name: "Name of the device" }).fill("My phone");
    await devices.getByRole("button", { name: "Save" }).tap();
    await devices.getByText("My phone").waitFor();
    expect(server.command("devices", "list")).toContain("My phone");
    await devices.getByRole("button", { name: "Log out My phone" }).tap();
    await devices.getByText("needs a new link").waitFor();
    await expectAccessible(page);
    await devices.getByRole("button", { name: "Log out this browser" }).tap();
    await page.getByText("runnel login").first().waitFor();
    await page.locator("[data-session]").waitFor({ state: "detached" });
    expectQuiet(watch);
  } finally {
    await browser.close();
    await server.close();
  }
});
