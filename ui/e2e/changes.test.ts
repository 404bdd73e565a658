// Tests how people review what agents changed: before an approval, over a
// session, and with git.

import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
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
import { Server } from "./server";

const path = (process.env.PATH ?? "").split(":").map((dir) => join(dir, "git"));
const git = path.find((p) => existsSync(p));

const head = "// Greets people.\nimport { name } from './name';\n\nconst polite = true;\n\n";
const body = (word: string) =>
  `export function greet(who: string): string {\n  const text = "${word}, " + who;\n  return polite ? text : name;\n}\n`;
const before = head + body("Hello");
const after = head + body("Good day");
const last = `${head}${body("Good day")}\nexport const version = 2;\n`;

describe.skipIf(skip || !git)("changes", () => {
  let server: Server;
  let browser: Browser;
  let watch: Watch;
  let page: Page;
  let bin: string;

  const file = (name: string) => join(server.project, name);
  const run = (...args: string[]) =>
    execFileSync(git as string, ["-C", server.project, ...args], { encoding: "utf8" });

  beforeAll(async () => {
    bin = mkdtempSync(join(tmpdir(), "runnel-git-"));
    symlinkSync(git as string, join(bin, "git"));
    [server, browser] = await Promise.all([Server.start({ PATH: bin }), launch()]);
    const made = await newContext(browser, server);
    watch = made.watch;
    page = await made.context.newPage();
    await page.goto(server.link());
    await page.getByRole("navigation", { name: "Sessions" }).waitFor();
    writeFileSync(file("greet.ts"), before);
    run("init", "--quiet", "--initial-branch=main");
    run("config", "user.name", "Ada");
    run("config", "user.email", "ada@example.com");
    run("add", ".");
    run("commit", "--quiet", "--message", "Greet");
  });
  afterAll(async () => {
    await browser?.close();
    await server?.close();
    if (bin) rmSync(bin, { recursive: true });
  });

  /** Takes pictures in both colour schemes. */
  const look = async (name: string) => {
    for (const colorScheme of ["dark", "light"] as const) {
      await page.emulateMedia({ colorScheme });
      await expectAccessible(page);
      await shot(page, `${name}-${colorScheme}`);
    }
  };

  const bar = () => page.getByRole("region", { name: "Approval" });
  const panel = () => page.getByRole("complementary", { name: "Changes" });
  const composer = () => page.getByRole("textbox", { name: "Prompt" });
  const ends = () => page.locator("[data-row=end]").count();
  /** The lines of the diffs in an element, as "old new sign text". */
  const lines = (where: ReturnType<typeof bar>) =>
    where
      .locator(".diff-line")
      .evaluateAll((rows) =>
        rows.map((r) =>
          [".old", ".new", ".sign", ".body"]
            .map((c) => r.querySelector(c)?.textContent?.trim() ?? "")
            .join("|"),
        ),
      );

  const edit = {
    path: "greet.ts",
    kind: "update",
    edits: [{ old: '"Hello, "', new: '"Good day, "' }],
    hunks: [{ oldLines: 1, newLines: 1, lines: ['-"Hello, "', '+"Good day, "'] }],
  };
  const step = (oldText: string, newText: string) => ({
    tool: {
      name: "Edit",
      kind: "edit",
      changes: [{ path: file("greet.ts"), kind: "update", oldText, newText }],
    },
  });

  it("are reviewed before an approval, over a session, on lines, and with git", async () => {
    // Before the approval, the change has its line numbers in the file, though
    // the agent reported none.
    const id = await session(page, server, {
      steps: [{ tool: { name: "Edit", kind: "edit", arguments: {}, changes: [edit], ask: {} } }],
    });
    await page.goto(addressOf(server, id));
    await expect
      .poll(() => lines(bar()))
      .toEqual([
        "4|4||const polite = true;",
        "5|5||",
        "6|6||export function greet(who: string): string {",
        '7||−|const text = "Hello, " + who;',
        '|7|+|const text = "Good day, " + who;',
        "8|8||return polite ? text : name;",
        "9|9||}",
      ]);
    // Syntax colours arrive with a script of their own.
    await bar().locator(".syn-keyword", { hasText: "export" }).waitFor();
    await look("changes-approval");
    await bar().locator("[data-choice=deny]:enabled").click();
    await expect.poll(ends).toBe(1);

    // Two edits of a file are one diff.
    await composer().fill(JSON.stringify({ steps: [step(before, after), step(after, last)] }));
    await page.keyboard.press("Enter");
    await expect.poll(ends).toBe(2);
    writeFileSync(file("greet.ts"), last);
    writeFileSync(file("notes.txt"), "one\ntwo\n");
    await page.getByRole("button", { name: "Changes", exact: true }).click();
    const net = panel().getByRole("region", { name: "greet.ts" });
    await expect
      .poll(() => lines(net))
      .toEqual([
        "4|4||const polite = true;",
        "5|5||",
        "6|6||export function greet(who: string): string {",
        '7||−|const text = "Hello, " + who;',
        '|7|+|const text = "Good day, " + who;',
        "8|8||return polite ? text : name;",
        "9|9||}",
        "|10|+|",
        "|11|+|export const version = 2;",
      ]);
    await net.getByRole("button", { name: "Show the whole file" }).click();
    await expect.poll(async () => (await lines(net))[0]).toBe("1|1||// Greets people.");

    // A comment on a line goes into the next prompt.
    const number = net.getByRole("button", { name: "Comment on new line 11" });
    await number.hover();
    const shown = (on: typeof number, of: "::before" | "::after") =>
      on.evaluate((n, of) => {
        const { content, visibility } = getComputedStyle(n, of);
        return visibility === "visible" ? content : "";
      }, of);
    expect(await shown(number, "::before")).toBe('"+"');
    await number.focus();
    await page.keyboard.press("ArrowUp");
    expect(await shown(page.locator("button.no:focus"), "::after")).toContain("Enter: comment");
    await number.click();
    await page.getByRole("textbox", { name: "Comment on new line 11" }).fill("Say 3 here.");
    await page.getByRole("button", { name: "Add to the prompt" }).click();
    await net.getByText("Say 3 here.").waitFor();
    await look("changes-session");
    await page.reload(); // the comment is kept
    await page.getByRole("region", { name: "Comments" }).getByText("greet.ts:11").waitFor();
    await composer().fill('{"steps":[]}');
    await page.keyboard.press("Enter");
    await expect.poll(ends).toBe(3);
    const prompt = page.locator("[data-row=prompt]").last();
    await prompt.getByText("Say 3 here.").waitFor();
    expect(await prompt.locator("h2").innerText()).toBe(
      '{"steps":[]}\n\ngreet.ts:11\n> +export const version = 2;\nSay 3 here.',
    );
    await expect.poll(() => page.getByRole("region", { name: "Comments" }).count()).toBe(0);

    // Git: stage a file and commit it, revert the other one.
    await page.getByRole("button", { name: "Changes", exact: true }).click();
    await panel().getByRole("button", { name: "Git", exact: true }).click();
    await panel().getByText("main", { exact: true }).waitFor();
    await panel().getByText("Stage files to commit them here.").waitFor();
    await panel().getByRole("button", { name: "Stage greet.ts" }).click();
    const staged = panel().getByRole("region", { name: "Staged", exact: true });
    await staged.getByRole("button", { name: /^greet\.ts/ }).click();
    await expect.poll(async () => (await lines(staged)).length).toBe(9);
    await panel().getByRole("textbox", { name: "Commit message" }).fill("Greet politely");
    await look("changes-git");
    await panel().getByRole("button", { name: "Commit 1 file" }).and(page.locator(":enabled")).waitFor();
    await page.keyboard.press("Control+Enter");
    await panel()
      .getByText(/^Committed [0-9a-f]{7} to main/)
      .waitFor();
    expect(run("log", "--format=%an %s").trim()).toBe("Ada Greet politely\nAda Greet");
    expect(run("show", "HEAD:greet.ts")).toBe(last);

    await panel().getByRole("button", { name: "Revert notes.txt" }).click();
    const sure = page.getByRole("dialog", { name: "Remove notes.txt?" });
    await expect.poll(() => lines(sure)).toEqual(["|1|+|one", "|2|+|two"]);
    await shot(page, "changes-revert");
    await sure.getByRole("button", { name: "Cancel" }).click();
    expect(existsSync(file("notes.txt"))).toBe(true);
    await panel().getByRole("button", { name: "Revert notes.txt" }).click();
    // Another program changes the file after it was shown: nothing is lost.
    await expect.poll(() => lines(sure)).toEqual(["|1|+|one", "|2|+|two"]);
    writeFileSync(file("notes.txt"), "three\n");
    await sure.getByRole("button", { name: "Remove" }).click();
    await page.getByRole("alert").getByText("has changed since").waitFor();
    expect(readFileSync(file("notes.txt"), "utf8")).toBe("three\n");
    await panel().getByRole("button", { name: "Revert notes.txt" }).click();
    await expect.poll(() => lines(sure)).toEqual(["|1|+|three"]);
    await sure.getByRole("button", { name: "Remove" }).click();
    await panel().getByText("Nothing differs from the last commit.").waitFor();
    expect(existsSync(file("notes.txt"))).toBe(false);

    // On a phone, the panel fills the page.
    await page.setViewportSize({ width: 390, height: 844 });
    await panel().getByRole("button", { name: "This session" }).click();
    await expect.poll(async () => (await lines(net)).length).toBe(9);
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(390);
    await look("changes-session-phone");
    await net.getByRole("button", { name: "Comment on old line 7" }).click();
    await page.getByRole("textbox", { name: "Comment on old line 7" }).fill("Keep this.");
    await page.getByRole("button", { name: "Add to the prompt" }).click();
    writeFileSync(file("greet.ts"), after);
    await panel().getByRole("button", { name: "Git", exact: true }).click();
    await panel()
      .getByRole("button", { name: /^greet\.ts/ })
      .click();
    await expect.poll(async () => (await lines(panel())).length).toBe(5);
    await look("changes-git-phone");
    await panel().getByRole("button", { name: "Write the prompt" }).click();
    await page.getByText("greet.ts:7 (before the change)").waitFor();
    expect(await panel().count()).toBe(0);
    expectQuiet(watch);
  });
});
