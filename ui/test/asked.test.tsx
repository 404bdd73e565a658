// @vitest-environment jsdom

// An approval is part of the row of its tool call: who decided, and how long the
// call waited for people.

import { act } from "react";
import { createRoot } from "react-dom/client";
import { expect, it } from "vitest";
import { rowsOf } from "../src/model/rows";
import { empty, reduce, type Turn } from "../src/model/transcript";
import { Row } from "../src/stream/Row";
import { answered, asked, call, ended, live, started } from "./stream";

(globalThis as { IS_REACT_ACT_ENVIRONMENT?: boolean }).IS_REACT_ACT_ENVIRONMENT = true;

type Entries = Parameters<typeof live>[0][];

function page(...entries: Entries): string[] {
  const turn = reduce(empty, entries.map(live)).turns[0] as Turn;
  const host = document.createElement("div");
  const root = createRoot(host);
  act(() =>
    root.render(rowsOf(turn, new Set()).map((row) => <Row key={row.key} row={row} dir="/p" session="s" />)),
  );
  const texts = [...host.querySelectorAll("[data-row=tool], [data-row=approval]")].map((row) => {
    const copy = row.cloneNode(true) as HTMLElement;
    for (const t of copy.querySelectorAll("time")) t.remove();
    return copy.textContent ?? "";
  });
  act(() => root.unmount());
  return texts;
}

const run = { kind: "execute", toolArguments: { command: "make" } };
// The seconds of an entry are its seq; a call that began at second 1 says so.
const done = (seq: number, more: object = {}): Entries[number] => {
  const entry = call("t", "1:0", "c", seq, "complete", { ...run, ...more });
  return {
    ...entry,
    payload: { ...entry.payload, startedAt: new Date(Date.UTC(2026, 0, 1) + 1000).toISOString() },
  } as typeof entry;
};

it("says in the row of the call who allowed it, and counts the time without the people", () => {
  expect(
    page(
      started("t", 0),
      asked("t", "a", 2, "c"),
      answered("t", "a", 122, "yes"),
      done(125),
      ended("t", 126),
    ),
  ).toEqual(["Runmake· allowed once by you4.0 swaited 2 min"]);
});

it("says that a call waits once", () => {
  const texts = page(started("t", 0), call("t", "1:0", "c", 1, "update", run), asked("t", "a", 2, "c"));
  expect(texts).toEqual(["Runmakewaiting for you"]);
});

it("says that a call was denied once, and not that it failed", () => {
  const texts = page(
    started("t", 0),
    asked("t", "a", 2, "c"),
    answered("t", "a", 4, "no"),
    done(5, { toolOutputIsError: true }),
    ended("t", 6),
  );
  expect(texts).toEqual(["Runmake· denied by you2.0 swaited 2.0 s"]);
});
