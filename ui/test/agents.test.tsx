// @vitest-environment jsdom

import { act } from "react";
import { createRoot } from "react-dom/client";
import { expect, it } from "vitest";
import { help, preselected, readiness, sorted } from "../src/model/agents";
import { Agents } from "../src/sessions/Agents";
import { parseAgents } from "../src/wire/parse";
import type { Agent } from "../src/wire/types";

(globalThis as { IS_REACT_ACT_ENVIRONMENT?: boolean }).IS_REACT_ACT_ENVIRONMENT = true;

const agent = (cliType: string, more: object = {}): Agent =>
  parseAgents({
    agents: [
      {
        cliType,
        displayName: cliType.toUpperCase(),
        install: `get ${cliType}`,
        login: `${cliType} login`,
        ...more,
      },
    ],
  })[0] as Agent;

it("says of each how it stands, and what helps", () => {
  const of = (more: object) => [readiness(agent("a", more)), ...help(agent("a", more)).map((h) => h.command)];
  expect(of({ installed: true, loggedIn: true })).toEqual(["ready"]);
  expect(of({ installed: true })).toEqual(["ready", "a login"]);
  expect(of({ installed: true, loggedIn: false })).toEqual(["locked", "a login"]);
  expect(of({})).toEqual(["missing", "get a", "a login"]);
  expect(of({ path: "/bin/a" })).toEqual(["silent"]);
  expect(of({ installed: true, problem: "It ends at once." })).toEqual(["broken"]);
  expect(of({ path: "/bin/a", loggedIn: false })).toEqual(["locked", "a login"]);
  expect(of({ checking: true })).toEqual(["checking", "get a", "a login"]);
  expect(of({ checking: true, installed: true, loggedIn: true })).toEqual(["ready"]);
});

it("offers what is ready first", () => {
  const all = [
    agent("missing"),
    agent("looking", { checking: true }),
    agent("script", { installed: true }),
    agent("locked", { installed: true, loggedIn: false }),
    agent("ready", { installed: true }),
  ];
  expect(sorted(all).map((a) => a.cliType)).toEqual(["ready", "script", "locked", "looking", "missing"]);
});

it("begins with an agent that works, even if the last one was another", () => {
  const broken = agent("broken", { installed: true, problem: "It ends at once." });
  const silent = agent("silent", { path: "/bin/silent" });
  const ready = agent("ready", { installed: true });
  const script = agent("script", { installed: true });
  const choice = (list: Agent[], last?: string) => preselected(list, last)?.cliType;
  expect(choice([broken, silent, ready], "broken")).toBe("ready");
  expect(choice([broken, silent, script], "silent")).toBe("script");
  expect(choice([ready, script], "script")).toBe("script");
  expect(choice([agent("missing"), silent])).toBe("silent");
  expect(choice([agent("missing")])).toBe("missing");
});

it("keeps the choice while agents are checked: what is chosen may cost money once Start is pressed", () => {
  const script = agent("script", { installed: true });
  const a = agent("a", { checking: true });
  const b = agent("b", { installed: true });
  const choice = (list: Agent[], last?: string) => preselected(list, last)?.cliType;
  expect(choice([a, b, script])).toBe("a");
  expect(choice([agent("a", { installed: true }), b, script])).toBe("a");
  expect(choice([agent("a"), b, script])).toBe("b");
  expect(choice([agent("a"), agent("b"), script])).toBe("script");
  expect(choice([b, a, script], "a")).toBe("a");
  expect(choice([b, agent("script", { checking: true })], "script")).toBe("script");
});

it("shows what can be copied, and folds what is missing once something is here", () => {
  const list = sorted([
    agent("ready", { installed: true, loggedIn: true, version: "1.2.3" }),
    agent("locked", { installed: true, loggedIn: false, version: "2.0" }),
    agent("looking", { checking: true }),
    ...["m1", "m2", "m3", "m4"].map((m) => agent(m, { problem: `no ${m}` })),
  ]);
  const host = document.createElement("div");
  act(() => createRoot(host).render(<Agents list={list} chosen={list[0]} onChoose={() => undefined} />));
  const row = (id: string) => host.querySelector(`[data-agent=${id}]`)?.textContent;
  expect(row("ready")).toBe("READY1.2.3");
  expect(row("locked")).toContain("2.0 · not logged inLog in withlocked login");
  expect(row("looking")).toContain("checking…If it is not installed, install it withget looking");
  const folded = host.querySelector("details");
  expect(folded?.querySelector("summary")?.textContent).toBe("4 more that are not installed");
  expect(folded?.querySelectorAll("[data-agent]").length).toBe(4);
  expect(folded?.textContent).toContain("no m1Install it withget m1");
});
