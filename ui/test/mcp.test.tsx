// @vitest-environment jsdom

import { act } from "react";
import { createRoot, type Root } from "react-dom/client";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { McpServers } from "../src/app/McpServers";
import { useStore } from "../src/model/store";
import { api } from "../src/wire/http";
import { type MCPServer, parseHeaders, parseMCPServers, parseVariables } from "../src/wire/mcp";
import type { Agent } from "../src/wire/types";

(globalThis as { IS_REACT_ACT_ENVIRONMENT?: boolean }).IS_REACT_ACT_ENVIRONMENT = true;
HTMLDialogElement.prototype.showModal ??= function (this: HTMLDialogElement) {
  this.open = true;
};
HTMLDialogElement.prototype.close ??= function (this: HTMLDialogElement) {
  this.open = false;
};

const server = (name: string): MCPServer => ({
  name,
  transport: "stdio",
  enabled: true,
  command: "/opt/tickets",
  arguments: 2,
  url: "",
  env: ["TICKETS_TOKEN"],
  headers: [],
});

describe("MCP servers", () => {
  let box: HTMLElement;
  let root: Root;
  let all: MCPServer[];
  let writes: boolean;

  beforeEach(() => {
    all = [server("tickets")];
    writes = true;
    vi.spyOn(api, "isAdmin").mockResolvedValue(true);
    vi.spyOn(api, "mcpServers").mockImplementation(async () => ({ servers: [...all], writes }));
    vi.spyOn(api, "addMCPServer").mockImplementation(async (_, d) => {
      all = [...all, server(d.name)];
    });
    vi.spyOn(api, "removeMCPServer").mockImplementation(async (_, name) => {
      all = all.filter((s) => s.name !== name);
    });
    const agent = { cliType: "codex", displayName: "Codex", installed: true, loggedIn: true } as Agent;
    useStore.setState({ link: "open", agents: [agent] });
    box = document.body.appendChild(document.createElement("div"));
    root = createRoot(box);
  });
  afterEach(async () => {
    await act(async () => root.unmount());
    box.remove();
    vi.restoreAllMocks();
  });

  const open = () => act(async () => root.render(<McpServers onClose={() => {}} />));
  const rows = () => [...box.querySelectorAll("li")].map((li) => li.textContent ?? "");

  it("are listed with the names of their variables", async () => {
    await open();
    expect(api.mcpServers).toHaveBeenCalledWith("codex");
    expect(rows()).toHaveLength(1);
    expect(rows()[0]).toContain("tickets");
    expect(rows()[0]).toContain("2 arguments · sets TICKETS_TOKEN");
  });

  it("can be removed and added", async () => {
    await open();
    await act(async () => box.querySelector<HTMLElement>("button[aria-label='Remove tickets']")?.click());
    expect(api.removeMCPServer).toHaveBeenCalledWith("codex", "tickets");
    expect(rows()).toHaveLength(0);
    const field = (name: string) => box.querySelector<HTMLInputElement>(`[name=${name}]`) as HTMLInputElement;
    field("name").value = " docs ";
    field("command").value = "npx";
    field("args").value = "-y\ndocs mcp\n";
    field("env").value = "TOKEN=a=b";
    await act(async () => box.querySelector("form")?.requestSubmit());
    expect(api.addMCPServer).toHaveBeenCalledWith("codex", {
      name: "docs",
      command: "npx",
      args: ["-y", "docs mcp"],
      env: { TOKEN: "a=b" },
    });
    expect(rows()[0]).toContain("docs");
  });

  const choose = (kind: RegExp) =>
    act(async () =>
      [...box.querySelectorAll("label")]
        .find((l) => kind.test(l.textContent ?? ""))
        ?.querySelector("input")
        ?.click(),
    );

  it("can be added by URL, and are listed without secrets", async () => {
    await open();
    await choose(/A URL/);
    expect(box.querySelector("[name=command]")).toBeNull();
    const field = (name: string) => box.querySelector<HTMLInputElement>(`[name=${name}]`) as HTMLInputElement;
    field("name").value = "docs";
    field("url").value = " https://example.com/mcp?key=1 ";
    field("transport").value = "sse";
    field("headers").value = "Authorization: Bearer a:b\nX-Team:  red \n";
    vi.mocked(api.addMCPServer).mockImplementation(async (_, d) => {
      all = [
        ...all,
        {
          ...server(d.name),
          command: "",
          arguments: 0,
          env: [],
          url: "https://example.com",
          transport: "sse",
          headers: ["Authorization", "X-Team"],
        },
      ];
    });
    await act(async () => box.querySelector("form")?.requestSubmit());
    expect(api.addMCPServer).toHaveBeenCalledWith("codex", {
      name: "docs",
      url: "https://example.com/mcp?key=1",
      transport: "sse",
      headers: { Authorization: "Bearer a:b", "X-Team": "red" },
    });
    expect(rows()[1]).toContain("https://example.com · over SSE · sends Authorization, X-Team");
    expect(box.querySelector("[name=command]")).not.toBeNull();
  });

  it("take a token from a variable, and say what is wrong with a header", async () => {
    await open();
    await choose(/A URL/);
    const field = (name: string) => box.querySelector<HTMLInputElement>(`[name=${name}]`) as HTMLInputElement;
    field("name").value = "docs";
    field("url").value = "https://example.com/mcp";
    field("bearerTokenEnv").value = " DOCS_TOKEN ";
    field("headers").value = "secret";
    await act(async () => box.querySelector("form")?.requestSubmit());
    expect(api.addMCPServer).not.toHaveBeenCalled();
    expect(box.querySelector("form [role=alert]")?.textContent).toBe("Write each header as NAME: VALUE.");
    field("headers").value = "";
    await act(async () => box.querySelector("form")?.requestSubmit());
    expect(api.addMCPServer).toHaveBeenCalledWith("codex", {
      name: "docs",
      url: "https://example.com/mcp",
      transport: "http",
      headers: {},
      bearerTokenEnv: "DOCS_TOKEN",
    });
  });

  it("cannot be changed if the server does not permit it", async () => {
    writes = false;
    await open();
    expect(box.textContent).toContain("mcp-writes: true");
    expect(box.querySelector("form")).toBeNull();
    expect(box.querySelector("button[aria-label='Remove tickets']")).toBeNull();
  });

  it("show why something failed", async () => {
    vi.mocked(api.mcpServers).mockRejectedValue(new Error("Runnel cannot list the MCP servers of Copilot"));
    await open();
    expect(box.querySelector("[role=alert]")?.textContent).toContain("cannot list");
  });

  it("are read from the server's answer", () => {
    expect(parseMCPServers({ servers: [{ name: "a", env: ["B", 1] }, {}, 3], writes: "yes" })).toEqual({
      servers: [
        {
          name: "a",
          transport: "",
          enabled: true,
          command: "",
          arguments: 0,
          url: "",
          env: ["B"],
          headers: [],
        },
      ],
      writes: false,
    });
    expect(parseMCPServers(undefined).servers).toEqual([]);
    expect(parseVariables("A=1\n\nB=x=y\n")).toEqual({ env: { A: "1", B: "x=y" } });
    expect(parseVariables("A=1\nsecret").wrong).toBe("secret");
    expect(parseHeaders("A: 1\n\nB:x:y\n")).toEqual({ headers: { A: "1", B: "x:y" } });
    expect(parseHeaders("A: 1\nsecret").wrong).toBe("secret");
  });
});
