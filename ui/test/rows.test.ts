// @vitest-environment jsdom

import { describe, expect, it } from "vitest";
import {
  describeAsked,
  describe as describeCall,
  describeFold,
  Rows,
  rowsOf,
  type ToolItem,
} from "../src/model/rows";
import { empty, reduce, type Turn } from "../src/model/transcript";
import { changesOf } from "../src/stream/TurnEnd";
import type { AgentFile, Entry } from "../src/wire/types";
import { answered, asked, call, ended, history, live, message, notice, sample, started } from "./stream";

const turnOf = (...es: Entry[]) => reduce(empty, es.map(live)).turns[0] as Turn;
const none = new Set<string>();
const kinds = (turn: Turn, opened = none) =>
  rowsOf(turn, opened).map((r) => `${"  ".repeat(r.depth)}${r.kind}`);

describe("rows", () => {
  it("tells a turn from its prompt to its end", () => {
    const t = reduce(empty, history(sample()));
    const turn = t.turns[0] as Turn;
    expect(kinds(turn)).toEqual(["prompt", "prose", "notice", "fold", "tool", "tool", "prose", "end"]);
  });

  it("unfolds a subagent as a thread of its own", () => {
    const turn = turnOf(
      started("t", 1),
      call("t", "1:0", "c", 2, "update", { kind: "delegate" }),
      call("t", "c/1:0", "d", 3, "update", { kind: "execute" }, "c"),
      asked("t", "a", 4, "d"),
    );
    expect(kinds(turn)).toEqual(["tool", "approval"]);
    expect(kinds(turn, new Set(["t:1:0"]))).toEqual(["tool", "  tool"]);
    expect(rowsOf(turn, none)[0]).toMatchObject({ inside: { steps: 1, last: { itemId: "t:c/1:0" } } });
  });

  it("counts what the agent wrote for itself as no changed file", () => {
    const changes = ["/p/a.go", "/home/u/plans/x.md"].map((path) => ({ path, kind: "create", hunks: [] }));
    const turn = turnOf(call("t", "1:0", "c", 1, "complete", { kind: "edit", changes }), ended("t", 2));
    const paths = (own: AgentFile[]) => changesOf(turn, own).map((c) => c.path);
    expect(paths([{ path: "/home/u/plans/x.md", kind: "plan" }])).toEqual(["/p/a.go"]);
    expect(paths([{ path: "/p/a.go", kind: "skill" }])).toEqual(["/p/a.go", "/home/u/plans/x.md"]);
  });

  it("never shows as the main agent's what a subagent of another turn says", () => {
    const t = reduce(empty, [
      ...[
        call("t", "1:0", "a", 1, "complete", { kind: "delegate", toolArguments: { description: "Beside" } }),
        ended("t", 2),
        call("u", "a/1:0", "d", 3, "complete", { kind: "execute" }, "a"),
        message("u", "a/2:0", "Beside is done.", 4, "complete", "agent", "a"),
        ended("u", 5),
      ].map((e) => ({ ...e, sessionId: "s1" })),
    ]);
    const rows = (...opened: string[]) =>
      new Rows()
        .of(t, new Set(opened))
        .filter((r) => r.turn === "u")
        .map((r) => [r.kind, r.depth]);
    expect(rows()).toEqual([
      ["thread", 0],
      ["end", 0],
    ]);
    expect(rows("u:a")).toEqual([
      ["thread", 0],
      ["tool", 1],
      ["prose", 1],
      ["end", 0],
    ]);
    const head = new Rows().of(t, none).find((r) => r.kind === "thread");
    expect(head).toMatchObject({ title: "Beside", inside: { steps: 1 }, running: false });
  });

  it("shows a subagent's work even if its call is not known", () => {
    const turn = turnOf(call("t", "x/1:0", "d", 3, "complete", { kind: "execute" }, "x"), ended("t", 4));
    expect(kinds(turn)).toEqual(["thread", "end"]);
    expect(rowsOf(turn, new Set(["t:x"])).map((r) => r.kind)).toEqual(["thread", "tool", "end"]);
  });

  it("folds neighbouring reads and searches, but not what failed", () => {
    const turn = turnOf(
      call("t", "1:0", "a", 1, "complete"),
      call("t", "1:1", "b", 2, "complete", { kind: "search" }),
      call("t", "1:2", "c", 3, "complete", { toolOutputIsError: true }),
      call("t", "1:3", "d", 4, "complete"),
      message("t", "2:0", "text", 5),
      call("t", "3:0", "e", 6, "complete"),
      call("t", "3:1", "f", 7, "create"),
    );
    expect(kinds(turn)).toEqual(["fold", "tool", "tool", "prose", "fold", "working"]);
    expect(rowsOf(turn, none).at(-2)).toMatchObject({ state: "running", key: "t:3:0:fold" });
  });

  it("tells how a call stands", () => {
    const state = (...es: Entry[]) =>
      (rowsOf(turnOf(...es), none).find((r) => r.kind === "tool") as { state?: string }).state;
    const run = { kind: "execute" };
    expect(state(call("t", "1:0", "c", 1, "update", run))).toBe("running");
    expect(state(call("t", "1:0", "c", 1, "update", run), asked("t", "a", 2, "c"))).toBe("asks");
    expect(state(call("t", "1:0", "c", 1, "update", run), ended("t", 2, "cancelled"))).toBe("stopped");
    expect(state(call("t", "1:0", "c", 1, "complete", { ...run, exitCode: 1 }))).toBe("failed");
    expect(state(call("t", "1:0", "c", 1, "error", run))).toBe("failed");
    expect(state(call("t", "1:0", "c", 1, "complete", { ...run, exitCode: 0 }))).toBe("done");
  });

  it("shows a call that was denied as denied, not as failed", () => {
    const state = (choice: string, ...more: Entry[]) =>
      (
        rowsOf(turnOf(asked("t", "a", 1, "c"), answered("t", "a", 2, choice), ...more), none).find(
          (r) => r.kind === "tool",
        ) as { state?: string }
      ).state;
    const run = { kind: "execute" };
    const refused = call("t", "1:0", "c", 3, "complete", { ...run, toolOutputIsError: true });
    expect(state("no", refused)).toBe("denied");
    expect(state("deny", refused)).toBe("denied"); // a rule chose for a client that never saw the choices
    expect(state("no", call("t", "1:0", "c", 3, "error", run))).toBe("denied");
    expect(state("no", call("t", "1:0", "c", 3, "update", run), ended("t", 4, "cancelled"))).toBe("denied");
    expect(state("yes", refused)).toBe("failed");
    expect(state("withdrawn", refused)).toBe("failed");
    expect(state("no", call("t", "1:0", "c", 3, "complete", { ...run, exitCode: 1 }))).toBe("failed"); // it ran
    expect(state("no", call("t", "1:0", "c", 3, "complete", run))).toBe("done");
    expect(state("no", asked("t", "b", 3, "c"), answered("t", "b", 4, "yes"), refused)).toBe("failed");
    expect(state("yes", asked("t", "b", 3, "c"), answered("t", "b", 4, "no"), refused)).toBe("denied");
  });

  it("does not fold a call that was denied", () => {
    const turn = turnOf(
      call("t", "1:0", "a", 1, "complete"),
      asked("t", "x", 2, "b"),
      answered("t", "x", 3, "no"),
      call("t", "1:1", "b", 4, "complete", { toolOutputIsError: true }),
      call("t", "1:2", "c", 5, "complete"),
    );
    expect(kinds(turn)).toEqual(["tool", "tool", "tool", "working"]);
  });

  it("keeps a notice at its place", () => {
    const turn = turnOf(
      message("t", "1:0", "a", 1),
      notice("t", 2),
      message("t", "2:0", "b", 3),
      notice("t", 4),
      ended("t", 5),
    );
    expect(kinds(turn)).toEqual(["prose", "notice", "prose", "notice", "end"]);
  });

  it("gives every row a key of its own", () => {
    const rows = new Rows().of(reduce(empty, history(sample())), new Set(["t1:3:0"]));
    expect(new Set(rows.map((r) => r.key)).size).toBe(rows.length);
  });

  it("gives the same rows again for what did not change", () => {
    const maker = new Rows();
    const t = reduce(empty, history(sample()));
    const before = maker.of(t, none);
    const after = maker.of(reduce(t, [live(message("t3", "0:0", "x", 99, "complete", "user"))]), none);
    before.forEach((row, i) => {
      expect(after[i]).toBe(row);
    });
  });

  it("puts a break between the turns it fell between", () => {
    const t = reduce(reduce(empty, history(sample())), [
      {
        type: "session:history",
        sessionId: "s1",
        entries: [message("t3", "0:0", "x", 99, "complete", "user")],
        seq: 99,
        resume: { status: "gap", from: 1, to: 2 },
        done: true,
      },
    ]);
    const rows = new Rows().of(t, none);
    const at = rows.findIndex((r) => r.kind === "break");
    expect([rows[at - 1]?.kind, rows[at + 1]?.kind]).toEqual(["end", "prompt"]);
  });
});

describe("words for a call", () => {
  const words = (t: object) => {
    const d = describeCall({ toolName: "X", callId: "c", ...t } as never, "/p");
    return `${d.verb} ${d.object}`;
  };
  it("says verb and object", () => {
    expect(words({ kind: "execute", toolArguments: { command: "go test" } })).toBe("Run go test");
    expect(words({ kind: "read", toolArguments: { file_path: "/p/a.go" } })).toBe("Read a.go");
    expect(
      words({ kind: "edit", toolArguments: {}, changes: [{ path: "a", kind: "create", hunks: [] }] }),
    ).toBe("Create a");
    expect(words({ kind: "search", toolArguments: { pattern: "x" } })).toBe("Search x");
    expect(words({ toolArguments: ["odd"], title: "Odd" })).toBe("X Odd");
    expect(words({ toolArguments: null })).toBe("X ");
  });
  it("says it of calls that have no name but a title, once and without their verb", () => {
    expect(
      words({ toolName: "exec_command", kind: "execute", toolArguments: { command: ["go", "test", "a b"] } }),
    ).toBe("Run go test 'a b'");
    expect(words({ toolName: "shell", kind: "execute", title: "`ls -la`" })).toBe("Run ls -la");
    expect(words({ toolName: "Read a.go", kind: "read", title: "Read a.go" })).toBe("Read a.go");
    expect(words({ toolName: "view", kind: "read", title: "x", locations: [{ path: "/p/b.go" }] })).toBe(
      "Read b.go",
    );
    expect(words({ toolName: "Write a.go", kind: "edit", title: "Write a.go" })).toBe("Edit a.go");
    expect(words({ toolName: "search", kind: "search", title: "Searching" })).toBe("Search Searching");
    expect(words({ toolName: "mcp__x", title: "mcp__x" })).toBe("mcp__x ");
    expect(
      words({ toolName: "run", kind: "execute", toolArguments: { command: ["a", 3] }, title: "run it" }),
    ).toBe("Run it");
  });
  it("says what is run without the shell around it, and of whose tools a tool is", () => {
    const run = (command: string) => words({ kind: "execute", toolArguments: { command } });
    expect(run("/bin/bash -lc 'go test ./...'")).toBe("Run go test ./...");
    expect(run('zsh -c "ls -la"')).toBe("Run ls -la");
    expect(run("bash -lc 'a' 'b'")).toBe("Run bash -lc 'a' 'b'");
    expect(run('bash -lc "echo $(rm x)"')).toBe('Run bash -lc "echo $(rm x)"');
    expect(run("bash -lc ''")).toBe("Run bash -lc ''");
    expect(
      words({ toolName: "mcp__db__query", title: "db: query", toolArguments: { query: "select 1" } }),
    ).toBe("query select 1");
    expect(words({ toolName: "mcp__db__list", title: "db: list" })).toBe("list of db");
    expect(
      words({ toolName: "web_search", kind: "fetch", title: "Search: x", toolArguments: { query: "x" } }),
    ).toBe("Search the web x");
  });
  it("says a changed file as one reads it in the project", () => {
    const changes = [{ path: "/p/a.go", kind: "create", hunks: [] }];
    expect(words({ kind: "edit", toolName: "apply_patch", toolArguments: {}, changes })).toBe("Create a.go");
  });
  it("says an approval by what would run, not by what the agent calls it", () => {
    expect(
      describeAsked(
        {
          id: "a",
          kind: "tool",
          title: "List files",
          toolName: "Bash",
          arguments: { command: "rm -rf ~" },
          choices: [],
        },
        "/p",
      ),
    ).toBe("Bash rm -rf ~");
  });
  it("says which host an approval is about", () => {
    const about = (args: unknown) =>
      describeAsked(
        { id: "a", kind: "tool", title: "x", toolName: "connect", arguments: args, choices: [] },
        "/p",
      );
    expect(about({ host: "example.com", port: 8443 })).toBe("Reach example.com:8443");
    expect(about({ host: "2001:db8::1", port: 443 })).toBe("Reach [2001:db8::1]:443");
    expect(about({ host: "example.com" })).toBe("connect ");
  });
  it("counts files once", () => {
    const read = (path: string) =>
      ({
        tool_call: { toolName: "Read", callId: path, kind: "read", toolArguments: { path } },
      }) as unknown as ToolItem;
    expect(describeFold([read("a"), read("a"), read("b")])).toBe("Read 2 files");
  });
});
