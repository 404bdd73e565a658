// Tests how people start a session in its own git worktree, merge it and remove
// it.

import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { chooseFolder, expectAccessible, expectQuiet, launch, newContext, skip, type Watch } from "./browser";
import { Server } from "./server";

const path = (process.env.PATH ?? "").split(":").map((dir) => join(dir, "git"));
const git = path.find((p) => existsSync(p));

describe.skipIf(skip || !git)("worktree", () => {
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
    writeFileSync(file("greet.ts"), "hello\n");
    run("init", "--quiet", "--initial-branch=main");
    run("config", "user.name", "Ada");
    run("config", "user.email", "ada@example.com");
    run("add", ".");
    run("commit", "--quiet", "--message", "Greet");
    await page.goto(server.link());
    await page.getByRole("navigation", { name: "Sessions" }).waitFor();
  });
  afterAll(async () => {
    await browser?.close();
    await server?.close();
    if (bin) rmSync(bin, { recursive: true });
  });

  const panel = () => page.getByRole("complementary", { name: "Changes" });
  const worktree = () => panel().getByRole("region", { name: "Worktree" });
  const status = () => panel().getByRole("status");

  it("starts a session in its own worktree", async () => {
    await chooseFolder(page, server.project);
    const choice = page.getByRole("button", { name: "In its own worktree" });
    expect(await choice.getAttribute("aria-pressed")).toBe("false");
    await choice.click();
    expect(await choice.getAttribute("aria-pressed")).toBe("true");
    await expectAccessible(page);
    await page.getByRole("textbox", { name: "Prompt" }).fill('{"steps":[{"text":"Done."}]}');
    await page.getByRole("button", { name: "Send" }).click();
    await page.locator("[data-row=end]").first().waitFor();
    expect(run("worktree", "list")).toContain("[runnel/");
  });

  /** The folder of the worktree. */
  const root = () => {
    const found = /^worktree (.*-worktrees.*)$/m.exec(run("worktree", "list", "--porcelain"))?.[1];
    if (!found) throw new Error("there is no worktree");
    return found;
  };

  it("merges what the agent did, with a message for what is not committed", async () => {
    writeFileSync(join(root(), "greet.ts"), "good day\n");
    await page.keyboard.press("Escape");
    await page
      .getByRole("button", { name: /Changes/ })
      .first()
      .click();
    await panel().getByRole("button", { name: "Git" }).click();
    await worktree().getByText("1 file not committed").waitFor();
    await expectAccessible(page);
    await worktree().getByRole("button", { name: "Merge" }).click();
    const dialog = page.getByRole("dialog", { name: "Merge into main?" });
    await dialog.getByText("greet.ts").waitFor();
    const merge = dialog.getByRole("button", { name: "Commit and merge" });
    expect(await merge.isDisabled()).toBe(true);
    await dialog.getByRole("textbox", { name: "Commit message" }).fill("Be polite");
    await merge.click();
    await status().getByText("Merged 1 commit into main.").waitFor();
    expect(readFileSync(file("greet.ts"), "utf8")).toBe("good day\n");
    expect(run("log", "-1", "--format=%an %s").trim()).toBe("Ada Be polite");
    expect(await worktree().getByRole("button", { name: "Merge" }).isDisabled()).toBe(true);
  });

  it("removes the worktree, but no work that is not to be discarded", async () => {
    writeFileSync(join(root(), "draft.ts"), "draft\n");
    const remove = () => worktree().getByRole("button", { name: "Remove" }).click();
    const dialog = page.getByRole("dialog", { name: "Remove the worktree?" });
    await remove();
    await dialog.getByRole("button", { name: "Remove", exact: true }).click();
    await page
      .getByText(/would lose .*draft\.ts/)
      .first()
      .waitFor();
    expect(existsSync(join(root(), "draft.ts"))).toBe(true);
    await remove();
    await dialog.getByRole("checkbox").check();
    await dialog.getByRole("button", { name: "Discard and remove" }).click();
    await worktree().getByText("The worktree was removed.").waitFor();
    expect(root).toThrow("there is no worktree");
    expect(run("branch", "--list", "runnel/*")).toBe("");
    expectQuiet(watch);
  });
});
