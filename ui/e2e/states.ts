// Leads a page through its states, for screenshots and for checks of each.

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { addressOf, session } from "./browser";
import type { Server } from "./server";

/** Called in each state, with a name for it. */
export type Visit = (name: string) => Promise<void>;

export interface Walk {
  page: Page;
  server: Server;
  phone: boolean;
  visit: Visit;
}

/** Opens a session with a prompt, and waits for something in it. */
async function open({ page, server }: Walk, prompt: string | object, state: string): Promise<string> {
  const id = await session(page, server, prompt);
  await page.goto(addressOf(server, id));
  await page.locator(state).last().waitFor();
  return id;
}

/** Runs a command of the palette, which a phone has no other button for. */
async function run(w: Walk, name: string) {
  const { page } = w;
  await openPalette(w);
  await page.getByRole("combobox", { name: "Find a command" }).fill(name);
  await page.getByRole("option", { name }).first().click();
}

async function openPalette({ page, phone }: Walk) {
  if (phone) await page.getByRole("button", { name: "All commands" }).click();
  else await page.keyboard.press("Control+k");
}

const close = async (page: Page) => {
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });
};

/** From the login to an approved turn and what belongs to it. */
export async function turn(w: Walk) {
  const { page, server, phone, visit } = w;
  await page.goto(`${server.origin}/`);
  await page.getByRole("heading", { level: 1 }).waitFor();
  await visit("login");
  await page.goto(server.link());
  await page.getByRole("heading", { name: "first session" }).waitFor();
  await visit("empty");
  await open(w, "demo: greet the world when there is no name", "[data-approval-bar]");
  await visit("approval");
  await page.goto(`${server.origin}/${phone ? "?list" : ""}`);
  await page.getByRole("heading", { name: "Needs you" }).first().waitFor();
  await visit("list");
  await page.goBack();
  await allowAll(page);
  await visit("turn");
  await run(w, "Session details");
  await page.getByRole("complementary", { name: "Details" }).getByText("New input").waitFor();
  await page.getByText("By turn").click();
  await visit("details");
  await page.getByRole("button", { name: "Raw events" }).click();
  await page.locator("[data-event]").first().locator("summary").click();
  await visit("events");
  await close(page);
  await page.getByRole("button", { name: "Close details" }).click();
  await page
    .getByRole("button", { name: /changed/ })
    .last()
    .click();
  await page.getByRole("dialog").locator(".diff-line").first().waitFor();
  await visit("diff");
  await close(page);
  await openPalette(w);
  await page.getByRole("dialog").getByRole("option").first().waitFor();
  await visit("commands");
  await close(page);
}

/** An answer with everything that Markdown can have, and a file. */
export async function reading(w: Walk) {
  const { page, server, visit } = w;
  const at = (name: string) => join(server.project, name);
  mkdirSync(at("docs"), { recursive: true });
  writeFileSync(at("greet.go"), program);
  writeFileSync(at("docs/picture.png"), picture);
  await open(w, { steps: [{ text: answer }] }, "[data-row=end]");
  await page.locator("iframe[data-drawn]").waitFor();
  await page.getByRole("img", { name: "a picture" }).waitFor();
  await page.locator(".code-head").first().scrollIntoViewIfNeeded();
  await visit("answer");
  await page.locator("iframe").scrollIntoViewIfNeeded();
  await visit("diagram");
  await page.getByRole("button", { name: "greet.go:12", exact: true }).click();
  await page.locator("[data-line] .syn-keyword").first().waitFor();
  await visit("viewer");
  await close(page);
}

/** Tools, settings, forms, questions and agents. */
export async function forms(w: Walk) {
  const { page, server, visit } = w;
  await open(w, "tools of every kind", "[data-row=end]");
  const folded = page.locator("[data-row=tool] button[aria-expanded=false]");
  while (await folded.count()) await folded.first().click();
  await visit("tools");
  await open(w, "terminal", "[data-row=end]");
  await page.locator("[data-row=tool]").first().getByRole("button").first().click();
  await page.locator("pre.terminal").scrollIntoViewIfNeeded();
  await visit("terminal");
  await open(w, "settings", "[data-row=end]");
  await page.getByRole("button", { name: "Settings" }).click();
  await visit("settings");
  await page.getByRole("button", { name: "Model: River 1" }).last().click();
  await visit("models");
  await open(w, "form", "[data-approval-bar]");
  await page.getByRole("button", { name: "Send" }).and(page.locator(":enabled")).click();
  await visit("form");
  await page.getByRole("button", { name: "Decline" }).click();
  await page.getByRole("link", { name: "cloud.example" }).waitFor();
  await visit("page-to-visit");
  await open(w, "question", "[data-approval-bar]");
  await visit("question");
  await page.getByRole("button", { name: "SQLite" }).and(page.locator(":enabled")).click();
  await page.getByRole("radio").first().waitFor();
  await visit("questions");
  await page.route("**/api/agents*", (r) => r.fulfill({ json: { agents: sampleAgents } }));
  await page.goto(`${server.origin}/?new`);
  await page.getByRole("button", { name: /^Agent: / }).click();
  await page.getByRole("button", { name: "Check again" }).click();
  await page.getByText("checking…").first().waitFor();
  await visit("agents");
  await page.keyboard.press("Escape");
  await page.route("**/api/agents/*/mcp", (r) =>
    r.fulfill({ json: { servers: sampleServers, writes: true } }),
  );
  await run(w, "MCP servers of agents");
  await page.getByRole("dialog", { name: "MCP servers" }).getByRole("listitem").first().waitFor();
  const add = page.getByText("Add an MCP server");
  if (await add.count()) await add.click(); // only an admin can
  await visit("mcp-servers");
  await close(page);
  await page.unroute("**/api/agents/*/mcp");
  await page.unroute("**/api/agents*");
}

/** Settings of the page, failures, a queue, and a server that is gone. */
export async function trouble(w: Walk) {
  const { page, server, visit } = w;
  await open(w, "fail to deploy", "[data-row=end]");
  await visit("failed");
  await page.keyboard.press("?");
  await visit("keys");
  await close(page);
  await run(w, "Rename, export or delete");
  await visit("session-menu");
  await close(page);
  await run(w, "Changes");
  await page.getByRole("complementary", { name: "Changes" }).waitFor();
  await visit("changes");
  const id = await open(w, "hang on", "[data-row=working]");
  const composer = page.getByRole("textbox", { name: "Prompt", exact: true });
  await composer.fill("and then add a test for the empty name");
  await page.getByRole("button", { name: "Queue" }).click();
  await page.locator("[data-queued]").waitFor();
  await visit("queue");
  await page.goto(`${server.origin}/?list`);
  await page.locator("[data-session]").first().waitFor();
  await page.getByRole("button", { name: "Devices" }).click();
  await page.getByText("this device").waitFor();
  await visit("devices");
  const audit = page.getByRole("button", { name: "Open the audit log" });
  if (await audit.count()) {
    await audit.click();
    await page.getByRole("button", { name: "Verify the log" }).click();
    await page.getByText("none is missing").waitFor();
    await visit("audit");
  }
  await close(page);
  await page.getByRole("button", { name: "Notifications" }).click();
  await page.getByRole("dialog").waitFor();
  await visit("notifications");
  await close(page);
  await page.goto(addressOf(server, id));
  await page.locator("[data-row=working]").waitFor();
  await server.kill();
  await page.getByRole("status").filter({ hasText: "Reconnecting" }).waitFor();
  await visit("reconnecting");
}

const program = `package greet

import "fmt"

// Hello greets name, or the world if it is empty.
func Hello(name string) string {
	if name == "" {
		name = "world"
	}
	return fmt.Sprintf("Hello, %s!", name)
}

// Long has a comment that is much longer than the lines of a phone, and longer than the others.
func Long() string { return Hello("a name that is as long as the comment above it, for a line that scrolls") }
`;

const picture = Buffer.from(
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
  "base64",
);

const answer = `# The greeting

\`Hello\` is in \`greet.go:12\`; the long one is in greet.go:14. It has three parts:

1. the **name**, which may be empty,
2. the *greeting* itself,
3. and [the documentation](https://go.dev/doc).

| Case | Before | After | Tested by |
|:--|:--|:--|--:|
| no name | \`hello \` | \`Hello, world!\` | 3 |
| a name | \`hello Ada\` | \`Hello, Ada!\` | 12 |

> Nothing else calls it.

- [x] greets the world
- [ ] greets in other languages

\`\`\`go
func Hello(name string) string {
	return "Hello, " + name + "!" // a line that is long enough to be wider than a phone
}
\`\`\`

![a picture](docs/picture.png)

\`\`\`mermaid
graph LR
  Page[The page] --> Server
  Server --> Agent
  Agent -->|asks| Server
\`\`\`

## And then

That was all.`;

// Agents in every state. The agents of this machine would make the screenshots
// differ between machines.
const sampleAgents = [
  {
    cliType: "brook",
    displayName: "Brook Code",
    installed: true,
    loggedIn: true,
    version: "2.1.197",
    models: [{ id: "small", name: "Small" }],
    modes: ["default", "acceptEdits", "plan"],
  },
  {
    cliType: "delta",
    displayName: "Delta",
    installed: true,
    loggedIn: false,
    version: "0.169.0",
    login: "delta login --device",
  },
  {
    cliType: "mere",
    displayName: "Mere CLI",
    checking: true,
    install: "npm install -g @mere/cli",
    login: "mere",
  },
  ...["Pond", "Tarn", "Loch", "Fen"].map((n) => ({
    cliType: n.toLowerCase(),
    displayName: n,
    install: `npm install -g ${n.toLowerCase()}`,
    problem: `${n} is not on the PATH.`,
  })),
  { cliType: "script", displayName: "Script", installed: true, loggedIn: true, version: "built in" },
];

const sampleServers = [
  {
    name: "tickets",
    transport: "stdio",
    enabled: true,
    command: "/opt/tickets/bin/a-server-with-a-long-path",
    arguments: 2,
    env: ["TICKETS_TOKEN"],
  },
  {
    name: "docs",
    transport: "http",
    enabled: false,
    url: "https://docs.example",
    headers: ["Authorization"],
  },
];

async function allowAll(page: Page) {
  while (!(await page.locator("[data-row=end]").count())) {
    await page.locator("[data-row=end], [data-choice=allow_once]:enabled").first().waitFor();
    await page
      .locator("[data-choice=allow_once]:enabled")
      .click({ timeout: 2000 })
      .catch(() => undefined);
  }
}
