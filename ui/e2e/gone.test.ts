// The page behind a reverse proxy that answers in the place of a server that has
// received a request and was killed before its answer.

import { type AddressInfo, connect, createServer } from "node:net";
import { expect, it } from "vitest";
import { addressOf, launch, newContext, session, skip } from "./browser";
import { Server } from "./server";

/** How the proxy ends a request whose answer is lost. */
const losses = {
  "an error of its own":
    "HTTP/1.1 502 Bad Gateway\r\nContent-Type: text/html\r\nContent-Length: 4\r\nConnection: close\r\n\r\n<p>.",
  "half an answer":
    'HTTP/1.1 202 Accepted\r\nContent-Type: application/json\r\nContent-Length: 99\r\nConnection: close\r\n\r\n{"turn',
};

for (const [name, loss] of Object.entries(losses))
  it.skipIf(skip)(`sends a prompt once if a proxy answers with ${name}`, async () => {
    let port = 0; // of the server
    let lost = 0; // parts of the answer that the proxy keeps to itself
    let sent = 0; // prompts
    const proxy = createServer((client) => {
      const upstream = connect(port, "127.0.0.1");
      client.on("error", () => upstream.destroy());
      upstream.on("error", () => client.destroy());
      let loses = false;
      client.on("data", (d: Buffer) => {
        if (/^POST \S+\/send /.test(d.toString("latin1"))) loses = sent++ === 0;
        upstream.write(d);
      });
      upstream.on("data", (d: Buffer) => {
        if (!loses) return client.write(d);
        if (lost++ === 0) client.end(loss); // the server has answered, so it has the prompt
      });
      client.on("end", () => upstream.end());
      upstream.on("end", () => client.end());
    });
    await new Promise<void>((done) => proxy.listen(0, "127.0.0.1", done));
    const origin = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`;
    const server = await Server.start({ RUNNEL_ORIGIN: origin });
    port = server.port;
    const browser = await launch();
    const { context } = await newContext(browser, server);
    try {
      const page = await context.newPage();
      await page.goto(server.link());
      const prompt = page.getByRole("textbox", { name: "Prompt" });
      await prompt.waitFor();
      await page.getByRole("navigation", { name: "Sessions" }).waitFor();
      const id = await session(page, server, undefined, { cliType: "script", projectDir: server.project });
      await page.goto(addressOf(server, id));
      await prompt.fill("text");
      await page.getByRole("button", { name: "Send" }).click();
      await expect.poll(() => lost).toBeGreaterThan(0);
      // What has arrived leaves the field by itself, or with the next try.
      await page.locator("[data-row=end]").first().waitFor();
      await prompt.press("Enter");
      await expect.poll(() => prompt.inputValue()).toBe("");
      await expect.poll(() => page.locator("[data-row=end]").count()).toBe(1);
      await page.reload();
      await page.locator("[data-row=end]").first().waitFor();
      expect(await page.locator("[data-row=end]").count()).toBe(1);
    } finally {
      await browser.close();
      await server.close();
      proxy.close();
    }
  });
