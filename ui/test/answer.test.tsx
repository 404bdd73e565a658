// @vitest-environment jsdom

import { act } from "react";
import { createRoot, type Root } from "react-dom/client";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { ApprovalBar } from "../src/composer/ApprovalBar";
import { Asked } from "../src/composer/Asked";
import { pageOf } from "../src/composer/Page";
import { empty } from "../src/model/transcript";
import type { Approval } from "../src/wire/types";

(globalThis as { IS_REACT_ACT_ENVIRONMENT?: boolean }).IS_REACT_ACT_ENVIRONMENT = true;

let host: HTMLElement;
let root: Root;
let asked: { url: string; body: { choice: string; updatedArguments?: unknown; argumentsDigest?: string } }[];
const opened = vi.fn();

beforeEach(() => {
  vi.useFakeTimers();
  asked = [];
  vi.stubGlobal("open", opened);
  vi.stubGlobal("fetch", async (url: string, init: RequestInit) => {
    asked.push({ url, body: JSON.parse(String(init.body)) });
    return new Response("{}");
  });
  host = document.createElement("div");
  document.body.append(host);
  root = createRoot(host);
});
afterEach(() => {
  act(() => root.unmount());
  host.remove();
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

async function show(a: Partial<Approval>) {
  const approval: Approval = {
    id: "a",
    kind: "form",
    title: "t",
    toolName: "deployer",
    argumentsEditable: true,
    argumentsDigest: "d",
    choices: [
      { id: "yes", kind: "allow_once", label: "Send" },
      { id: "no", kind: "deny", label: "Decline" },
      { id: "stop", kind: "deny_stop", label: "Cancel" },
    ],
    ...a,
  };
  const waiting = [{ turnId: "t", seq: 1, timestamp: "", status: "pending" as const, approval }];
  act(() => root.render(<ApprovalBar session="s" transcript={empty} dir="/p" waiting={waiting} />));
  await act(() => vi.advanceTimersByTimeAsync(500)); // earlier keys and clicks do not answer
}

const press = (name: string) =>
  act(async () => {
    const b = [...host.querySelectorAll("button")].find((x) => x.textContent?.endsWith(name));
    if (!b) throw new Error(`no button ${name} in ${host.textContent}`);
    b.click();
    await vi.advanceTimersByTimeAsync(50);
  });
const field = (key: string) => host.querySelector(`[data-field="${key}"]`) as HTMLElement;
function type(key: string, text: string) {
  const input = field(key).querySelector(
    "input:not([type=radio]):not([type=checkbox]), select, textarea",
  ) as HTMLInputElement;
  act(() => {
    Object.getOwnPropertyDescriptor(Object.getPrototypeOf(input), "value")?.set?.call(input, text);
    input.dispatchEvent(new Event(input.tagName === "SELECT" ? "change" : "input", { bubbles: true }));
  });
}
const tick = (key: string, n: number) =>
  act(() =>
    (field(key).querySelectorAll("input[type=radio], input[type=checkbox]")[n] as HTMLElement).click(),
  );

describe("a form", () => {
  const schema = {
    type: "object",
    properties: {
      name: { type: "string", title: "Name", minLength: 2 },
      mail: { type: "string", format: "email" },
      size: { type: "string", enum: ["s", "m"], enumNames: ["Small", "Medium"] },
      region: { type: "string", enum: ["a", "b", "c", "d", "e", "f", "g"], default: "c" },
      days: { type: "array", items: { enum: ["mon", "tue"] }, minItems: 1 },
      n: { type: "integer", minimum: 1, default: 2 },
      open: { type: "boolean", default: true },
    },
    required: ["name", "size", "days"],
  };
  const args = { message: "About the service", schema };

  it("is not sent before it is right, and says what is wrong", async () => {
    await show({ arguments: args });
    expect(host.textContent).toContain("About the service");
    expect(host.textContent).toContain("What you enter is sent to deployer");
    expect(host.querySelectorAll("[data-wrong]").length).toBe(0); // no errors before the first attempt to send
    await press("Send");
    expect(asked).toEqual([]);
    expect([...host.querySelectorAll("[data-wrong]")].map((e) => e.getAttribute("data-field"))).toEqual([
      "name",
      "size",
      "days",
    ]);
    expect(document.activeElement).toBe(field("name").querySelector("input"));
    const input = field("name").querySelector("input") as HTMLInputElement;
    expect(input.getAttribute("aria-invalid")).toBe("true");
    expect(document.getElementById(input.getAttribute("aria-describedby") ?? "")?.textContent).toBe(
      "Required.",
    );
    type("name", "x");
    expect(field("name").textContent).toContain("At least 2 characters.");
  });

  it("is sent as the object that was asked for", async () => {
    await show({ arguments: args });
    type("name", "web");
    tick("size", 1);
    tick("days", 1);
    tick("days", 0);
    await press("Send");
    expect(asked).toEqual([
      {
        url: "/api/session/s/approvals/a",
        body: {
          choice: "yes",
          argumentsDigest: "d",
          updatedArguments: { name: "web", size: "m", region: "c", days: ["mon", "tue"], n: 2, open: true },
        },
      },
    ]);
  });

  it("is declined and cancelled without being filled in", async () => {
    await show({ arguments: args });
    await press("Decline");
    await press("Cancel");
    expect(asked.map((a) => [a.body.choice, "updatedArguments" in a.body])).toEqual([
      ["no", false],
      ["stop", false],
    ]);
  });

  it("cannot be sent if part of it is hidden", async () => {
    await show({ arguments: args, argumentsEditable: false });
    expect(host.textContent).toContain("This form cannot be answered here");
    expect((host.querySelector("[data-choice=allow_once]") as HTMLButtonElement).disabled).toBe(true);
    await press("Decline");
    expect(asked.length).toBe(1);
  });

  it("without fields is a yes or a no", async () => {
    await show({ arguments: { message: "Sure?", schema: { type: "object", properties: {} } } });
    await press("Send");
    expect(asked[0]?.body.updatedArguments).toEqual({});
  });

  it("shows the words of others as text", async () => {
    const evil = "<img src=x onerror=alert(1)>\u202e";
    await show({
      arguments: {
        message: evil,
        schema: {
          properties: { [evil]: { type: "string", description: evil, enum: [evil], enumNames: [evil] } },
        },
      },
    });
    expect(host.querySelector("img")).toBeNull();
    expect(host.textContent).toContain("<img src=x onerror=alert(1)>RLO");
  });
});

describe("a page to visit", () => {
  const url = "https://login.cloud.example/device?code=1";
  const link = () => host.querySelector("a") as HTMLAnchorElement;

  it("is opened by a click and by nothing else", async () => {
    await show({ arguments: { message: "Sign in", url } });
    expect(host.querySelector("pre")?.textContent).toBe(url);
    expect(link().textContent).toBe("Open login.cloud.example in a new tab");
    expect([link().href, link().target, link().rel]).toEqual([url, "_blank", "noopener noreferrer nofollow"]);
    await press("Send");
    expect(asked[0]?.body).toEqual({ choice: "yes", argumentsDigest: "d" });
    expect(opened).not.toHaveBeenCalled();
    expect(host.querySelectorAll("iframe, object, meta, img").length).toBe(0);
  });

  it("is only named in the record", () => {
    act(() =>
      root.render(
        <Asked dir="/p" approval={{ id: "a", kind: "form", title: "", arguments: { url }, choices: [] }} />,
      ),
    );
    expect(host.textContent).toContain(url);
    expect(host.querySelector("a")).toBeNull();
  });

  it.each([
    ["https://a.example/x", "a.example", undefined],
    ["https://xn--pple-43d.example/", "xn--pple-43d.example", "letters"],
    ["https://аpple.example/", "xn--pple-43d.example", "letters"],
    ["http://a.example/", "a.example", "not encrypted"],
    ["http://localhost:3000/", "localhost:3000", undefined],
  ])("says where %s leads", (url, host, warning) => {
    const p = pageOf(url);
    expect("host" in p && p.host).toBe(host);
    if (warning) expect("warning" in p && p.warning).toContain(warning);
    else expect("warning" in p && p.warning).toBeFalsy();
  });

  it.each([
    "javascript:alert(1)",
    "data:text/html,x",
    "file:///etc/passwd",
    "https://bank.example@evil.example/",
    "java\nscript:alert(1)",
    "https://a.example/\u0000",
    "https://a b/",
    "nothing",
    "",
  ])("leads nobody to %j", (url) => {
    expect("why" in pageOf(url)).toBe(true);
  });
});

describe("questions", () => {
  const options = [{ label: "SQLite", description: "one file" }, { label: "PostgreSQL" }];
  const yes = (id: string, label: string) => ({ id, kind: "allow_once" as const, label });
  const no = { id: "no", kind: "deny" as const, label: "Do not answer" };

  it("with one answer of several are answered by its button, or in other words", async () => {
    const args = { questions: [{ question: "Which?", options }] };
    const choices = [
      yes("option_1", "SQLite"),
      yes("option_2", "PostgreSQL"),
      yes("allow_once", "Answer in the arguments"),
      no,
    ];
    await show({ kind: "question", arguments: args, choices });
    expect([...host.querySelectorAll("[data-choice] .isolate-text")].map((b) => b.textContent)).toEqual([
      "SQLite",
      "PostgreSQL",
      "Do not answer",
    ]);
    await press("PostgreSQL");
    expect(asked[0]?.body).toEqual({ choice: "option_2", argumentsDigest: "d" });
    await press("Another answer");
    const input = host.querySelector("input[aria-label='Your own answer']") as HTMLInputElement;
    act(() => {
      Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value")?.set?.call(input, "DuckDB");
      input.dispatchEvent(new Event("input", { bubbles: true }));
    });
    await act(async () => {
      input.form?.requestSubmit();
      await vi.advanceTimersByTimeAsync(0);
    });
    expect(asked[1]?.body).toEqual({
      choice: "allow_once",
      argumentsDigest: "d",
      updatedArguments: { ...args, answers: { "Which?": "DuckDB" } },
    });
  });

  it("whose options are not the choices are a form", async () => {
    const args = { questions: [{ question: "Which?", options }] };
    await show({
      kind: "question",
      arguments: args,
      choices: [yes("1", "Once"), yes("2", "In this session"), no],
    });
    expect(host.querySelectorAll("[data-field]").length).toBe(1);
    act(() => root.unmount());
    root = createRoot(host);
    await show({
      kind: "question",
      arguments: args,
      choices: [yes("1", "SQL\u200bite"), yes("2", "Postgre…"), no],
    });
    expect(host.querySelectorAll("[data-field]").length).toBe(0); // the server shortens labels
  });

  it("that are several are a form, and each wants an answer", async () => {
    const args = {
      questions: [
        { question: "Which?", header: "Store", options },
        { id: "q2", question: "What else?", multiSelect: true, options: [{ label: "x" }, { label: "y" }] },
        { id: "q3", question: "Its name?", options: null },
      ],
    };
    await show({
      kind: "question",
      arguments: args,
      choices: [yes("allow_once", "Answer in the arguments; else: SQLite, x"), no],
    });
    await press("Answer");
    expect(asked).toEqual([]);
    expect(host.querySelectorAll("[data-wrong]").length).toBe(3);
    tick("Which?", 2); // another option
    type("Which?", "files");
    tick("q2", 0);
    tick("q2", 1);
    type("q3", "a name");
    await press("Answer");
    expect(asked[0]?.body).toMatchObject({
      choice: "allow_once",
      updatedArguments: { ...args, answers: { "Which?": "files", q2: ["x", "y"], q3: "a name" } },
    });
  });
});

describe("a denial", () => {
  it("goes with its reason, by the button beside it or any other that denies", async () => {
    const write = (text: string) => {
      const input = host.querySelector("input[aria-label='Reason for the denial']") as HTMLInputElement;
      act(() => {
        Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value")?.set?.call(input, text);
        input.dispatchEvent(new Event("input", { bubbles: true }));
      });
      return input;
    };
    await show({ kind: "tool", arguments: { command: "rm -rf build" } });
    await press("Deny with a reason");
    await press("Deny with this reason"); // there is none yet
    expect(asked).toEqual([]);
    const input = write(" not here ");
    await act(async () => {
      input.form?.requestSubmit(); // as Enter does
      await vi.advanceTimersByTimeAsync(50);
    });
    expect(asked[0]?.body).toEqual({ choice: "no", argumentsDigest: "d", reason: "not here" });
    await press("Cancel");
    expect(asked[1]?.body).toEqual({ choice: "stop", argumentsDigest: "d", reason: "not here" });
    await press("Send");
    expect(asked[2]?.body).toEqual({ choice: "yes", argumentsDigest: "d" });
  });

  it("has no reason if no choice denies", async () => {
    await show({ kind: "tool", choices: [{ id: "yes", kind: "allow_once", label: "Allow once" }] });
    expect(host.textContent).not.toContain("reason");
  });
});
