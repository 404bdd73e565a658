// The page below a path, as behind a reverse proxy that other programs of the
// host use, too.

import { type AddressInfo, connect, createServer } from "node:net";
import { expect, it } from "vitest";
import { chooseFolder, expectQuiet, launch, newContext, skip } from "./browser";
import { Server } from "./server";

it.skipIf(skip)("works below a path of a host", async () => {
  let port = 0; // of the server
  const proxy = createServer((client) => {
    const upstream = connect(port, "127.0.0.1");
    for (const [from, to] of [
      [client, upstream],
      [upstream, client],
    ] as const)
      from.on("error", () => to.destroy()).pipe(to);
  });
  await new Promise<void>((done) => proxy.listen(0, "127.0.0.1", done));
  const origin = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`;
  const server = await Server.start({ RUNNEL_ORIGIN: `${origin}/tools/runnel` });
  port = server.port;
  const browser = await launch();
  const { context, watch } = await newContext(browser, server); // reports requests to other paths
  try {
    expect(server.origin).toBe(`${origin}/tools/runnel`);
    const started = context.waitForEvent("serviceworker");
    const page = await context.newPage();
    await page.goto(server.link());
    const prompt = page.getByRole("textbox", { name: "Prompt" });
    await prompt.waitFor();
    expect((await started).url()).toBe(`${server.origin}/sw.js`);
    expect((await context.cookies(`${server.origin}/api/me`)).map((c) => c.path)).toEqual([
      "/tools/runnel/api",
    ]);
    expect(await page.evaluate(() => Object.keys(localStorage))).toContain("runnel/tools/runnel.key");

    await chooseFolder(page, server.project);
    await prompt.fill("text");
    await page.getByRole("button", { name: "Send" }).click();
    await page.locator("[data-row=end]").waitFor();
    expect(page.url()).toMatch(/\/tools\/runnel\/\?session=/);
    await page.reload();
    await page.locator("[data-row=end]").waitFor();
    await page.locator("[data-session]").first().waitFor();
    await page.goBack();
    await page.getByRole("main", { name: "New session" }).waitFor();
    expect(page.url()).toBe(`${server.origin}/`);
    expectQuiet(watch);
  } finally {
    await browser.close();
    await server.close();
    proxy.close();
  }
});
