// @vitest-environment jsdom

import { act } from "react";
import { createRoot, type Root } from "react-dom/client";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { Pills } from "../src/composer/Settings";
import { asOptions, atHand, current, grouped, nameOf, offered } from "../src/model/settings";
import { learn, useStore } from "../src/model/store";
import { parseAgents, parseStatus } from "../src/wire/parse";
import type { Agent, SessionStatus } from "../src/wire/types";

(globalThis as { IS_REACT_ACT_ENVIRONMENT?: boolean }).IS_REACT_ACT_ENVIRONMENT = true;
HTMLDialogElement.prototype.showModal ??= function (this: HTMLDialogElement) {
  this.open = true;
};
HTMLDialogElement.prototype.close ??= function (this: HTMLDialogElement) {
  this.open = false;
};

const effort = (value: string) => ({
  id: "effort",
  name: "Effort",
  category: "effort",
  type: "select",
  value,
  choices: [{ value: "low", name: "Low" }, { value: "high" }],
});
const web = { id: "web", name: "Web search", type: "boolean", value: "false" };
const many = {
  id: "model",
  name: "Model",
  category: "model",
  type: "select",
  value: "m3",
  choices: Array.from({ length: 30 }, (_, i) => ({
    value: `m${i}`,
    name: `Model ${i}`,
    group: i < 15 ? "Old" : "New",
  })),
};

const agent = (more: object = {}): Agent =>
  parseAgents({
    agents: [{ cliType: "a", installed: true, modes: ["default", "plan"], ...more }],
  })[0] as Agent;
const status = (more: object = {}): SessionStatus =>
  parseStatus({ sessionId: "s", cliType: "a", lastSeq: 1, isAlive: true, ...more }) as SessionStatus;

describe("settings", () => {
  it("are the models and modes of an agent that names nothing else", () => {
    const a = agent({ models: [{ id: "x", name: "X" }, { id: "y" }] });
    expect(offered(a).map((s) => [s.key, s.value])).toEqual([
      ["model", ""],
      ["permissionMode", "default"], // the server's default, whatever the agent's default is
    ]);
    expect(
      current(a, status({ modelId: "z", permissionMode: "plan" })).map((s) => [
        s.key,
        s.value,
        s.choices.length,
      ]),
    ).toEqual([
      ["model", "z", 3],
      ["permissionMode", "plan", 2],
    ]);
  });

  it("say what a mode does with this agent, and offer one of those that do the same", () => {
    const modeLabels = { default: "Change all", acceptEdits: "Change all" };
    const a = agent({ modes: ["default", "acceptEdits", "plan"], modeLabels });
    const names = (permissionMode?: string) => {
      const mode = (permissionMode ? current(a, status({ permissionMode })) : offered(a)).find(
        (s) => s.key === "permissionMode",
      );
      return [mode?.choices.map((c) => c.value), mode && nameOf(mode)];
    };
    expect(names()[0]).toEqual(["default", "plan"]);
    expect(names("default")).toEqual([["default", "plan"], "Change all"]);
    expect(names("acceptEdits")).toEqual([["acceptEdits", "plan"], "Change all"]);
    expect(names("plan")).toEqual([["default", "plan"], "Plan only"]);
  });

  it("have the model of the session, and not of its kind of agent, before more is known", () => {
    const a = agent({ config: [many] });
    const id = many.choices[7]?.value as string;
    expect(many.value).not.toBe(id);
    const model = (more: object) => current(a, status(more)).find((s) => s.key === "config:model")?.value;
    expect(model({ modelId: id })).toBe(id);
    expect(model({ modelId: id, isAlive: false })).toBe(id);
    expect(model({ modelId: id, given: { model: many.choices[8]?.value }, isAlive: false })).toBe(
      many.choices[8]?.value,
    );
    expect(model({ modelId: "unknown" })).toBe(many.value);
  });

  it("are those of the agent where it names models, modes and more itself", () => {
    const mode = {
      id: "approvals",
      name: "Approvals",
      category: "mode",
      type: "select",
      value: "ask",
      choices: [{ value: "ask", name: "Ask" }],
    };
    const list = offered(agent({ config: [web, effort("low"), mode, many, { id: "x", type: "hologram" }] }));
    expect(list.map((s) => s.key)).toEqual([
      "config:model",
      "config:approvals",
      "config:effort",
      "config:web",
    ]);
    expect(atHand(list).map((s) => s.key)).toEqual(["config:model", "config:approvals", "config:effort"]);
    expect(grouped(list).map((g) => [g.title, g.settings.length])).toEqual([
      ["Model", 1],
      ["Permissions", 1],
      ["Effort", 1],
      ["More", 1],
    ]);
    expect(list.map((s) => nameOf(s))).toEqual(["Model 3", "Ask", "Low", "off"]);
  });

  it("have the value the agent tells, and while it does not run the one that was given", () => {
    const a = agent({ config: [effort("low")] });
    const value = (more: object) => current(a, status(more)).find((s) => s.key === "config:effort")?.value;
    expect(value({ config: [effort("high")], given: { effort: "low" } })).toBe("high");
    expect(value({ config: [effort("low")], given: { effort: "high" }, isAlive: false })).toBe("high");
    expect(value({ given: { effort: "high" } })).toBe("high");
    expect(value({ given: { effort: "gone" } })).toBe("low");
    expect(value({})).toBe("low");
  });

  it("go to the server by their names there", () => {
    expect(
      asOptions({
        model: "m",
        permissionMode: "plan",
        "config:a:b": "x",
        "config:w": "true",
        "config:none": "",
      }),
    ).toEqual({
      model: "m",
      permissionMode: "plan",
      config: { "a:b": "x", w: "true" },
    });
  });
});

describe("changing a setting", () => {
  let host: HTMLElement;
  let root: Root;
  let asked: { url: string; body: unknown }[];
  let answer: () => Promise<Response>;
  const json = (v: unknown, code = 200) => Promise.resolve(new Response(JSON.stringify(v), { status: code }));
  const told = (more: object) => ({ sessionId: "s", cliType: "a", lastSeq: 1, isAlive: true, ...more });

  const Shown = () => <Pills s={useStore((st) => st.sessions.get("s")) ?? status()} />;

  beforeEach(() => {
    vi.useFakeTimers();
    asked = [];
    vi.stubGlobal("fetch", (url: string, init: RequestInit) => {
      asked.push({ url, body: JSON.parse(String(init.body)) });
      return answer();
    });
    useStore.setState({ agents: [agent({ modes: [] })], sessions: new Map() });
    learn(status({ config: [effort("low"), web] }));
    host = document.createElement("div");
    document.body.append(host);
    root = createRoot(host);
    act(() => root.render(<Shown />));
  });
  afterEach(() => {
    act(() => root.unmount());
    host.remove();
    vi.useRealTimers();
    vi.unstubAllGlobals();
  });

  const select = () => host.querySelector("select[aria-label='Effort']") as HTMLSelectElement;
  const choose = async (value: string) => {
    await act(async () => {
      Object.getOwnPropertyDescriptor(HTMLSelectElement.prototype, "value")?.set?.call(select(), value);
      select().dispatchEvent(new Event("change", { bubbles: true }));
      await vi.advanceTimersByTimeAsync(0);
    });
  };
  const later = (ms: number) => act(() => vi.advanceTimersByTimeAsync(ms));
  const tell = (more: object) => act(() => learn(status(more)));

  it("asks for it by its id, and shows what the agent tells then", async () => {
    answer = () => json(told({ config: [effort("low"), web] }));
    await choose("high");
    expect(asked).toEqual([{ url: "/api/session/s/options", body: { config: { effort: "high" } } }]);
    expect(select().value).toBe("high"); // the requested value, marked as pending
    expect(select().getAttribute("aria-busy")).toBe("true");
    tell({ lastSeq: 2, config: [effort("high"), web] });
    expect(select().value).toBe("high");
    expect(select().getAttribute("aria-busy")).toBe("false");
    await later(5000);
    expect(select().value).toBe("high");
  });

  it("does not go on showing what was wanted if the agent has something else", async () => {
    answer = () => json(told({ config: [effort("low"), web] }));
    await choose("high");
    await later(5000);
    expect(select().value).toBe("low");
    expect(select().getAttribute("aria-busy")).toBe("false");
  });

  it("says in place why it was refused, and shows what still is", async () => {
    answer = () => json({ error: { type: "INVALID_REQUEST", message: "config: no such value" } }, 400);
    await choose("high");
    expect(select().value).toBe("low");
    expect(host.querySelector("[role=alert]")?.textContent).toBe("Config: no such value");
    expect(useStore.getState().problem).toBeUndefined();
  });

  it("has all of them in a sheet, switches among them", async () => {
    answer = () => json(told({ lastSeq: 3, config: [effort("low"), { ...web, value: "true" }] }));
    act(() => (host.querySelector("button[aria-label^='Settings: ']") as HTMLElement).click());
    const field = host.querySelector("[data-setting='config:web'] input") as HTMLInputElement;
    expect(field.getAttribute("role")).toBe("switch");
    await act(async () => {
      field.click();
      await vi.advanceTimersByTimeAsync(0);
    });
    expect(asked[0]?.body).toEqual({ config: { web: "true" } });
    expect(field.checked).toBe(true);
  });

  it("searches long lists, by keyboard too", async () => {
    answer = () => json(told({ lastSeq: 9, config: [{ ...many, value: "m22" }] }));
    tell({ lastSeq: 8, config: [many] });
    act(() => (host.querySelector("button[aria-label='Model: Model 3']") as HTMLElement).click());
    const input = host.querySelector("[role=combobox]") as HTMLInputElement;
    const options = () => [...host.querySelectorAll("[role=option]")].map((o) => o.textContent);
    expect(options().length).toBe(30);
    expect(host.querySelector("[aria-selected=true]")?.textContent).toBe("Model 3");
    act(() => {
      Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value")?.set?.call(input, "new 2");
      input.dispatchEvent(new Event("input", { bubbles: true }));
    });
    expect(options()).toEqual([
      "Model 20",
      "Model 21",
      "Model 22",
      "Model 23",
      "Model 24",
      "Model 25",
      "Model 26",
      "Model 27",
      "Model 28",
      "Model 29",
    ]);
    const key = (k: string) =>
      act(() => void input.dispatchEvent(new KeyboardEvent("keydown", { key: k, bubbles: true })));
    key("ArrowDown");
    key("ArrowDown");
    expect(document.getElementById(input.getAttribute("aria-activedescendant") ?? "")?.textContent).toBe(
      "Model 22",
    );
    await act(async () => {
      input.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true }));
      await vi.advanceTimersByTimeAsync(0);
    });
    expect(asked[0]?.body).toEqual({ config: { model: "m22" } });
    expect(host.querySelector("[role=combobox]")).toBeNull();
  });
});
