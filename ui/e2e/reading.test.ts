// Links to files, images of the project and diagrams in an agent's texts.

import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Browser, BrowserContext, Page } from "playwright-core";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import {
  addressOf,
  expectAccessible,
  expectQuiet,
  launch,
  logIn,
  newContext,
  session,
  skip,
  type Watch,
} from "./browser";
import { Server } from "./server";

const sizes = {
  wide: { viewport: { width: 1440, height: 900 } },
  phone: { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true },
};

const dot = Buffer.from(
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
  "base64",
);

// Without RUNNEL_LONG, each test runs in one of the sizes.
const every = process.env.RUNNEL_LONG === "1" || process.env.RUNNEL_SCREENSHOTS === "1";

describe.skipIf(skip).each(Object.entries(sizes))("an agent's text, %s,", (size, options) => {
  const on = (here: keyof typeof sizes) => it.runIf(every || size === here);

  let server: Server;
  let browser: Browser;
  let context: BrowserContext;
  let watch: Watch;
  let page: Page;

  beforeAll(async () => {
    [server, browser] = await Promise.all([Server.start(), launch()]);
    const at = (name: string) => join(server.project, name);
    for (const dir of ["src", "docs"]) mkdirSync(at(dir));
    const lines = Array.from({ length: 3000 }, (_, i) => `func f${i + 1}() int { return ${i + 1} }`);
    writeFileSync(at("src/many.go"), `${lines.join("\n")}\n`);
    writeFileSync(at("notes.txt"), "only one line, with \u202e in it\n");
    writeFileSync(at("docs/dot.png"), dot);
    writeFileSync(
      at("docs/evil.svg"),
      '<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>',
    );
    writeFileSync(at("data.bin"), Buffer.alloc(2048));
    writeFileSync(at("huge.txt"), Buffer.alloc(11 << 20, "x"));
    symlinkSync("/etc/hostname", at("linked.txt"));
    ({ context, watch } = await newContext(browser, server, options));
    page = await context.newPage();
  });
  afterAll(async () => {
    await browser?.close();
    await server?.close();
  });
  // The tests share a page: a new one takes as much processor time as a test.
  beforeEach(() => logIn(page, server));

  const say = async (text: string) => {
    const id = await session(page, server, { steps: [{ text }] });
    await page.goto(addressOf(server, id));
    await page.locator("[data-row=end]").waitFor();
  };
  const prose = () => page.locator("[data-row=prose]");
  const focused = () => page.evaluate(() => document.activeElement?.textContent);

  on("wide")("opens files at the line, and gives the focus back", async () => {
    await say(
      "It is in `src/many.go:1500`, see also src/many.go:2 and [the notes](notes.txt). Not files: `fmt.Println`, `/etc/passwd:1`, ../other/a.go:1, example.com:80.",
    );
    const links = prose().getByRole("button");
    expect(await links.allInnerTexts()).toEqual(["src/many.go:1500", "src/many.go:2", "the notes"]);

    await links.first().click();
    const viewer = page.getByRole("dialog", { name: "src/many.go:1500" });
    const marked = viewer.locator("[aria-current]");
    await marked.waitFor();
    expect(await marked.innerText()).toContain("func f1500() int");
    await expect
      .poll(() =>
        marked.evaluate((e) => {
          const [line, box] = [e, e.closest("section")].map((x) => x?.getBoundingClientRect());
          return line !== undefined && box !== undefined && line.top >= box.top && line.bottom <= box.bottom;
        }),
      )
      .toBe(true);
    await viewer.locator(".syn-keyword").first().waitFor();
    expect(await viewer.locator("[data-line='1']").count()).toBe(0);
    await viewer.getByRole("button", { name: /^Show lines 100–/ }).click();
    await viewer.locator("[data-line='100']").waitFor();
    await viewer.getByRole("button", { name: "Wrap lines" }).click();
    await viewer.getByRole("button", { name: "Wrap lines", pressed: true }).waitFor();
    await page.keyboard.press("Escape");
    await viewer.waitFor({ state: "detached" });
    expect(await focused()).toBe("src/many.go:1500");

    // The file arrives late; the button stays where it was.
    let arrive = () => {};
    const arrival = new Promise<void>((resolve) => {
      arrive = resolve;
    });
    const isFile = (url: URL) => url.pathname.endsWith("/file");
    await page.route(isFile, async (r) => {
      await arrival;
      await r.continue();
    });
    await links.nth(1).click();
    const second = page.getByRole("dialog", { name: "src/many.go:2" });
    const close = second.getByRole("button", { name: "Close" });
    const early = await close.boundingBox();
    arrive();
    await second.locator("[data-line='2']").waitFor();
    expect(await close.boundingBox()).toEqual(early);
    await page.unroute(isFile);
    await close.click();
    await page.getByRole("dialog").waitFor({ state: "detached" });
    expect(await focused()).toBe("src/many.go:2");

    await links.nth(2).click();
    const notes = page.getByRole("dialog", { name: "notes.txt" });
    await notes.getByText("RLO").waitFor();
    await expectAccessible(page);
    await context.grantPermissions(["clipboard-read", "clipboard-write"]);
    await notes.getByRole("button", { name: "Copy the file" }).click();
    await expect
      .poll(() => page.evaluate(() => navigator.clipboard.readText()))
      .toBe("only one line, with \u202e in it\n");
    await page.keyboard.press("Escape");
    expectQuiet(watch);
  });

  on("wide")("finds a file by its name alone, also in the output of a command", async () => {
    const tool = {
      name: "Bash",
      kind: "execute",
      arguments: { command: "go vet ./..." },
      output: "\u001b[31mmany.go:7:2:\u001b[0m unused\nsee http://x.example:80/a.go:1 and nothing.go:1\n",
      exitCode: 1,
    };
    const id = await session(page, server, { steps: [{ tool }] });
    await page.goto(addressOf(server, id));
    await page.locator("[data-row=end]").waitFor();
    const row = page.locator("[data-row=tool]");
    await row.getByRole("button").first().click();
    const links = row.locator("pre.terminal").getByRole("button");
    expect(await links.allInnerTexts()).toEqual(["many.go:7:2", "nothing.go:1"]);
    await links.first().click();
    await page.getByRole("dialog", { name: "src/many.go:7" }).locator("[aria-current]").waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("dialog").waitFor({ state: "detached" });
    await links.nth(1).click();
    await page.getByRole("alert").getByText("There is no such file").waitFor();
    expectQuiet(watch);
  });

  on("phone")("says why it shows no file", async () => {
    const cases: [string, RegExp][] = [
      ["src/none.go:1", /There is no such file or folder in the project\./],
      ["data.bin", /2 KiB of binary data/],
      ["huge.txt:1", /larger than 10 MiB/],
      ["linked.txt:1", /symbolic link/],
      [".env:1", /usually hold secrets/],
      ["notes.txt:40", /only 1 line/],
    ];
    await say(cases.map(([name]) => `- [${name}](${name.replace(/:(\d+)/, "#L$1")})`).join("\n"));
    for (const [i, [, why]] of cases.entries()) {
      await prose().getByRole("button").nth(i).click();
      const dialog = page.getByRole("dialog");
      await dialog.getByText(why).waitFor();
      await page.keyboard.press("Escape");
      await dialog.waitFor({ state: "detached" });
    }
    expectQuiet(watch);
  });

  on("phone")("opens the file of a tool row at its line", async () => {
    const hunks = [
      {
        oldStart: 6,
        oldLines: 2,
        newStart: 6,
        newLines: 2,
        lines: [" func f6() int { return 6 }", "-old", "+new"],
      },
    ];
    const id = await session(page, server, {
      steps: [
        {
          tool: {
            name: "Read",
            kind: "read",
            arguments: { file_path: "src/many.go", offset: 20 },
            output: "…",
          },
        },
        { text: "Then:" },
        {
          tool: {
            name: "Edit",
            kind: "edit",
            arguments: { file_path: "src/many.go" },
            changes: [{ path: "src/many.go", kind: "update", hunks }],
            output: "done",
          },
        },
      ],
    });
    await page.goto(addressOf(server, id));
    await page.locator("[data-row=end]").waitFor();
    for (const [row, name, line] of [
      [0, "src/many.go:20", 20],
      [1, "src/many.go", 7],
    ] as const) {
      const tool = page.locator("[data-row=tool]").nth(row);
      await tool.getByRole("button").first().click();
      await tool.getByRole("button", { name, exact: true }).click();
      await page
        .getByRole("dialog", { name: `src/many.go:${line}` })
        .locator("[aria-current]")
        .waitFor();
      await page.keyboard.press("Escape");
      await page.getByRole("dialog").waitFor({ state: "detached" });
    }
    expectQuiet(watch);
  });

  on("phone")("shows images of the project, inert, and no others", async () => {
    await say(
      "![a dot](docs/dot.png)\n\n![evil](docs/evil.svg)\n\n![none](docs/none.png)\n\n![remote](https://evil.example/x.png)\n\n![up](../x.png)",
    );
    const image = prose().locator("img[alt='a dot']");
    await image.waitFor();
    expect(await image.getAttribute("src")).toMatch(/^blob:/);
    await expect.poll(() => image.evaluate((e) => (e as HTMLImageElement).naturalWidth)).toBe(1);
    await prose()
      .getByText(/evil.*no PNG, JPEG, GIF or WebP image/)
      .waitFor();
    await prose()
      .getByText(/none.*no such file/)
      .waitFor();
    await prose().getByRole("link", { name: "image: remote" }).waitFor();
    await prose().getByText("image: up (../x.png)").waitFor();
    expect(await prose().locator("img").count()).toBe(1);
    await expectAccessible(page);
    await image.click();
    await page.getByRole("dialog", { name: "docs/dot.png" }).getByRole("img").waitFor();
    expectQuiet(watch); // no request to another origin
  });

  on("wide")("draws diagrams in a frame that reaches nothing", async () => {
    const hostile =
      'graph TD\n  A["<img src=https://evil.example/x.png onerror=alert(1)>"] --> B\n  click B "javascript:alert(1)"';
    await say(
      `\`\`\`mermaid\ngraph LR\n  Page --> Server\n  Server --> Agent\n\`\`\`\n\n\`\`\`mermaid\n${hostile}\n\`\`\`\n\n\`\`\`mermaid\nthis is no diagram\n\`\`\``,
    );
    const frames = prose().locator("iframe");
    await prose().locator("iframe[data-drawn]").nth(1).waitFor();
    await prose()
      .getByText(/^No diagram: /)
      .waitFor();
    await prose().getByText("this is no diagram").first().waitFor();
    expect(await frames.count()).toBe(2);
    expect(await frames.first().getAttribute("sandbox")).toBe("allow-scripts");
    const inside = await (await frames.first().elementHandle())?.contentFrame();
    await inside?.getByText("Server").first().waitFor();
    const reach = await inside?.evaluate(async () => {
      const tried: string[] = [];
      for (const [name, f] of Object.entries({
        storage: () => localStorage.length,
        cookie: () => document.cookie,
        page: () => parent.document.title,
        network: () => fetch("/api/health"),
      }))
        try {
          await f();
          tried.push(name);
        } catch {}
      return tried;
    });
    expect(reach).toEqual([]);
    await expect.poll(() => watch.violations.length).toBe(1); // the network that this test tried
    watch.violations.length = 0;
    await expectAccessible(page);
    await prose().getByRole("button", { name: "Show the code" }).first().click();
    await prose().getByText("Page --> Server").waitFor();
    expectQuiet(watch);
  });
});
