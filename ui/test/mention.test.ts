import fc from "fast-check";
import { expect, it } from "vitest";
import { marked, matching, type Token, tokenAt, withCommand, withFile } from "../src/model/mention";

const at = (marked: string) => tokenAt(marked.replace("|", ""), marked.indexOf("|"));

it("finds the path of a file that is being written after an @", () => {
  const query = (text: string) => {
    const t = at(text);
    return t?.kind === "file" ? t.query : undefined;
  };
  expect(query("@|")).toBe("");
  expect(query("look at @src/a|")).toBe("src/a");
  expect(query("look (@src/a|)")).toBe("src/a");
  expect(query("one\n@two| three")).toBe("two");
  expect(query('see @"my dir/f|')).toBe("my dir/f");
  expect(query("me@example.com|")).toBeUndefined();
  expect(query("@a b|")).toBeUndefined();
  expect(query("no mention|")).toBeUndefined();
  expect(query("@@a|")).toBeUndefined();
});

it("finds a command only at the beginning", () => {
  const query = (text: string) => {
    const t = at(text);
    return t?.kind === "command" ? t.query : undefined;
  };
  expect(query("/|")).toBe("");
  expect(query("/comp|")).toBe("comp");
  expect(query("/plugin:review|")).toBe("plugin:review");
  expect(query("/compact now|")).toBeUndefined();
  expect(query(" /compact|")).toBeUndefined();
  expect(query("see /etc|")).toBeUndefined();
  expect(query("/compact\n|")).toBeUndefined();
});

it("writes a path so that the person can go on", () => {
  const write = (text: string, path: string, folder = false) => {
    const e = withFile(text.replace("|", ""), at(text) as Token, path, folder);
    return `${e.text.slice(0, e.caret)}|${e.text.slice(e.caret)}`;
  };
  expect(write("see @ap|", "src/app.ts")).toBe("see @src/app.ts |");
  expect(write("see @ap| and", "src/app.ts")).toBe("see @src/app.ts |and");
  expect(write("see @sr|", "src", true)).toBe("see @src/|");
  expect(write("see @my|", "my file.txt")).toBe('see @"my file.txt" |');
  expect(write("see @my|", "my dir", true)).toBe('see @"my dir/|');
  expect(write('see @"my dir/f|', "my dir/f.txt")).toBe('see @"my dir/f.txt" |');
  const c = withCommand("/co", { kind: "command", query: "co", from: 0, to: 3 }, "compact");
  expect(c).toEqual({ text: "/compact ", caret: 9 });
});

it("keeps the rest of the text, whatever is inserted", () => {
  fc.assert(
    fc.property(fc.string(), fc.string(), fc.string({ minLength: 1 }), fc.boolean(), (a, b, path, folder) => {
      const text = `${a} @${b}`;
      const token = tokenAt(text, a.length + 2);
      if (!token) return;
      const e = withFile(text, token, path, folder);
      expect(e.text.startsWith(`${a} @`)).toBe(true);
      expect(e.text.endsWith(b)).toBe(true);
      expect(e.caret).toBeLessThanOrEqual(e.text.length);
    }),
  );
});

it("offers the commands whose name begins with what was typed first", () => {
  const commands = [
    { name: "review", description: "Check the changes" },
    { name: "compact", description: "Shorten the conversation" },
    { name: "pr-comments" },
    { name: "clear", description: "Begin again" },
  ];
  const names = (q: string) => matching(commands, q).map((c) => c.name);
  expect(names("")).toEqual(["clear", "compact", "pr-comments", "review"]);
  expect(names("c")).toEqual(["clear", "compact", "pr-comments"]);
  expect(names("CO")).toEqual(["compact", "pr-comments", "review"].slice(0, 2));
  expect(names("changes")).toEqual(["review"]);
  expect(names("nothing")).toEqual([]);
});

it("marks the characters that match", () => {
  expect(marked("a€b", [1, 2])).toEqual([
    { text: "a", match: false },
    { text: "€b", match: true },
  ]);
  expect(marked("", [0])).toEqual([]);
});
