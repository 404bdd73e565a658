import { mkdirSync, rmdirSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import type { Browser, BrowserContext, Page, Request } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, onTestFinished } from "vitest";
import {
  addressOf,
  chooseAgent,
  chooseFolder,
  expectAccessible,
  expectQuiet,
  launch,
  loadNothingAhead,
  logIn,
  newContext,
  over,
  session,
  skip,
  slow,
  told,
  type Watch,
} from "./browser";
import { Server } from "./server";

// Maximum sizes in bytes, as the server sends them. The first load begins with
// the login link and ends with the first view; the other parts of the page are
// loaded later.
const mostScript = 120_000; // the script of the first load
const mostBytes = 150_000; // all responses of the first load, without those of the API
const mostOfSession = 180_000; // all scripts, until a conversation is shown

/**
 * Holds the page's first script back, until the returned function is called.
 */
async function holdScripts(page: Page): Promise<() => void> {
  let arrive = () => {};
  const held = new Promise<void>((resolve) => {
    arrive = resolve;
  });
  await page.route(/assets.*\/index-[^/]*\.js/, async (r) => {
    await held;
    await r.continue();
  });
  return arrive;
}

// Without its styles, the document shows every part of the frame.
const styled = (page: Page) =>
  page.waitForFunction(
    () => document.body && getComputedStyle(document.body).fontVariantNumeric === "tabular-nums",
  );

const nameIn = (page: Page) =>
  page.locator("#root").getByText("Runnel", { exact: true }).filter({ visible: true });

describe.skipIf(skip)("the page", () => {
  let server: Server;
  let browser: Browser;
  let context: BrowserContext;
  let watch: Watch;
  let page: Page;

  beforeAll(async () => {
    [server, browser] = await Promise.all([Server.start(), launch()]);
  });
  afterAll(async () => {
    await browser?.close();
    await server?.close();
  });
  beforeEach(async () => {
    ({ context, watch } = await newContext(browser, server));
    page = await context.newPage();
  });
  afterEach(async () => {
    if (context !== shared?.context) return context.close();
    await page.unrouteAll();
    for (const p of context.pages()) if (p !== page) await p.close();
  });

  let shared: { context: BrowserContext; watch: Watch; page: Page } | undefined;
  /**
   * Logs in a page that tests share, and that has loaded the scripts before: a
   * new page takes as much processor time for them as a test.
   */
  const enter = async () => {
    await context.close();
    if (!shared) {
      const made = await newContext(browser, server);
      shared = { ...made, page: await made.context.newPage() };
    }
    ({ context, watch, page } = shared);
    await logIn(page, server);
  };
  const login = async () => {
    await page.goto(server.link());
    await page.getByRole("navigation", { name: "Sessions" }).waitFor();
  };
  // The prompts of these tests are scripts, so texts are checked only in the
  // agent's messages.
  const prose = () => page.locator("[data-row=prose]");
  const ended = () => page.locator("[data-row=end]").last().waitFor();

  it("lets a browser in by a link, once, and forgets the code", async () => {
    const link = server.link();
    await page.goto(link);
    await page.getByRole("navigation", { name: "Sessions" }).waitFor();
    expect(page.url()).toBe(`${server.origin}/`);
    expect(await page.evaluate(() => history.length)).toBeLessThanOrEqual(2);
    expectQuiet(watch);

    const other = await newContext(browser, server);
    const stranger = await other.context.newPage();
    await stranger.goto(`${server.origin}/`);
    await stranger.getByText("runnel login", { exact: true }).waitFor();
    await expectAccessible(stranger);
    await stranger.goto(link);
    await stranger.reload();
    await stranger.getByRole("heading", { name: "not logged in" }).waitFor();
    expectQuiet(other.watch);
    await other.context.close();
  });

  it("is of no use to a server on another port, which is sent the cookie", async () => {
    await login();
    const got: { url?: string; cookie?: string; all: string }[] = [];
    const preview = createServer((req, res) => {
      got.push({ url: req.url, cookie: req.headers.cookie, all: JSON.stringify(req.rawHeaders) });
      res.end("a preview");
    });
    await new Promise<void>((ready) => preview.listen(0, "127.0.0.1", ready));
    onTestFinished(() => void preview.close());
    const key = await page.evaluate(() => localStorage.getItem("runnel.key"));
    expect(key).toMatch(/^rnl_/);

    const other = await context.newPage();
    const { port } = preview.address() as AddressInfo;
    await other.goto(`http://127.0.0.1:${port}/`);
    expect(got[0]?.cookie).toBeUndefined(); // the cookie is only sent to the page's own name
    await other.goto(`http://${new URL(server.origin).hostname}:${port}/api/`); // an address that an agent may know
    expect(await other.evaluate(() => localStorage.length)).toBe(0);
    const cookie = got.find((g) => g.url === "/api/")?.cookie ?? "";
    expect(cookie).toContain("runnel_session="); // browsers send cookies to every port
    expect(got.map((g) => g.all).join()).not.toContain(key);

    // The other server replays the received cookie to us, with requests that
    // imitate the page.
    const replay = (more: Record<string, string>) =>
      server.status("/api/me", {
        Cookie: cookie,
        Origin: server.origin,
        "Sec-Fetch-Site": "same-origin",
        ...more,
      });
    expect(await replay({})).toBe(401);
    expect(await replay({ "Runnel-Key": cookie.split("=")[1] ?? "" })).toBe(401);
    expect(await replay({ "Runnel-Key": key ?? "" })).toBe(200); // so only the key was missing

    // A page of the other server in this browser has no access either.
    const read = await other.evaluate(async (url) => {
      try {
        return (await fetch(url, { credentials: "include" })).status;
      } catch {
        return "refused";
      }
    }, `${server.origin}/api/me`);
    expect(read).toBe("refused");
    watch.foreign.length = 0; // requests to the preview are part of this test
    expectQuiet(watch);
  });

  it("stays logged in over a reload, in a second tab, and with a second link", async () => {
    await login();
    const inside = (p: Page) => p.getByRole("navigation", { name: "Sessions" }).waitFor();
    await page.reload();
    await inside(page);
    const second = await context.newPage();
    await second.goto(`${server.origin}/`);
    await inside(second);
    // The second tab shows its sessions before it has logged in again, and the
    // browser tells other tabs of the new key later.
    const before = await page.evaluate(() => localStorage.getItem("runnel.key"));
    await second.goto(server.link());
    await page.waitForFunction((old) => localStorage.getItem("runnel.key") !== old, before);
    await inside(second);
    await page.getByRole("navigation", { name: "Sessions" }).waitFor();
    await session(page, server, "hello"); // the first tab continues with the login of the second
    await page.reload();
    await inside(page);

    await page.evaluate(() => localStorage.removeItem("runnel.key"));
    await page.reload();
    await page.getByRole("heading", { name: "not logged in" }).waitFor(); // the cookie alone is not enough
    expectQuiet(watch);
  });

  it("goes from nothing to an answered turn", async () => {
    await login();
    await page.keyboard.press("n");
    await page.getByRole("main", { name: "New session" }).waitFor();
    await expectAccessible(page);
    await chooseAgent(page, "Script");
    await chooseFolder(page, "/no/such/folder");
    const field = page.getByRole("textbox", { name: "Prompt" });
    await field.fill("demo: greet the world when there is no name");
    await field.press("Enter");
    await page.getByRole("alert").waitFor();
    expect(await field.inputValue()).toBe("demo: greet the world when there is no name");
    await chooseFolder(page, server.project);
    await field.press("Enter");
    const bar = page.getByRole("region", { name: "Approval" });
    await bar.waitFor();
    expect(await bar.locator(".diff-line.add").count()).toBeGreaterThan(0);
    await expect.poll(() => page.getByRole("navigation").getByText("Needs you").count()).toBe(1);
    const address = page.url();
    await page.goto(`${server.origin}/`);
    await page.getByRole("region", { name: "Needs you" }).getByRole("link").first().waitFor();
    await expectAccessible(page);
    await page.goto(address);
    await bar.waitFor();
    await expectAccessible(page);
    await bar.getByRole("button", { name: "Allow once" }).click();
    while (!(await page.locator("[data-row=end]").count())) {
      await page.locator("[data-row=end], [data-approval-bar]").first().waitFor();
      if (await bar.count())
        await bar
          .getByRole("button", { name: "Allow once" })
          .click({ timeout: 2000 })
          .catch(() => undefined);
    }
    expect(await page.getByText("allowed once by you").count()).toBeGreaterThan(0);
    await page
      .getByRole("button", { name: /changed/ })
      .last()
      .click();
    const dialog = page.getByRole("dialog");
    await dialog.locator(".diff-line.add").first().waitFor();
    await expectAccessible(page);
    await page.keyboard.press("Escape");
    await page.locator("dialog").waitFor({ state: "detached" });

    const before = await told(page);
    const second = await context.newPage();
    await second.goto(page.url());
    await expect.poll(() => told(second)).toEqual(before);
    await page.reload();
    await expect.poll(() => told(page)).toEqual(before);
    expectQuiet(watch);
  });

  it("goes on where it was after a reload in the middle of a turn, on two tabs at once", async () => {
    await enter();
    const id = await session(page, server, {
      steps: [
        { text: "Counting. " },
        { tool: { name: "Read", kind: "read", arguments: { path: "a" }, output: "a" } },
        { text: "one two three four ", repeat: 40, rate: 40 },
        { text: "The end." },
      ],
    });
    const second = await context.newPage();
    await second.goto(addressOf(server, id));
    await page.goto(addressOf(server, id));
    await prose().filter({ hasText: "three four one" }).waitFor();
    await page.reload();
    await ended();
    await second.locator("[data-row=end]").waitFor();
    const all = await told(page);
    expect(all.filter((r) => r.startsWith("prose")).map((r) => r.length > 600)).toContain(true);
    await expect.poll(() => told(second)).toEqual(all);
    await page.reload();
    await expect.poll(() => told(page)).toEqual(all);
    expectQuiet(watch);
  });

  it("loses and repeats nothing when the server is killed in a turn and started again", async () => {
    const server = await Server.start();
    onTestFinished(() => server.close());
    await page.goto(server.link());
    await page.getByRole("navigation", { name: "Sessions" }).waitFor();
    const id = await session(page, server, {
      steps: [
        { text: "Before. " },
        {
          tool: {
            name: "Bash",
            kind: "execute",
            arguments: { command: "true" },
            output: "kept",
            exitCode: 0,
          },
        },
        { text: "tick ", repeat: 4000, rate: 20 },
      ],
    });
    await page.goto(addressOf(server, id));
    await prose().filter({ hasText: "tick tick tick" }).waitFor();
    await server.kill();
    await page.getByRole("status").filter({ hasText: "Reconnecting" }).waitFor();
    expect(await prose().filter({ hasText: "Before." }).count()).toBe(1); // the text shown before stays
    await expectAccessible(page);
    await server.start();
    await ended();
    await page.getByRole("status").filter({ hasText: "Reconnecting" }).waitFor({ state: "detached" });
    const resumed = await told(page);
    expect(resumed.filter((r) => r.startsWith("prose Before.")).length).toBe(1);
    await page.getByRole("button", { name: "Try again" }).waitFor();
    await page.reload();
    await expect.poll(() => told(page)).toEqual(resumed);
    await expectAccessible(page);
  });

  it("executes nothing and fetches nothing that an agent writes", async () => {
    await enter();
    const evil = [
      '<img src=x onerror="window.pwned=1">',
      "<script>window.pwned=1</script>",
      '<svg onload="window.pwned=1"><script>window.pwned=1</script></svg>',
      '<meta http-equiv=refresh content="0;url=https://evil.example/">',
      "[click](javascript:window.pwned=1)",
      "![pixel](https://evil.example/pixel.png)",
      '<iframe srcdoc="<script>parent.pwned=1</script>"></iframe>',
      "<link rel=stylesheet href=https://evil.example/x.css><style>body{display:none}</style>",
      "| a |\n|---|\n| <img src=//evil.example/x> |",
    ].join("\n\n");
    const id = await session(page, server, {
      steps: [
        { reasoning: evil },
        { text: evil },
        { plan: [{ content: evil, status: "pending" }] },
        { notice: { level: "warning", code: "X", message: evil } },
        {
          tool: {
            name: "<b>Bash</b>",
            kind: "execute",
            title: evil,
            arguments: { command: evil, [evil]: evil },
            output: evil,
            changes: [
              {
                path: "<img src=x>",
                kind: "update",
                hunks: [
                  { oldStart: 1, oldLines: 1, newStart: 1, newLines: 1, lines: [`-${evil}`, `+${evil}`] },
                ],
              },
            ],
          },
        },
        {
          tool: { name: "Bash", kind: "execute", arguments: { command: evil }, output: evil, isError: true },
        },
        { fail: { code: "AGENT_ERROR", message: evil } },
      ],
    });
    await page.goto(addressOf(server, id));
    await ended();
    const folded = page.locator("[data-row] button[aria-expanded=false]");
    while (await folded.count()) await folded.first().click();
    await prose().filter({ hasText: "<script>" }).waitFor();
    expect(await page.evaluate(() => (window as unknown as { pwned?: number }).pwned)).toBeUndefined();
    expect(
      await page
        .locator("[data-row] :is(img, script, iframe, meta, link, style, form, object, embed)")
        .count(),
    ).toBe(0);
    expect(await page.locator("a[href^='javascript' i]").count()).toBe(0);
    expectQuiet(watch);
    await expectAccessible(page);
  });

  it("an approval shows exactly what would run, and nothing in it can pretend", async () => {
    await enter();
    const command = `echo safe\u001b[2K\u202egnp.exe\u200b\n${"\n".repeat(10_000)}✓ Approved\u001b]8;;https://evil.example\u0007`;
    const id = await session(page, server, {
      steps: [
        {
          tool: {
            name: "Bash",
            kind: "execute",
            title: "List the files",
            arguments: { command },
            output: "",
            ask: { title: "This only lists files. Approved ✓", why: "Commands ask." },
          },
        },
      ],
    });
    await page.goto(addressOf(server, id));
    const bar = page.getByRole("region", { name: "Approval" });
    await bar.waitFor();
    const lines = (await bar.innerText()).split("\n").filter((l) => l.trim() !== "");
    expect(lines).toEqual([
      "Run this command? Bash",
      "command",
      "echo safeESC[2KRLOgnp.exeZWSP↵",
      ...Array(11).fill("↵"),
      `9,990 more lines${(command.length).toLocaleString("en")} characters · 10,002 lines`,
      ...[
        "1",
        "Allow once",
        "2",
        "Allow for this session",
        "3",
        "Deny",
        "4",
        "Deny and stop",
        "Always allow in this project…",
        "Deny with a reason",
        "Why am I asked?",
      ],
    ]);
    await bar.getByRole("button", { name: "9,990 more lines" }).click();
    expect(await bar.locator("pre").innerText()).toContain("✓ ApprovedESC]8;;https://evil.exampleBEL");
    expect(await bar.getByRole("link").count()).toBe(0);
    // The buttons are outside of the area that the agent fills.
    expect(await bar.getByRole("button", { name: "Deny", exact: true }).isVisible()).toBe(true);

    await bar.getByRole("button", { name: "Deny with a reason" }).click();
    await bar.getByRole("textbox", { name: "Reason" }).fill("not on this machine");
    await page.keyboard.press("Enter");
    await bar.waitFor({ state: "detached" });
    await page.getByText("· denied by you").waitFor();
    await page.getByRole("button", { name: /· denied by you/ }).waitFor(); // the denied tool call
    await page.getByText("not on this machine").waitFor();
    expectQuiet(watch);
  });

  it("allows a command from now on, by a rule that is shown before it is made and can be removed", async () => {
    await enter();
    const asks = (command: string) => ({
      steps: [
        { tool: { name: "Bash", kind: "execute", title: "", arguments: { command }, output: "ok", ask: {} } },
      ],
    });
    const id = await session(page, server, asks("git log -p"));
    await page.goto(addressOf(server, id));
    const bar = page.getByRole("region", { name: "Approval" });
    await bar.getByRole("button", { name: "Always allow in this project…" }).click();
    const offers = bar.getByRole("region", { name: "Always allow" }).getByRole("button");
    await offers.first().waitFor();
    expect(await offers.allInnerTexts()).toEqual([
      "Always allow git log -p",
      "Always allow git log * with any arguments",
    ]);
    await expectAccessible(page);
    await offers.last().click();
    await bar.waitFor({ state: "detached" });
    await ended();
    await page.getByText("· allowed by you").waitFor();
    await page.getByText("Stored as rule 1.").waitFor();

    const composer = page.getByRole("textbox", { name: "Prompt" });
    await composer.fill(JSON.stringify(asks("git log --stat")));
    await page.keyboard.press("Enter");
    await page.getByText("· allowed by rule 1").waitFor();
    await page.getByText("Reason: allowed by rule 1, made by Chrome on Linux on").waitFor();
    await page.getByRole("button", { name: "Details" }).click();
    const details = page.getByRole("complementary", { name: "Details" });
    await details.getByText("Allow git log * with any arguments").waitFor();
    await details.getByRole("button", { name: "Remove rule 1" }).click();
    await details.getByText("git log *").waitFor({ state: "detached" });

    await composer.fill(JSON.stringify(asks("git log --stat")));
    await page.keyboard.press("Enter");
    await bar.waitFor();
    await bar.getByRole("button", { name: "Deny", exact: true }).click();
    await bar.waitFor({ state: "detached" });
    expectQuiet(watch);
  });

  it("answers by key, stops by Escape twice, queues and continues", async () => {
    await enter();
    const id = await session(page, server);
    await page.goto(addressOf(server, id));
    const composer = page.getByRole("textbox", { name: "Prompt" });

    await composer.fill("approve this");
    await page.keyboard.press("Enter");
    await page.getByRole("region", { name: "Approval" }).waitFor();
    const digit = page.locator("[data-choice] kbd").first();
    const strength = () => digit.evaluate((e) => getComputedStyle(e).opacity);
    await expect.poll(strength).toBe("0.3"); // in a field, a digit is text
    await page.getByRole("main").getByRole("heading", { level: 1 }).click(); // move the focus out of the composer
    await expect.poll(strength).toBe("1");
    await page.getByRole("button", { name: "Allow once" }).and(page.locator(":enabled")).waitFor();
    await page.keyboard.press("1");
    await ended();

    await composer.fill("hang on");
    await page.keyboard.press("Enter");
    await page.getByRole("button", { name: "Stop" }).waitFor();
    await composer.fill("text\nof the next");
    await page.keyboard.press("Enter");
    await page.getByText("1 queued").waitFor();
    await expect.poll(() => composer.inputValue()).toBe("");
    const [hint, stopped] = [page.getByText("Esc again stops"), page.getByText("Stopped by you")];
    await page.keyboard.press("Escape");
    await hint.waitFor();
    do {
      await page.keyboard.press("Escape"); // if this Escape is too late, it counts as the first of two again
      await hint.or(stopped).first().waitFor();
    } while (!(await stopped.count()));
    await page.getByText("Queue held: 1 prompt waits until you continue.").waitFor();
    await page.getByRole("button", { name: "Continue the queue" }).click();
    await page.getByRole("heading", { name: "of the next" }).waitFor();
    await page.locator("[data-row=end]").nth(2).waitFor();

    await page.getByRole("button", { name: "End session" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "End session" }).click();
    await page.getByRole("button", { name: "Continue", exact: true }).click();
    await composer.fill("text");
    await page.keyboard.press("Enter");
    await page.locator("[data-row=end]").nth(3).waitFor();
    expectQuiet(watch);
  });

  it("queues what is entered before the server has accepted the last prompt", async () => {
    await enter();
    const id = await session(page, server);
    await page.goto(addressOf(server, id));
    const composer = page.getByRole("textbox", { name: "Prompt" });
    await page.evaluate(() => {
      const send = window.fetch;
      window.fetch = async (...request) => {
        const response = await send(...request);
        if (!String(request[0]).endsWith("/send")) return response;
        window.fetch = send;
        await new Promise((resolve) => window.addEventListener("answer", resolve, { once: true }));
        return response;
      };
    });
    await composer.fill("hang on");
    await page.keyboard.press("Enter");
    await page.getByRole("button", { name: "Stop" }).waitFor();
    await page.keyboard.press("Enter"); // nothing else was typed, so this enters nothing
    await composer.fill("of the next");
    await page.keyboard.press("Enter");
    await page.evaluate(() => window.dispatchEvent(new Event("answer")));
    await page.getByText("1 queued").waitFor();
    await expect.poll(() => composer.inputValue()).toBe("");
    await page.getByRole("button", { name: "Stop" }).click();
    await page.getByText("Queue held: 1 prompt waits until you continue.").waitFor();
    expectQuiet(watch);
  });

  it("keeps the draft when it cannot be sent, and over a reload", async () => {
    await enter();
    const id = await session(page, server);
    await page.goto(addressOf(server, id));
    const composer = page.getByRole("textbox", { name: "Prompt" });
    await composer.fill("do not lose me");
    await page.route("**/api/**", (r) => r.abort()); // an answered request would take the message back
    await page.keyboard.press("Enter");
    await page.getByRole("alert").filter({ hasText: "not responding" }).waitFor();
    expect(await composer.inputValue()).toBe("do not lose me");
    await page.unroute("**/api/**");
    await page.reload();
    await composer.waitFor();
    expect(await composer.inputValue()).toBe("do not lose me");
  });

  it("takes back that the server is not responding, once it does", async () => {
    await logIn(page, server);
    const id = await session(page, server);
    await page.goto(addressOf(server, id));
    await page.getByRole("textbox", { name: "Prompt" }).fill("text");
    await page.route("**/send", (r) => r.abort());
    await page.keyboard.press("Enter");
    const alert = page.getByRole("alert").filter({ hasText: "not responding" });
    await alert.waitFor();
    await alert.waitFor({ state: "detached" });
  });

  it("reads all that its first view shows with one request", async () => {
    await login();
    const id = await session(page, server, "text");
    await page.evaluate(async () => {
      // The page repeats its request while the server is still checking agents,
      // so the server checks them before.
      const headers = { "Runnel-Key": localStorage.getItem("runnel.key") ?? "" };
      await (await fetch("/api/agents?refresh=true", { headers })).text();
    });
    const read: string[] = [];
    page.on("request", (r) => read.push(new URL(r.url()).pathname));
    const more = { "/": [], "/?new": ["/api/profiles"], [`/?session=${id}`]: [`/api/session/${id}/status`] };
    for (const [address, others] of Object.entries(more)) {
      const connected = page.waitForEvent("websocket");
      read.length = 0;
      await page.goto(server.origin + address);
      await page.locator("[data-session]").first().waitFor();
      await connected;
      for (const other of others) await expect.poll(() => read).toContain(other);
      await page.waitForLoadState("networkidle");
      // The position up to which the session was seen is written, not read.
      const data = read.filter(
        (p) => p.startsWith("/api/") && p !== "/api/login/proof" && !p.endsWith("/seen"),
      );
      expect(data, address).toEqual(["/api/overview", ...others]);
    }
  });

  it("shows why it cannot load the sessions, and loads them once it can", async () => {
    await login();
    const id = await session(page, server, "text");
    const error = { type: "STORE_UNAVAILABLE", message: "the disk is full" };
    await page.route("**/api/overview", (r) => r.fulfill({ status: 503, json: { error } }));
    await page.reload();
    const alert = page.getByRole("alert").filter({ hasText: "could not be loaded: the disk is full" });
    await alert.waitFor();
    await page.unroute("**/api/overview");
    await page.locator(`nav [data-session="${id}"]`).waitFor();
    await alert.waitFor({ state: "detached" });
    expectQuiet(watch);
  });

  it("is compressed, and draws its first view with small scripts", async () => {
    let answers: Promise<{ path: string; bytes: number; body: number; coding: string }>[] = [];
    const measure = async (r: Request) => {
      const [size, res] = await Promise.all([r.sizes(), r.response()]);
      return {
        path: new URL(r.url()).pathname,
        bytes: size.responseHeadersSize + size.responseBodySize,
        body: size.responseBodySize,
        coding: (await res?.headerValue("content-encoding")) ?? "none",
      };
    };
    const files = async (ending: RegExp) => (await Promise.all(answers)).filter((a) => ending.test(a.path));
    // A smaller file fits into one packet, so the build compresses none.
    const plain = (list: Awaited<ReturnType<typeof files>>) =>
      list.filter((a) => a.coding !== "br" && a.body > 1024);
    const sum = (list: { bytes: number }[]) => list.reduce((n, a) => n + a.bytes, 0);

    await login();
    const id = await session(page, server, "text"); // without any, the first view is a form
    await context.close();
    ({ context, watch } = await newContext(browser, server));
    page = await context.newPage();
    page.on("requestfinished", (r) => answers.push(measure(r)));
    await loadNothingAhead(page);
    await login();
    await page.waitForLoadState("networkidle");
    expect(plain(await files(/\.(js|css)$/))).toEqual([]);
    expect(sum(await files(/\.js$/))).toBeLessThan(mostScript);
    const first = await files(/^(?!\/api\/)/); // answers of the API grow with agents and sessions
    expect(sum(first), JSON.stringify(first, null, 1)).toBeLessThan(mostBytes);

    await page.goto("about:blank");
    answers = [];
    await page.goto(addressOf(server, id));
    await ended();
    const scripts = await files(/\.js$/);
    expect(scripts.length).toBeGreaterThan(1);
    expect(plain(scripts)).toEqual([]);
    expect(sum(scripts), JSON.stringify(scripts, null, 1)).toBeLessThan(mostOfSession);
    page.removeAllListeners("requestfinished");
    await Promise.all(answers); // the page of a request must stay until its sizes are known
    expectQuiet(watch);
  });

  it("paints its frame, in the chosen colours, before its scripts arrive", async () => {
    await login();
    await page.getByRole("button", { name: /^Colours: system/ }).click(); // light
    await page.getByRole("button", { name: /^Colours: light/ }).click(); // dark
    const arrive = await holdScripts(page);
    const name = nameIn(page);
    await page.goto(`${server.origin}/`, { waitUntil: "commit" });
    await styled(page);
    await name.waitFor();
    await page.waitForFunction(() => performance.getEntriesByName("first-contentful-paint").length > 0);
    expect(await page.evaluate(() => getComputedStyle(document.body).colorScheme)).toBe("dark");
    expect(await page.getByRole("navigation").count()).toBe(0);
    const before = await name.boundingBox();
    arrive();
    await page.getByRole("navigation", { name: "Sessions" }).waitFor();
    expect(await name.boundingBox()).toEqual(before);
    expect(await page.locator("#root > .first").count()).toBe(0);
    expectQuiet(watch);
  });

  it("paints no frame in a browser that is not logged in", async () => {
    await holdScripts(page);
    await page.goto(`${server.origin}/`, { waitUntil: "commit" });
    await styled(page);
    expect(await page.locator(".first").isVisible()).toBe(false);
    expectQuiet(watch);
  });

  it("loads a part that it lacks after the server was restarted", async () => {
    await loadNothingAhead(page);
    await logIn(page, server);
    const id = await session(page, server, "text");
    await page.goto(addressOf(server, id));
    await ended();
    const prompt = page.getByRole("textbox", { name: "Prompt" });
    await prompt.fill("a draft");
    await server.stop();
    await page.getByRole("status").filter({ hasText: "Reconnecting" }).waitFor();
    await page.getByRole("button", { name: "Details" }).click();
    expect(await prompt.inputValue()).toBe("a draft"); // nothing is lost while the server is away
    await page.evaluate(() => Object.assign(window, { same: true }));
    await server.start();
    // A reload at any other moment could cut off a prompt that is being sent.
    await page.getByText("The server was restarted.").waitFor();
    await expectAccessible(page);
    await page.getByRole("button", { name: "Send" }).click();
    await page.locator("[data-row=prompt]", { hasText: "a draft" }).waitFor();
    await prompt.fill("another draft");
    expect(await page.evaluate("window.same")).toBe(true);
    await page.getByRole("button", { name: "Details" }).click(); // away
    await page.getByRole("button", { name: "Details" }).click(); // and tried again
    await page.getByRole("button", { name: "Reload" }).click();
    await expect.poll(() => prompt.inputValue()).toBe("another draft");
    await page.getByRole("button", { name: "Details" }).click();
    await page.getByRole("complementary", { name: "Details" }).getByText("Changed files").waitFor();
  });

  it("reloads for a view that it lacks, but not again and again", async () => {
    await loadNothingAhead(page);
    await login();
    const id = await session(page, server, "text");
    const view = /\/Session-[^/]*\.js$/;
    await page.route(view, (r) => r.abort());
    const reloaded = page.waitForEvent("load");
    await page.locator(`nav [data-session="${id}"]`).click();
    await reloaded;
    await page.getByText("A part of the page could not be loaded.").waitFor();
    await expectAccessible(page);
    await page.unroute(view);
    await page.getByRole("button", { name: "Reload the page" }).click();
    await ended();
  });

  it("shows the session that a key has led to in the list", async () => {
    await page.setViewportSize({ width: 1440, height: 400 });
    await logIn(page, server);
    for (let i = 0; i < 12; i++) await session(page, server);
    await page.goto(`${server.origin}/`);
    await expect.poll(() => page.locator("[data-session]").count()).toBeGreaterThanOrEqual(12);
    const current = page.locator("[data-session][aria-current=page]");
    const seen = () =>
      current.evaluate((e) => {
        const box = e.getBoundingClientRect();
        return box.top >= 0 && box.bottom <= innerHeight;
      });
    for (const key of ["j", "k"])
      for (let i = 0; i < 10; i++) {
        await page.keyboard.press(key);
        await current.waitFor();
        await expect.poll(seen).toBe(true);
      }
  });

  it("sends files along and says why it cannot", async () => {
    await enter();
    const id = await session(page, server);
    await page.goto(addressOf(server, id));
    const picker = page.getByLabel("Attach files");
    await picker.setInputFiles([
      { name: "notes.txt", mimeType: "text/plain", buffer: Buffer.from("remember the milk") },
      { name: "huge.txt", mimeType: "text/plain", buffer: Buffer.alloc(10 * 1024 * 1024 + 1, "x") },
    ]);
    await page.getByText("at most 10 MiB").waitFor();
    await expectAccessible(page);
    await page.getByRole("button", { name: "Remove huge.txt" }).click();
    await page.getByRole("textbox", { name: "Prompt" }).fill("text with notes");
    await page.getByRole("button", { name: "Send" }).click();
    await ended();
    await page.locator("[data-row=prompt]").getByText("notes.txt").waitFor();
    expect(await page.getByRole("list", { name: "Attachments" }).count()).toBe(0);
    expectQuiet(watch);
  });

  it("tries again with the files of the prompt that failed", async () => {
    await enter();
    const id = await session(page, server);
    await page.goto(addressOf(server, id));
    await page
      .getByLabel("Attach files")
      .setInputFiles({ name: "notes.txt", mimeType: "text/plain", buffer: Buffer.from("remember the milk") });
    await page.getByRole("textbox", { name: "Prompt" }).fill("fail to deploy");
    await page.getByRole("button", { name: "Send" }).and(page.locator(":enabled")).click();
    await ended();
    await page.reload();
    await page.getByRole("button", { name: "Try again", exact: true }).click();
    await page.locator("[data-row=end]").nth(1).waitFor();
    expect(await page.locator("[data-row=prompt]").getByText("notes.txt").count()).toBe(2);

    // Another browser has no files to send again, and the page says so.
    await page.evaluate(() => localStorage.removeItem("runnel.uploads"));
    await page.reload();
    await page.getByRole("button", { name: "Try again without the files" }).first().waitFor();
    expectQuiet(watch);
  });

  it("continues a session whose folder is gone only once it is back", async () => {
    await enter();
    const dir = join(server.project, "vanishing");
    mkdirSync(dir);
    const id = await session(page, server, "text", { projectDir: dir });
    await page.goto(addressOf(server, id));
    await ended();
    await page.getByRole("button", { name: "End session" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "End session" }).click();
    rmdirSync(dir);
    await page.getByRole("button", { name: "Continue", exact: true }).click();
    await page.getByRole("alert").filter({ hasText: dir }).waitFor();
    expect(await page.getByRole("textbox", { name: "Prompt" }).count()).toBe(0);
    mkdirSync(dir);
    await page.getByRole("button", { name: "Continue", exact: true }).click();
    await page.getByRole("textbox", { name: "Prompt" }).waitFor();
    expectQuiet(watch);
  });

  it("renames, archives, exports and deletes a session", async () => {
    await enter();
    const id = await session(page, server, "text");
    await page.goto(addressOf(server, id));
    await ended();
    const menu = page.getByRole("button", { name: "Rename, export, archive or delete" });
    const dialog = page.getByRole("dialog");
    const row = page.locator(`nav [data-session="${id}"]`);
    await menu.click();
    await dialog.waitFor();
    await expectAccessible(page);
    await dialog.getByLabel("Title").fill("Fix the login");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "Fix the login", level: 1 }).waitFor();
    await row.getByText("Fix the login").waitFor();

    await menu.click();
    for (const [name, ending] of [
      ["HTML", "html"],
      ["Markdown", "md"],
      ["JSON Lines", "jsonl"],
    ] as const) {
      const [file] = await Promise.all([
        page.waitForEvent("download"),
        dialog.getByRole("button", { name, exact: true }).click(),
      ]);
      expect(file.suggestedFilename()).toBe(`${id}.${ending}`);
    }
    const toArchive = dialog.getByRole("button", { name: "Archive", exact: true });
    await toArchive.click();
    await row.waitFor({ state: "detached" });
    await page.getByRole("button", { name: "Undo" }).click();
    await row.waitFor();
    await menu.click();
    await toArchive.click();
    await row.waitFor({ state: "detached" });
    const archive = page.getByRole("button", { name: /^Archived/ });
    await archive.click();
    await row.waitFor();
    await page
      .getByRole("main")
      .getByText(/^archived · /)
      .waitFor();
    await menu.click();
    await dialog.getByRole("button", { name: "Take out of the archive" }).click();
    await row.waitFor(); // the archive is empty, so the list shows all other sessions

    await menu.click();
    await dialog.getByRole("button", { name: "Delete…" }).click();
    await dialog.getByText(/about \d/).waitFor();
    await expectAccessible(page);
    await dialog.getByRole("button", { name: "Delete session" }).click();
    await row.waitFor({ state: "detached" });
    await page.goto(addressOf(server, id));
    await page.getByRole("heading", { name: "Session not found" }).waitFor();
    expectQuiet(watch);
  });

  it("continues after an earlier turn in a session of its own", async () => {
    await enter();
    const id = await session(page, server, "text");
    await page.goto(addressOf(server, id));
    await ended();
    const here = page.getByRole("button", { name: "Continue from here in a new session" });
    await expectAccessible(page);
    await here.first().click();
    const field = page.getByRole("textbox", { name: "Prompt" });
    await page.waitForURL((url) => !url.search.includes(id));
    await page.getByText("This is a copy.").waitFor();
    await page.getByRole("main").getByRole("heading", { name: "text (fork)" }).waitFor();
    await expectAccessible(page);
    await page.getByRole("button", { name: "Open the original" }).click();
    await page.waitForURL((url) => url.search.includes(id));
    await page.goBack();
    await expect.poll(() => field.inputValue()).toContain("User:\n> text\n");
    await field.press("End");
    await field.fill(`text ${await field.inputValue()}`); // a draft can be edited
    await page.keyboard.press("Enter");
    await ended();
    await page.getByRole("heading", { name: /This continues an earlier conversation/, level: 2 }).waitFor();
    expectQuiet(watch);
  });

  it("says keys, has no trap and shows the focus", async () => {
    await login();
    await page.keyboard.press("?");
    const dialog = page.getByRole("dialog", { name: "Keyboard shortcuts" });
    await dialog.waitFor();
    await expectAccessible(page);
    await page.keyboard.press("Escape");
    await dialog.waitFor({ state: "detached" });
    await page.keyboard.press("Tab");
    const outline = await page.evaluate(
      () => getComputedStyle(document.activeElement as Element).outlineStyle,
    );
    expect(outline).not.toBe("none");
  });

  it("opens a long session at its end, with few of its rows drawn", async () => {
    await enter();
    const steps = Array.from({ length: 400 }, (_, i) => [
      { text: `Step ${i}.` },
      {
        tool: {
          name: "Bash",
          kind: "execute",
          arguments: { command: `make step${i}` },
          output: "ok",
          exitCode: 0,
        },
      },
      { reasoning: `On to ${i + 1}.` },
    ]).flat();
    const id = await session(page, server, { steps });
    await over(page, id);
    await page.goto(addressOf(server, id));
    await prose().filter({ hasText: "Step 399." }).waitFor();
    expect(await page.locator("[data-row]").count()).toBeLessThan(250);
    const stream = page.getByRole("region", { name: "Conversation" });
    await expect
      .poll(() => stream.evaluate((e) => e.scrollHeight - e.scrollTop - e.clientHeight))
      .toBeLessThan(2);
    await stream.focus();
    const fast = await slow(page, 10);
    await page.keyboard.press("Home");
    await prose().filter({ hasText: "Step 0." }).waitFor();
    await fast();
    await page.getByRole("button", { name: "To the end" }).click();
    await prose().filter({ hasText: "Step 399." }).waitFor();
    expectQuiet(watch);
  });

  it("loads older entries while the user scrolls up, without gaps, doubles or jumps", async () => {
    await enter();
    const script = Array.from({ length: 600 }, (_, i) => ({ text: `Step ${i}.` }));
    const id = await session(page, server, { steps: script });
    await over(page, id);
    const asked: string[] = [];
    page.on("request", (r) => {
      if (r.url().includes("/items?before=")) asked.push(r.url());
    });
    await page.goto(addressOf(server, id));
    await prose().filter({ hasText: "Step 599." }).waitFor();
    const stream = page.getByRole("region", { name: "Conversation" });
    await stream.hover();
    // The steps of the rows that are drawn, and of those on the screen.
    const stepOf = (text: string | null) => Number(/Step (\d+)\./.exec(text ?? "")?.[1] ?? -1);
    const shown = async () => (await prose().allTextContents()).map(stepOf);
    const onScreen = async () => {
      const texts = await stream.evaluate((el) => {
        const at = el.getBoundingClientRect();
        return [...el.querySelectorAll("[data-row=prose]")]
          .filter((row) => {
            const r = row.getBoundingClientRect();
            return r.bottom > at.top && r.top < at.bottom;
          })
          .map((row) => row.textContent);
      });
      return texts.map(stepOf);
    };
    const seen = new Set<number>(await shown());
    for (let i = 0; i < 400 && !seen.has(0); i++) {
      await page.mouse.wheel(0, -400);
      await page.evaluate(() => new Promise((drawn) => requestAnimationFrame(drawn)));
      // The rows on the screen follow each other, each once.
      const now = await onScreen();
      expect(now).toEqual(now.map((_, at) => (now[0] as number) + at));
      for (const n of await shown()) seen.add(n);
    }
    expect([...seen].sort((a, b) => a - b)).toEqual(script.map((_, i) => i));
    expect(asked.length).toBeGreaterThan(1);
    expect(new Set(asked).size).toBe(asked.length);
    expectQuiet(watch);
  });

  it("does not move what is being read, however the reader got there", async () => {
    const desktop = await launch({ scrollbars: true });
    onTestFinished(() => desktop.close());
    page = await (await newContext(desktop, server)).context.newPage();
    await logIn(page, server);
    const id = await session(page, server, {
      steps: [
        { text: "line\n\n", repeat: 80 },
        { text: `${"grows ".repeat(10)}\n\n`, repeat: 3000, rate: 20 },
      ],
    });
    await page.goto(addressOf(server, id));
    await prose().filter({ hasText: "grows grows" }).waitFor();
    const fast = await slow(page, 4);
    const stream = page.getByRole("region", { name: "Conversation" });
    const size = () => stream.evaluate((e) => e.scrollHeight);
    const top = () => stream.evaluate((e) => e.scrollTop);
    const left = () => stream.evaluate((e) => e.scrollHeight - e.scrollTop - e.clientHeight);
    /**
     * Whether nothing scrolls for 30 frames, however slowly the machine draws
     * them.
     */
    const still = () =>
      stream.evaluate(async (e) => {
        const was = e.scrollTop;
        for (let i = 0; i < 30; i++) await new Promise((drawn) => requestAnimationFrame(drawn));
        return e.scrollTop === was;
      });
    const back = async () => {
      await page.getByRole("button", { name: /To the end|new/ }).click();
      await expect.poll(left).toBeLessThan(3);
    };
    /**
     * Scrolls away from the end by `how`, and checks that the view stays there
     * while the text grows.
     */
    const reads = async (how: () => Promise<void>) => {
      await how();
      await page.getByRole("button", { name: /To the end|new/ }).waitFor();
      await expect.poll(left).toBeGreaterThan(20);
      await expect.poll(still).toBe(true);
      const [was, had] = [await top(), await size()];
      await expect.poll(size).toBeGreaterThan(had + 20);
      expect(await top()).toBe(was);
      await back();
    };
    await stream.hover();
    await reads(() => page.mouse.wheel(0, -300));
    if (process.env.RUNNEL_LONG !== "1") await fast();
    await stream.focus();
    await reads(() => page.keyboard.press("PageUp"));
    await reads(async () => {
      const box = await stream.boundingBox();
      if (!box) throw new Error("no conversation");
      const x = box.x + box.width - 4; // on the scrollbar
      await page.mouse.move(x, box.y + box.height - 20);
      await page.mouse.down();
      await page.mouse.move(x, box.y + box.height / 2, { steps: 5 });
      await page.mouse.up();
    });
    await page.getByRole("button", { name: "Stop" }).click();
    await ended();
  });

  it("cannot be framed, not even by a neighbour", async () => {
    await login();
    const other = createServer((_req, res) => {
      res.setHeader("Content-Type", "text/html");
      res.end(`<iframe src="${server.origin}/"></iframe>`);
    });
    await new Promise<void>((done) => other.listen(0, "127.0.0.1", done));
    onTestFinished(() => void other.close());
    await page.goto(`http://127.0.0.1:${(other.address() as AddressInfo).port}/`);
    await expect.poll(() => page.frames()[1]?.url()).toMatch(/^chrome-error:/);
  });
});

describe.skipIf(skip)("the page on a phone", () => {
  let server: Server;
  let browser: Browser;
  let watch: Watch;
  let page: Page;
  beforeAll(async () => {
    [server, browser] = await Promise.all([Server.start(), launch()]);
    const made = await newContext(browser, server, {
      viewport: { width: 390, height: 844 },
      hasTouch: true,
      isMobile: true,
      deviceScaleFactor: 2,
    });
    watch = made.watch;
    page = await made.context.newPage();
    await page.goto(server.link());
    await page.getByRole("heading", { name: "first session" }).waitFor();
  });
  afterAll(async () => {
    await browser?.close();
    await server?.close();
  });

  it("starts the example once its folder is chosen", async () => {
    const unknown = { path: "", home: "/home/new", folders: [], repositories: [] };
    await page.route("**/api/folders", (r) => r.fulfill({ json: unknown }));
    await page.goto(server.origin);
    await page.getByRole("button", { name: "Watch a scripted turn" }).tap();
    const picker = page.getByRole("dialog", { name: "Folder" });
    await picker.getByText("No folders are known yet.").waitFor();
    await expectAccessible(page);
    await picker.getByRole("combobox").fill(server.project);
    await page.keyboard.press("Enter");
    await page.getByRole("region", { name: "Approval" }).waitFor();
    await page.unroute("**/api/folders");
    expectQuiet(watch);
  });

  // The home directory of this server contains its data, so no session can start
  // there.
  it("creates a folder where no other folder is", async () => {
    await page.goto(`${server.origin}/?new`);
    await page.getByRole("button", { name: /^Folder: / }).tap();
    const picker = page.getByRole("dialog", { name: "Folder" });
    await picker.getByRole("combobox").fill("~/");
    const home = picker.getByRole("option", { disabled: true });
    await home.getByText("contains runnel's own data").waitFor();
    await home.tap({ force: true }); // Playwright waits for an enabled one
    await expectAccessible(page);
    await picker.getByRole("button", { name: "New folder" }).tap();
    const name = picker.getByRole("textbox", { name: /^New folder in / });
    await name.fill("a/b");
    await page.keyboard.press("Enter");
    await picker.getByRole("alert").getByText("The name must have").waitFor();
    await expectAccessible(page);
    await name.fill("first project");
    await picker.getByRole("button", { name: "Create folder" }).tap();
    await page.getByRole("button", { name: "Folder: first project" }).waitFor();
    expectQuiet(watch);
  });

  it("paints the frame of each of its views where the view has it", async () => {
    await session(page, server, "text");
    const name = nameIn(page);
    for (const [route, view] of Object.entries({ "/": "main", "/?list": "nav" })) {
      const arrive = await holdScripts(page);
      await page.goto(server.origin + route, { waitUntil: "commit" });
      await styled(page);
      await name.waitFor();
      const before = await name.boundingBox();
      arrive();
      await page.locator(view).first().waitFor();
      expect(await name.boundingBox(), route).toEqual(before);
      await page.unrouteAll();
    }
    expectQuiet(watch);
  });

  it("is one column: list, session and back", async () => {
    await expectAccessible(page);
    await session(page, server, "approve");
    await page.goto(`${server.origin}/`);
    await page.getByRole("heading", { name: "Needs you" }).waitFor();
    await expectAccessible(page);
    await page.locator("[data-session]").first().tap();
    const bar = page.getByRole("region", { name: "Approval" });
    await bar.waitFor();
    expect(await page.getByRole("navigation").count()).toBe(0);
    await expectAccessible(page);
    // The question fills the lower half, and its buttons are large enough for a
    // thumb.
    const box = await bar.boundingBox();
    expect(box && box.height / 844).toBeGreaterThan(0.45);
    for (const b of await bar.locator("[data-choice]").all())
      expect((await b.boundingBox())?.height).toBeGreaterThanOrEqual(44);
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(390);
    await bar.getByRole("button", { name: "Allow once" }).tap();
    await page.locator("[data-row=end]").waitFor();
    await page.getByRole("textbox", { name: "Prompt" }).waitFor();
    await page.goBack();
    await page.getByRole("main", { name: "New session" }).waitFor();
    await page.goForward();
    await page.getByRole("button", { name: "All sessions" }).tap();
    await page.getByRole("navigation", { name: "Sessions" }).waitFor();
    expectQuiet(watch);
  });
});
