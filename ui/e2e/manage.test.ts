// Tests how people manage what lies around their sessions, on a desktop and a
// phone: MCP servers at URLs, worktrees that change meanwhile, and old sessions.

import { execFileSync } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
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

const found = (name: string, dirs: string[]) => dirs.map((dir) => join(dir, name)).find((p) => existsSync(p));
const git = found("git", (process.env.PATH ?? "").split(":"));
const agents = process.env.RUNNEL_AGENTS_DIR ?? resolve(import.meta.dirname, "../../test/agents");
const claude = found("claude", [join(agents, "node_modules/.bin")]);
const noAgents = process.env.RUNNEL_SKIP_REAL_AGENTS === "1";

const sizes = {
  wide: { viewport: { width: 1440, height: 900 } },
  phone: { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true, deviceScaleFactor: 2 },
};
const walks = [
  ["wide", "light"],
  ["phone", "dark"],
] as const;

describe.skipIf(skip || !git).each(walks)("managing, %s, %s", (size, colorScheme) => {
  let server: Server;
  let browser: Browser;
  let watch: Watch;
  let page: Page;
  let bin: string;

  const run = (dir: string, ...args: string[]) =>
    execFileSync(git as string, ["-C", dir, ...args], { encoding: "utf8" });

  beforeAll(async () => {
    bin = mkdtempSync(join(tmpdir(), "runnel-bin-"));
    symlinkSync(git as string, join(bin, "git"));
    if (claude && !noAgents) symlinkSync(claude, join(bin, "claude"));
    [server, browser] = await Promise.all([Server.start({ PATH: bin, RUNNEL_MCP_WRITES: "true" }), launch()]);
    const made = await newContext(browser, server, { ...sizes[size], colorScheme });
    watch = made.watch;
    page = await made.context.newPage();
    const project = server.project;
    writeFileSync(join(project, "greet.ts"), "hello\n");
    writeFileSync(join(project, ".gitignore"), "node_modules\n");
    run(project, "init", "--quiet", "--initial-branch=main");
    run(project, "config", "user.name", "Ada");
    run(project, "config", "user.email", "ada@example.com");
    run(project, "add", ".");
    run(project, "commit", "--quiet", "--message", "Greet");
    await page.goto(server.link());
    await page.getByRole("textbox", { name: "Prompt" }).or(page.getByRole("navigation")).first().waitFor();
  });
  afterAll(async () => {
    await browser?.close();
    await server?.close();
    if (bin) rmSync(bin, { recursive: true });
  });

  const command = async (name: string) => {
    if (size === "phone") await page.getByRole("button", { name: "All commands" }).click();
    else await page.keyboard.press("Control+k");
    await page.getByRole("combobox", { name: "Find a command" }).fill(name);
    await page.getByRole("option", { name }).first().click();
  };
  /** Checks what is on the screen, and takes its picture. */
  const look = async (name: string) => {
    await shot(page, `${name}-${size}-${colorScheme}`);
    await expectAccessible(page, name);
    expect(await page.evaluate(() => document.documentElement.scrollWidth), name).toBe(
      sizes[size].viewport.width,
    );
  };
  /** Creates a session in a worktree, opens it and returns the folder. */
  const worktree = async () => {
    const before = run(server.project, "worktree", "list", "--porcelain").split("\n");
    const id = await session(page, server, { steps: [{ text: "Done." }] }, { options: { worktree: true } });
    await page.goto(addressOf(server, id));
    await page.locator("[data-row=end]").first().waitFor();
    const line = run(server.project, "worktree", "list", "--porcelain")
      .split("\n")
      .find((l) => l.startsWith("worktree ") && !before.includes(l));
    if (!line) throw new Error("there is no worktree");
    return line.slice("worktree ".length);
  };

  it.skipIf(noAgents)("adds an MCP server by its URL, and shows no secret of it", async () => {
    if (!claude) throw new Error(`Claude Code is not in ${agents}: npm ci --prefix test/agents`);
    await command("MCP servers of agents");
    const dialog = page.getByRole("dialog", { name: "MCP servers" });
    await dialog.getByRole("combobox", { name: "Agent" }).selectOption({ label: "Claude Code" });
    await dialog.getByText("This agent has no MCP servers.").waitFor();
    await dialog.getByText("Add an MCP server").click();
    await dialog.getByRole("radio", { name: "A URL" }).check();
    await dialog.getByRole("textbox", { name: "Name", exact: true }).fill("docs");
    const url = dialog.getByRole("textbox", { name: "URL", exact: true });
    await url.fill("https://ada:pw@docs.example/mcp");
    await dialog
      .getByRole("textbox", { name: "Headers, NAME: VALUE in each line" })
      .fill("Authorization: Bearer s3cr3t-4711");
    await look("mcp-url");
    const add = dialog.getByRole("button", { name: "Add", exact: true });
    await add.click();
    await dialog.getByText("must not contain a user name or password").waitFor();
    await url.fill("https://docs.example/mcp?key=k3y-0815");
    await add.click();
    const row = dialog.getByRole("listitem");
    await row.getByText("https://docs.example · over HTTP · sends Authorization").waitFor();
    await look("mcp-url-added");
    expect(await page.content()).not.toMatch(/s3cr3t-4711|k3y-0815/);
    const stored = JSON.parse(readFileSync(join(server.project, "..", ".claude.json"), "utf8"));
    expect(stored.mcpServers.docs).toEqual({
      type: "http",
      url: "https://docs.example/mcp?key=k3y-0815",
      headers: { Authorization: "Bearer s3cr3t-4711" },
    });
    await row.getByRole("button", { name: "Remove docs" }).click();
    await dialog.getByText("This agent has no MCP servers.").waitFor();
    await page.keyboard.press("Escape");
  });

  it("neither merges nor discards a worktree that has changed since it was seen", async () => {
    const root = await worktree();
    writeFileSync(join(root, "greet.ts"), "good day\n");
    await command("Changes");
    const panel = page.getByRole("complementary", { name: "Changes" });
    await panel.getByRole("button", { name: "Git" }).click();
    const tree = panel.getByRole("region", { name: "Worktree" });
    await tree.getByText("1 file not committed").waitFor();
    await tree.getByRole("button", { name: "Merge" }).click();
    const merge = page.getByRole("dialog", { name: "Merge into main?" });
    await merge.getByText("greet.ts").waitFor();
    writeFileSync(join(root, "greet.ts"), "bad day\n");
    await merge.getByRole("textbox", { name: "Commit message" }).fill("Be polite");
    await merge.getByRole("button", { name: "Commit and merge" }).click();
    const changed = page.getByText(/has changed since you looked at it/).first();
    await changed.waitFor();
    await look("worktree-changed");
    expect(readFileSync(join(server.project, "greet.ts"), "utf8")).toBe("hello\n");

    await tree.getByRole("button", { name: "Remove" }).click();
    const remove = page.getByRole("dialog", { name: "Remove the worktree?" });
    await remove.getByRole("checkbox").check();
    writeFileSync(join(root, "later.ts"), "later\n");
    await remove.getByRole("button", { name: "Discard and remove" }).click();
    await tree.getByText("2 files not committed").waitFor();
    await changed.waitFor();
    expect(existsSync(join(root, "later.ts"))).toBe(true);

    await tree.getByRole("button", { name: "Merge" }).click();
    await merge.getByRole("textbox", { name: "Commit message" }).fill("Be impolite");
    await merge.getByRole("button", { name: "Commit and merge" }).click();
    await panel.getByRole("status").getByText("Merged 1 commit into main.").waitFor();
    expect(readFileSync(join(server.project, "greet.ts"), "utf8")).toBe("bad day\n");
  });

  it("shows what retention deletes, and what becomes of the worktrees", async () => {
    const ignored = await worktree();
    mkdirSync(join(ignored, "node_modules"));
    writeFileSync(join(ignored, "node_modules", "pad.js"), "");
    const work = await worktree();
    writeFileSync(join(work, "draft.ts"), "draft\n");
    await command("Old sessions that are deleted");
    const dialog = page.getByRole("dialog", { name: "Old sessions" });
    await dialog.getByText("The settings delete no session.").waitFor();
    await dialog.getByRole("spinbutton").fill("0.000001");
    await dialog.getByRole("button", { name: "Show", exact: true }).click();
    await dialog.getByText("3 sessions would be deleted").waitFor();
    const row = (root: string) => dialog.getByRole("listitem").filter({ hasText: root });
    await row(ignored).getByText("with the files that git ignores: node_modules/.").waitFor();
    await row(work).getByText("1 file not committed").waitFor();
    await row(work)
      .getByText(/It stays\. .*draft\.ts/)
      .waitFor();
    await look("retention");
    expect(existsSync(ignored)).toBe(true);
    await page.keyboard.press("Escape");
    server.command("retention", "--older-than", "1ms", "--apply");
    expect([existsSync(ignored), existsSync(join(work, "draft.ts"))]).toEqual([false, true]);
    expectQuiet(watch);
  });
});
