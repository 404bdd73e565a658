// Tests how people work with the page, with real agents and a scripted model.
// TestWorkWithRealAgentsInABrowser in test/e2e runs this file.

import { existsSync, mkdirSync, readdirSync, readFileSync, realpathSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import {
  addressOf,
  expectAccessible,
  expectQuiet,
  launch,
  newContext,
  session,
  shot,
  type Watch,
} from "./browser";
import { Server } from "./server";

interface Work {
  agents: string[];
  project: string;
  env: string[]; // "NAME=value", environment of the agents
  gates: string; // a URL that, with the name of a gate at its end, lets the model continue
}

const work: Work = JSON.parse(process.env.RUNNEL_WORK ?? '{"agents":[],"project":"","env":[],"gates":""}');
const env: Record<string, string> = Object.fromEntries(work.env.map((e) => e.split(/=(.*)/s).slice(0, 2)));
const has = (agent: string) => work.agents.includes(agent);

// A prompt that holds the model's answers, one step for each request to it.
const play = (...steps: object[]) => `go <<play ${JSON.stringify({ steps })}>>`;
const call = (name: string, input: object | string) => ({ blocks: [{ type: "tool_use", name, input }] });
const run = (command: string) => call("Bash", { command, description: "Run it" });

describe.skipIf(work.agents.length === 0)("work with real agents", () => {
  let server: Server;
  let browser: Browser;
  let watch: Watch;
  let page: Page;

  beforeAll(async () => {
    [server, browser] = await Promise.all([Server.start(env, work.project), launch()]);
    const made = await newContext(browser, server);
    watch = made.watch;
    page = await made.context.newPage();
    await page.goto(server.link());
    await page.getByRole("navigation", { name: "Sessions" }).waitFor();
    writeFileSync(join(work.project, "notes.txt"), "a line\n".repeat(300));
  });
  afterAll(async () => {
    await browser?.close();
    await server?.close();
  });
  afterEach(() => expectQuiet(watch));

  const composer = () => page.getByRole("textbox", { name: "Prompt" });
  const stream = () => page.getByRole("region", { name: "Conversation" });
  const bar = () => page.getByRole("region", { name: "Approval" });
  const ends = () => page.locator("[data-row=end]").count();
  const send = async (prompt: string) => {
    await composer().fill(prompt);
    await page.keyboard.press("Enter");
  };
  const allow = () => bar().locator("[data-choice=allow_once]:enabled").first().click();
  const open = async (cliType: string, options: object = {}) => {
    const id = await session(page, server, undefined, { cliType, options });
    await page.goto(addressOf(server, id));
    await composer().waitFor();
    return id;
  };

  describe.skipIf(!has("claude-code"))("the end of the conversation", () => {
    const gap = () => stream().evaluate((e) => e.scrollHeight - e.scrollTop - e.clientHeight);
    const atEnd = async () => {
      const away = page.getByRole("button", { name: /^(To the end|\d+ new)$/ });
      await expect.poll(async () => [(await gap()) < 2, await away.count()]).toEqual([true, 0]);
    };
    /**
     * Waits until the nth prompt is in view. The page checks for it in every
     * frame, because the answer soon moves it.
     */
    const seen = (n: number) =>
      page.waitForFunction((n) => {
        const text = document.querySelectorAll("[data-row=prompt]")[n]?.querySelector("h1, h2, h3, h4");
        const [box, all] = [text, text?.closest("section")].map((x) => x?.getBoundingClientRect());
        return box !== undefined && all !== undefined && box.bottom > all.top && box.top < all.bottom;
      }, n);
    /**
     * Plays a turn. Its prompt must be visible after it is sent and before the
     * model answers, and its end must be visible once the turn has ended.
     */
    const turn = async ({ prompt, asked = 0 }: Kind) => {
      const before = await ends();
      const hold = `turn ${++turns}`;
      await Promise.all([seen(before), send(prompt({ hold }))]);
      const opened = await fetch(work.gates + encodeURIComponent(hold), { method: "POST" });
      expect(opened.status).toBe(204);
      for (let i = 0; i < asked; i++) {
        await page
          .locator("[data-approval]")
          .nth(before * asked + i)
          .waitFor();
        await bar().waitFor();
        await atEnd();
        await allow();
      }
      await expect.poll(ends).toBe(before + 1);
      await atEnd();
    };

    interface Kind {
      prompt: (first: object) => string; // makes the prompt, given the beginning of its first step
      asked?: number;
      image?: boolean;
    }
    let turns = 0;
    const code = `\`\`\`ts\n${"export const a = 1; // and so on\n".repeat(60)}\`\`\`\n\n`;
    const paragraphs = "A paragraph of some length that is wrapped over the lines of the page. ".repeat(6);
    const coding: Kind = { prompt: (first) => play({ ...first, text: code.repeat(3), pace: 1000 }) };
    const kinds: Record<string, Kind> = {
      "long outputs": {
        prompt: (first) =>
          play({
            ...first,
            blocks: [{ type: "text", text: `${paragraphs}\n\n`, repeat: 20 }],
            pace: 1000,
          }),
      },
      "tool calls": {
        prompt: (first) =>
          play(
            { ...first, ...run("cat notes.txt") },
            ...Array.from({ length: 8 }, () => run("cat notes.txt")),
            { text: paragraphs },
          ),
      },
      code: coding,
      images: { prompt: (first) => play({ ...first, text: paragraphs.repeat(10) }), image: true },
      approvals: {
        prompt: (first) =>
          play(
            { ...first, text: paragraphs.repeat(6), ...run("touch one") },
            { text: paragraphs.repeat(6), ...run("touch two") },
            { text: paragraphs },
          ),
        asked: 2,
      },
    };
    // Without RUNNEL_LONG, a later turn follows in the first of the sessions, and
    // after the last of them.
    const often = (name: string) => (process.env.RUNNEL_LONG === "1" || name === "long outputs" ? 2 : 1);
    it.each(Object.entries(kinds))("is kept in a session of %s", async (name, kind) => {
      await open("claude-code");
      for (let i = 0; i < often(name); i++) {
        if (kind.image)
          await page
            .getByLabel("Attach files")
            .setInputFiles({ name: "dot.png", mimeType: "image/png", buffer: dot });
        if (kind.image)
          await page.getByRole("button", { name: "Send" }).and(page.locator(":enabled")).waitFor();
        await turn(kind);
      }
      await shot(page, `end-${name}`);
    });

    // Uses the session of the previous test: loads its history and reads above
    // the end.
    it("is where a loaded history begins, and where a prompt leads that is sent from above", async () => {
      await page.reload();
      await page.locator("[data-row=end]").last().waitFor();
      await atEnd();
      await stream().hover();
      await page.mouse.wheel(0, -900);
      await page.getByRole("button", { name: "To the end" }).waitFor();
      await turn(coding);
    });
  });

  describe.skipIf(!has("claude-code"))("an approval", () => {
    const precious = join(work.project, "precious");
    const asks = { firstDelayMs: 1500, ...run("rm -rf precious") };

    it("is not given by what is typed into the composer", async () => {
      await open("claude-code");
      writeFileSync(precious, "");
      await send(play(asks, { text: "Done." }));
      await page.getByRole("button", { name: "Stop" }).waitFor();
      // Type digits before the question appears, while it appears, and
      // afterwards.
      let typed = "";
      while (!(await bar().count())) {
        await page.keyboard.press("1");
        typed += "1";
      }
      for (let i = 0; i < 10; i++) {
        await page.keyboard.press("1");
        typed += "1";
      }
      expect(await composer().inputValue()).toBe(typed);
      await composer().fill("");
      await bar().locator("[data-choice=allow_once]:enabled").waitFor();
      await page.keyboard.type("1. please");
      expect(await composer().inputValue()).toBe("1. please");
      await bar().locator("[data-choice=allow_once]:enabled").waitFor();
      await shot(page, "approval-while-typing");
      await bar().locator("[data-choice=deny]").click();
      await expect.poll(ends).toBe(1);
      expect(await page.getByText("denied by you").count()).toBe(1);
      expect(existsSync(precious)).toBe(true);
    });

    it("stays away from a narrow page’s composer, which keeps what is typed", async () => {
      await page.setViewportSize({ width: 390, height: 844 });
      await composer().fill("");
      await composer().focus();
      await send(play(asks, { text: "Done." }));
      await bar().waitFor();
      await bar().locator("[data-choice=allow_once]:enabled").waitFor();
      await page.keyboard.type("1");
      expect(await composer().inputValue()).toBe("1");
      await shot(page, "approval-while-typing-narrow");
      await bar().locator("[data-choice=deny]:enabled").click();
      await expect.poll(ends).toBe(2);
      expect(existsSync(precious)).toBe(true);
      await page.setViewportSize({ width: 1440, height: 900 });
    });
  });

  describe.skipIf(!has("claude-code"))("the conversation", () => {
    const one = async (prompt: string) => {
      const before = await ends();
      await send(prompt);
      await expect.poll(ends).toBe(before + 1);
    };
    const says = (row: string) => page.locator(`[data-row=${row}]`).allInnerTexts();

    it("shows what the agent’s commands print as Markdown, once, and that it has forgotten", async () => {
      await open("claude-code");
      await one(play({ text: "One." }));
      await one("/context");
      await one("/compact");
      const tables = await page.locator("[data-row=prose] table").count();
      expect(tables).toBeGreaterThan(0);
      expect((await says("prose")).join("\n")).not.toContain("|--");
      expect((await says("prose")).filter((t) => t.includes("Context Usage")).length).toBe(1);
      await one("/clear");
      await page.getByText("does not remember anything above this line").waitFor();
      await shot(page, "context-and-clear");
      await page.reload();
      await page.getByText("does not remember anything above this line").waitFor();
      expect(await page.locator("[data-row=prose] table").count()).toBe(tables);
    });

    let planning = "";
    it("shows the plan that is to be approved, though the question has none", async () => {
      planning = await open("claude-code", { permissionMode: "plan" });
      await send(
        play(call("ExitPlanMode", { plan: "## Steps\n\n1. Remove the cellar." }), { text: "Refused." }),
      );
      await bar().locator("li", { hasText: "Remove the cellar." }).waitFor();
      await shot(page, "plan");
      await bar().locator("[data-choice=deny]:enabled").click();
      await expect.poll(ends).toBe(1);
    });

    // Uses the session of the previous test.
    it("counts a plan that the agent wrote for itself as no changed file", async () => {
      await one(play({ text: "Planning." }));
      const path = join(env.CLAUDE_CONFIG_DIR ?? "", "plans", `${await slug(planning)}.md`);
      const write = call("Write", { file_path: path, content: "# The plan\n1. Do it.\n" });
      await send(play(write, call("ExitPlanMode", {}), { text: "Planned." }));
      await bar().locator("li", { hasText: "Do it." }).waitFor();
      await bar().locator("[data-choice=deny]:enabled").click();
      await expect.poll(ends).toBe(3);
      await page.locator("[data-row=prose]", { hasText: "Planned." }).waitFor();
      expect(await page.getByRole("button", { name: /changed/ }).count()).toBe(0);
      await page.getByRole("button", { name: "Details" }).click();
      await page.getByText("None so far.").waitFor();
      await shot(page, "plan-file");
    });

    // Returns the name that the agent gave to the plan of a conversation, from
    // the files that it stores.
    const slug = async (id: string) => {
      const { agentSessionId } = await page.evaluate(
        async (id) =>
          (
            await fetch(`/api/session/${id}/status`, {
              headers: { "Runnel-Key": localStorage.getItem("runnel.key") ?? "" },
            })
          ).json(),
        id,
      );
      const projects = join(env.CLAUDE_CONFIG_DIR ?? "", "projects");
      const file = readdirSync(projects, { recursive: true, encoding: "utf8" }).find((f) =>
        f.endsWith(`${agentSessionId}.jsonl`),
      );
      return /"slug":"([^"]+)"/.exec(readFileSync(join(projects, file ?? ""), "utf8"))?.[1];
    };

    it("tries again with the files of a prompt", async () => {
      await open("claude-code");
      await page
        .getByLabel("Attach files")
        .setInputFiles({ name: "dot.png", mimeType: "image/png", buffer: dot });
      await page.getByRole("button", { name: "Send" }).and(page.locator(":enabled")).waitFor();
      await one(play({ fail: { status: 400, message: "the model has a cold" } }));
      await page.getByRole("button", { name: "Try again", exact: true }).click();
      await expect.poll(ends).toBe(2);
      // Both prompts show the image itself, not only its name.
      const images = page.locator("[data-row=prompt]").getByRole("img", { name: "dot.png" });
      await expect.poll(() => images.count()).toBe(2);
      const widths = () => images.evaluateAll((all) => all.map((i) => (i as HTMLImageElement).naturalWidth));
      await expect.poll(widths).toEqual([1, 1]);
    });

    // Uses the session of the previous test.
    it("keeps the words of a subagent in the background apart from the agent’s", async () => {
      const beside = `Beside ${play({ firstDelayMs: 2500, text: "Beside is done." }).slice(3)}`;
      const input = {
        description: "Look around",
        prompt: beside,
        run_in_background: true,
        subagent_type: "general-purpose",
      };
      await send(play(call("Agent", input), { text: "It runs." }));
      const thread = page.locator("[data-row=thread]");
      await thread.waitFor();
      expect(await thread.innerText()).toContain("Look around");
      expect((await says("prose")).filter((t) => t.includes("Beside is done."))).toEqual([]);
      await thread.getByRole("button").click();
      await page.locator("[data-row=prose]", { hasText: "Beside is done." }).waitFor();
      await shot(page, "subagent");
    });
  });

  describe.skipIf(!has("claude-code"))("a sandbox", () => {
    it("asks which hosts its programs may reach", async () => {
      const allow = [`localhost:${new URL(env.ANTHROPIC_BASE_URL as string).port}`];
      await open("claude-code", { sandbox: "project", egress: { mode: "ask", allow } });
      const reach = (host: string) =>
        run(
          `bash -c 'p=\${HTTPS_PROXY#http://}; exec 3<>/dev/tcp/\${p%:*}/\${p#*:}; printf "CONNECT ${host}:443 HTTP/1.1\\r\\nHost: ${host}:443\\r\\n\\r\\n" >&3; head -n 1 <&3'`,
        );
      const asks = (what: string) => bar().getByText(what).waitFor();
      const card = (text: string) => stream().locator("[data-approval]", { hasText: text });
      await send(
        play(reach("denied.invalid"), reach("always.invalid"), reach("always.invalid"), { text: "Over." }),
      );

      await asks("Run this command?");
      await bar().locator("[data-choice=allow_once]:enabled").first().click();
      await asks("Reach denied.invalid:443");
      await card("Reach denied.invalid:443: waiting for your answer").waitFor();
      await shot(page, "reach");
      await bar().locator("[data-choice=deny]:enabled").click();
      await card("Reach denied.invalid:443: denied by you").waitFor();

      await asks("Run this command?");
      await bar().locator("[data-choice=allow_once]:enabled").first().click();
      await asks("Reach always.invalid:443");
      await bar().getByRole("button", { name: "Always allow in this project…" }).click();
      const rule = bar().locator('[data-rule="always.invalid:443"]');
      expect(await rule.innerText()).toBe("Always allow connections to always.invalid:443");
      await rule.click();
      await card("Stored as rule 1.").waitFor();

      await asks("Run this command?"); // the rule answers for the host
      await bar().locator("[data-choice=allow_once]:enabled").first().click();
      await expect.poll(ends).toBe(1);
      expect(await card("Reach always.invalid:443").count()).toBe(1);
      expect(server.command("rules", "list")).toContain("always.invalid:443");
    });

    it("shows what its programs could not read, and reads it once a person has allowed that", async () => {
      const outside = join(realpathSync(dirname(work.project)), "outside");
      mkdirSync(outside);
      const file = join(outside, "data.txt");
      writeFileSync(file, "text of the file\n");
      const allow = [`localhost:${new URL(env.ANTHROPIC_BASE_URL as string).port}`];
      await open("claude-code", { sandbox: "project", egress: { allow } });
      /** Plays a turn that reads the file, and returns what its command printed. */
      const read = async (ended: number) => {
        await send(play(run(`cat '${file}'`), { text: "Over." }));
        const asked = bar().locator("[data-choice=allow_once]:enabled").first();
        const end = page.locator("[data-row=end]").nth(ended - 1);
        await asked.or(end).first().waitFor();
        if (await asked.count()) await asked.click();
        await end.waitFor();
        const row = page.locator("[data-row=tool]").last();
        if (!(await row.locator("[data-terminal]").count())) await row.getByRole("button").first().click();
        return row.locator("[data-terminal]").innerText();
      };
      expect(await read(1)).not.toContain("text of the file");

      await page.getByRole("button", { name: "Details" }).click();
      const details = page.getByRole("complementary", { name: "Details" });
      const panel = details.getByRole("region", { name: "Outside the sandbox" });
      const denied = panel.getByRole("listitem").filter({ hasText: file });
      expect(await denied.locator("p").first().innerText()).toBe(`Read ${file} by Bash`);
      await expectAccessible(page);
      await denied.getByRole("button", { name: "Allow in this session" }).click();
      await panel.getByRole("status").getByText("The agent was stopped.").waitFor();
      await denied.waitFor({ state: "detached" });
      const rule = details.getByRole("listitem").filter({ hasText: "for this session" });
      expect(await rule.innerText()).toContain(file);
      await shot(page, "denials");
      expect(await read(2)).toContain("text of the file");

      await rule.getByRole("button", { name: /^Remove rule / }).click();
      await rule.waitFor({ state: "detached" });
      expect(await read(3)).not.toContain("text of the file");
    });
  });

  describe.skipIf(!has("codex"))("settings", () => {
    const pills = async () => {
      const form = page.getByRole("form", { name: "Prompt" });
      await form.getByRole("combobox", { name: "Reasoning effort" }).waitFor();
      const all = form.locator("select, button[aria-haspopup=dialog]");
      return all.evaluateAll((es) =>
        es.map((e) => (e instanceof HTMLSelectElement ? e.value : e.getAttribute("aria-label"))),
      );
    };

    it("say what a mode does with this agent", async () => {
      await page.goto(`${server.origin}/?new`);
      await page.getByRole("button", { name: /^Agent: / }).click();
      const row = page.locator('[data-agent="codex"]');
      await expect.poll(() => row.getAttribute("data-state")).toBe("ready");
      await row.getByRole("radio").check();
      await page.getByRole("button", { name: "Close" }).click();
      const modes = await page.getByLabel("Permissions").locator("option").allInnerTexts();
      expect(modes).toContain("Ask only outside the project");
      expect(modes).not.toContain("Ask first");
      await shot(page, "modes");
    });

    it("are the same after the server was started anew", async () => {
      const { agents } = await page.evaluate(async () =>
        (
          await fetch("/api/agents", { headers: { "Runnel-Key": localStorage.getItem("runnel.key") ?? "" } })
        ).json(),
      );
      const codex = agents.find((a: { cliType: string }) => a.cliType === "codex");
      const option = (id: string) => codex.config.find((o: { id: string }) => o.id === id);
      const other = (id: string) =>
        option(id).choices.find((c: { value: string }) => c.value !== option(id).value)?.value;
      await open("codex", { model: other("model"), reasoningEffort: "low" });
      await send(play({ text: "Here." }));
      await expect.poll(ends).toBe(1);
      const before = await pills();
      expect(before.join()).toContain("low");
      await server.stop();
      await server.start();
      await page.reload();
      await expect.poll(ends).toBe(1);
      await expect.poll(pills).toEqual(before);
      await shot(page, "pills-after-restart");
      watch.errors.length = 0; // errors of the connection while the server was down
    });
  });
});

const dot = Buffer.from(
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
  "base64",
);
