// @vitest-environment jsdom

import { act } from "react";
import { createRoot, type Root } from "react-dom/client";
import { afterEach, describe, expect, it } from "vitest";
import { Prose } from "../src/stream/Prose";
import { decode, safeHref, split } from "../src/text/markdown";
import { breakable } from "../src/text/Shown";
import { cpuTime } from "./cpu";

(globalThis as { IS_REACT_ACT_ENVIRONMENT?: boolean }).IS_REACT_ACT_ENVIRONMENT = true;

const roots: Root[] = [];
afterEach(() =>
  act(() => {
    for (const root of roots.splice(0)) root.unmount(); // what it still loads must not change it
  }),
);

function render(text: string, live = false): HTMLElement {
  const host = document.createElement("div");
  const root = createRoot(host);
  roots.push(root);
  act(() => root.render(<Prose text={text} live={live} />));
  return host;
}

const allowed = new Set(
  "DIV P H3 H4 H5 H6 UL OL LI STRONG EM DEL CODE PRE A BLOCKQUOTE HR BR TABLE THEAD TBODY TR TH TD SECTION SPAN BUTTON svg path rect".split(
    " ",
  ),
);

const hostile = [
  "<script>alert(1)</script>",
  "<img src=x onerror=alert(1)>",
  '<svg onload="alert(1)"><script>alert(1)</script></svg>',
  '<meta http-equiv="refresh" content="0;url=https://evil.example">',
  "<iframe src=https://evil.example></iframe>",
  '<a href="javascript:alert(1)">x</a>',
  "[x](javascript:alert(1))",
  "[x](JaVaScRiPt&colon;alert(1))",
  "[x](java\nscript:alert(1))",
  "[x](&#106;avascript:alert(1))",
  "[x](data:text/html,<script>alert(1)</script>)",
  "[x](vbscript:x) [y](file:///etc/passwd) [z](//evil.example)",
  "![x](https://evil.example/pixel.png)",
  "![x][r]\n\n[r]: https://evil.example/pixel.png",
  '<https://evil.example/?a="onclick=alert(1)>',
  '[x](https://a.example "onmouseover=alert(1)")',
  "`<img src=x onerror=alert(1)>`",
  "```html\n<script>alert(1)</script>\n```",
  "| <img src=x onerror=alert(1)> |\n|---|\n| <script>alert(1)</script> |",
  "<style>*{display:none}</style><link rel=stylesheet href=https://evil.example>",
  "<form action=https://evil.example><input name=a></form>",
  '<math><mtext><table><mglyph><style><img src=x onerror="alert(1)">',
  "&lt;script&gt;alert(1)&lt;/script&gt; &#60;img src=x onerror=alert(1)&#62;",
];

describe("markdown of others", () => {
  it("gives each block the direction of its own text, and what is in a quote or list that of the whole", () => {
    const host = render("# שלום\n\nעולם\n\n> שלום\n\n- אחת\n\n- שתיים\n\n1. one\n\n|א|b|\n|-|-|\n|ג|d|");
    const auto = [...host.querySelectorAll("[dir]")];
    expect(auto.map((e) => `${e.tagName} ${e.getAttribute("dir")}`)).toEqual(
      ["H3", "P", "BLOCKQUOTE", "UL", "OL", "TH", "TH", "TD", "TD"].map((tag) => `${tag} auto`),
    );
    expect(host.querySelectorAll("ul p").length).toBe(2);
  });

  it.each(hostile)("makes nothing dangerous of %s", (text) => {
    for (const live of [false, true]) {
      const host = render(text, live);
      for (const el of host.querySelectorAll("*")) {
        expect(allowed, el.outerHTML).toContain(el.tagName);
        for (const a of el.getAttributeNames())
          expect(a, el.outerHTML).not.toMatch(/^on|^src|^action|^srcdoc/);
      }
      for (const a of host.querySelectorAll("a")) {
        expect(a.protocol).toMatch(/^(https?|mailto):$/);
        expect(a.rel).toContain("noopener");
        expect(a.target).toBe("_blank");
      }
    }
  });

  it("shows HTML as the text it is", () => {
    expect(render("a <b>bold</b> word").textContent).toBe("a <b>bold</b> word");
    expect(render("<script>alert(1)</script>").textContent).toContain("<script>alert(1)</script>");
  });

  it("says where a link leads unless its text does", () => {
    expect(render("[https://bank.example](https://evil.example/x)").textContent).toBe(
      "https://bank.example (evil.example)",
    );
    expect(render("<https://evil.example/x>").textContent).toBe("https://evil.example/x");
    expect(render("[write](mailto:a@b.example)").textContent).toBe("write (a@b.example)");
  });

  it.each([
    [
      "letters that look like others",
      "<https://b\u0430nk.example/x>",
      "https://b\u0430nk.example/x (xn--bnk-6cd.example)",
    ],
    [
      "white space that browsers remove",
      "[https://bank.example&#9;.evil.example/](https://bank.example&#9;.evil.example/)",
      "https://bank.example\t.evil.example/ (bank.example.evil.example)",
    ],
  ])("says where a link leads if its text has %s", (_name, text, shown) => {
    expect(render(text).textContent).toBe(shown);
  });

  it("repeats no target that the text already has", () => {
    for (const text of ["https://a.example/b?c=\u00e9", "https://A.example", "http://a.example:8080/x%20y"])
      expect(render(`<${text}>`).textContent).toBe(text);
  });

  it("does not fetch images but links them", () => {
    const host = render("![chart](https://a.example/c.png)");
    expect(host.querySelector("img")).toBeNull();
    expect(host.textContent).toBe("image: chart (a.example)");
  });

  it("names control characters in text, code and link targets", () => {
    expect(render("a\u202eb `c\u200bd`").textContent).toBe("aRLOb cZWSPd");
    expect(render("x &#x202e; y").textContent).toBe("x RLO y");
    expect(render("[x](javascript:\u202ealert)").textContent).toContain("RLO");
  });

  it("draws what agents write", () => {
    const host = render(
      "# Head\n\n- **a** `b`\n- [x] done\n\n1. one\n\n| h |\n|--|\n| c |\n\n```go\nx := 1\n```\n\n> q\n\nR&amp;D &lt;ok&gt;",
    );
    expect(host.querySelector("h3")?.textContent).toBe("Head");
    expect(host.querySelector("li strong")?.textContent).toBe("a");
    expect(host.querySelector("li.task")?.textContent).toContain("done");
    expect(host.querySelector("td")?.textContent).toBe("c");
    expect(host.querySelector("pre")?.textContent).toBe("x := 1");
    expect(host.textContent).toContain("R&D <ok>");
  });

  it("keeps the rank of each heading", () => {
    const host = render("# a\n\n## b\n\n### c\n\n###### d");
    expect([...host.querySelectorAll("h3")].map((e) => e.dataset.level)).toEqual(["1", "2", "3", "6"]);
  });

  it("names the language of a code block and wraps its lines on request", () => {
    const host = render("```go\nx := 1\n```\n\n```\ny\n```\n\n```a\u202eb\nz\n```");
    const labels = [...host.querySelectorAll(".code-head > span:first-child")].map((e) => e.textContent);
    expect(labels).toEqual(["go", "text", "aRLOb"]);
    const wrap = host.querySelector<HTMLButtonElement>("button[aria-label='Wrap lines']");
    const pre = host.querySelector("pre");
    expect(wrap?.getAttribute("aria-pressed")).toBe("false");
    expect(pre?.className).not.toContain("whitespace-pre-wrap");
    act(() => wrap?.click());
    expect(wrap?.getAttribute("aria-pressed")).toBe("true");
    expect(pre?.className).toContain("whitespace-pre-wrap");
    act(() => wrap?.click());
    expect(pre?.className).not.toContain("whitespace-pre-wrap");
  });

  it.each([
    ["quotes", `${"> ".repeat(6_000)}x`],
    ["lists", `${"- ".repeat(4_000)}x`],
    ["an indented tree", Array.from({ length: 400 }, (_, i) => `${"  ".repeat(i)}- x`).join("\n")],
    ["emphasis", "*a".repeat(50_000)],
    ["kinds of emphasis in a paragraph", `${"*a_".repeat(6_300)}\n\n${"_a*".repeat(6_300)}`],
    ["strikes", "~a~~".repeat(4_700)],
    ["brackets", "[".repeat(50_000)],
    ["links", "[a](".repeat(20_000)],
    ["addresses", "a@".repeat(50_000)],
    ["lines that continue a quote", "> a\nb\n".repeat(50_000)],
    ["columns", `${"|a".repeat(5_000)}\n${"|-".repeat(5_000)}`],
    ["rows that lack cells", `${"|a".repeat(1_500)}\n${"|-".repeat(1_500)}\n${"a\n".repeat(1_400)}b`],
    [
      "tables with rows that lack cells",
      `${`${"|a".repeat(99)}\n${"|-".repeat(99)}\n${"a\n".repeat(99)}\n`.repeat(28)}b`,
    ],
    ["references to a long address", `> [a]: x:${"b".repeat(10_000)}\n>\n> ${"[a]".repeat(3_200)}c`],
  ])("survives too many %s, quickly", (_name, text) => {
    const took = cpuTime(() => expect(render(text).textContent).toContain(text.at(-1)));
    expect(took).toBeLessThan(4_000);
  });

  it("shows the marks of a paragraph with too many marks of emphasis", () => {
    const text = `${"*a* ".repeat(300)}b`;
    const host = render(`${text}\n\n*c*`);
    expect(host.querySelector("p")?.textContent).toBe(text);
    expect([...host.querySelectorAll("em")].map((e) => e.textContent)).toEqual(["c"]);
  });

  it("shows tables and references of ordinary sizes", () => {
    const host = render("|a|b|c|\n|-|-|-|\n|1|2|3|\n|4\n|5|6\n\n> [r]: https://example.org/\n>\n> [r] [r]");
    expect(host.querySelectorAll("td")).toHaveLength(9);
    expect(host.querySelectorAll("blockquote a")).toHaveLength(2);
  });

  it.each(["a", "constructor", "__proto__"])("shows further references as text: %s", (name) => {
    const host = render(`> [${name}]: x:${"b".repeat(1_000)}\n>\n> ${`[${name}]`.repeat(100)}c`);
    expect(host.textContent?.endsWith(`[${name}][${name}]c`)).toBe(true);
  });

  it("names the hidden characters behind the beginning of a long text in few elements", () => {
    const host = render("\u200b\u2060".repeat(100_000));
    expect(host.querySelectorAll("*").length).toBeLessThan(5_000);
    expect(host.textContent).not.toMatch(/[\u200b\u2060]/);
    expect(host.textContent?.endsWith("‹ZWSP›‹WJ›")).toBe(true);
    expect(host.querySelectorAll("wbr").length).toBeGreaterThan(700);
  });

  it("draws a line of hidden characters with few elements", () => {
    const host = render("\u200b".repeat(19_000));
    expect(host.querySelectorAll("*").length).toBeLessThan(2_200);
    expect(host.textContent?.match(/ZWSP/g)).toHaveLength(19_000);
  });

  it.each([
    ["Arabic", "\u0645"],
    ["Thai", "\u0e01"],
  ])("lets a very long word of letters that are shaped together be broken: %s", (_name, letter) => {
    for (const n of [1_000, 60_000]) {
      const host = render(letter.repeat(n));
      expect(host.textContent).toBe(letter.repeat(n));
      expect(host.querySelectorAll("wbr").length).toBeGreaterThanOrEqual(n / 200);
    }
    expect(render(letter.repeat(100)).querySelector("wbr")).toBeNull();
  });

  it("lets a very long word before many hidden characters, or with spaces at which no line breaks, be broken", () => {
    for (const text of ["\u0645".repeat(9_000) + "a\u200b".repeat(2_001), "\u0645\u00a0".repeat(4_500)])
      expect(render(text).querySelectorAll("wbr").length).toBeGreaterThanOrEqual(44);
  });

  it("lets a very long word of letters and hidden characters be broken", () => {
    const host = render(`${"\u0645".repeat(199)}\u200b`.repeat(90));
    expect(host.querySelectorAll("wbr").length).toBeGreaterThan(80);
    expect(render("\u0645\u200c\u0645 ".repeat(500)).querySelector("wbr")).toBeNull();
  });

  it.each([
    ["a letter and its marks", "\u0e01\u0e31\u0e49"],
    ["joined emoji", "\u{1f469}\u200d\u{1f4bb}"],
    ["two joined letters", "\u1780\u17d2\u1780"],
    ["an emoji and its colour", "\u{1f44d}\u{1f3fd}"],
  ])("breaks no very long word in %s", (_name, letter) => {
    for (const before of ["", "\u0e01", "\u0e01\u0e01"]) {
      const parts = render(before + letter.repeat(550)).innerHTML.split("<wbr>");
      expect(parts.length).toBeGreaterThan(4);
      for (const part of parts.slice(1)) expect(part.startsWith(letter)).toBe(true);
    }
  });

  it("finds very long words quickly", () => {
    const took = cpuTime(() => {
      for (const n of [199, 999, 1_999]) breakable(`${"a".repeat(n)} `.repeat(8_000_000 / n));
      breakable(`${"\u0645".repeat(199)} `.repeat(40_000));
    });
    expect(took).toBeLessThan(4_000);
  });

  it("splits a growing list item of many lines quickly", () => {
    const took = cpuTime(() => {
      for (const lines of [23_000, 24_000, 25_000])
        expect(split(`- ${"a\n".repeat(lines)}`)).not.toHaveLength(0);
    });
    expect(took).toBeLessThan(4_000);
  });

  it("shows all of a text with too many lines", () => {
    const text = `**b**\n\n${"line\n\n".repeat(2_000)}**c**`;
    const host = render(text);
    expect([...host.querySelectorAll("strong")].map((e) => e.textContent)).toEqual(["b"]);
    expect(host.textContent?.match(/line/g)).toHaveLength(2_000);
    expect(host.textContent).toContain("**c**");
  });

  it("closes what is still open while text grows", () => {
    expect(render("some **bold", true).querySelector("strong")?.textContent).toBe("bold");
    expect(render("some **bold", false).textContent).toBe("some **bold");
  });
});

describe("split", () => {
  it("gives the same blocks grown bit by bit as at once", () => {
    const text =
      "# a\n\npara *x*\ngoes on\n\n- one\n- two\n\n  more\n\n```\ncode\n\nmore\n```\n\n| a |\n|--|\n| b |\n\n1. x\n2. y\n\nend\n===\n\n> q\nlazy\n\nlast";
    let before: { text: string; blocks: ReturnType<typeof split> } | undefined;
    for (let i = 1; i <= text.length; i++) {
      const now = text.slice(0, i);
      before = { text: now, blocks: split(now, before) };
      expect(before.blocks.map((b) => b.raw)).toEqual(split(now).map((b) => b.raw));
    }
  });

  it("renders only the beginning of a very long text as more than plain text", () => {
    for (const [line, shown] of [
      [`**a** ${"b".repeat(37)}\n\n`, 1_111], // as many as fit into 50,000 characters
      ["**a** b\n\n", 1_500], // 3,000 lines
    ] as const) {
      let before: { text: string; blocks: ReturnType<typeof split> } | undefined;
      for (const lines of [10, shown - 1, shown, shown + 1, shown + 50, 5_555, 9_000, 20_000]) {
        const now = line.repeat(lines);
        before = { text: now, blocks: split(now, before) };
        expect(before.blocks).toEqual(split(now));
        expect(before.blocks.map((b) => b.raw).join("")).toBe(now);
      }
      const host = render(line.repeat(9_000));
      expect(host.querySelectorAll("strong").length).toBe(shown);
      expect(host.textContent).toContain(line + line);
    }
  });

  it("starts anew if the text was replaced", () => {
    const before = { text: "a\n\nb\n\nc\n\nd", blocks: split("a\n\nb\n\nc\n\nd") };
    expect(split("other", before).map((b) => b.raw)).toEqual(["other"]);
  });
});

describe("safeHref", () => {
  it.each([
    "javascript:x",
    " javascript:x",
    "java\tscript:x",
    "\x01javascript:x",
    "data:x",
    "//evil",
    "/path",
    "#x",
    "https://a@b.example",
    "ftp://x",
    "blob:x",
    "&#x6a;avascript:x",
    "https:\\\\evil",
    "",
  ])("refuses %j", (href) => expect(safeHref(href)).toBeUndefined());
  it("lets web and mail addresses through", () => {
    expect(safeHref("https://a.example/b?c=1&amp;d=2")).toBe("https://a.example/b?c=1&d=2");
    expect(safeHref("mailto:a@b.example")).toBe("mailto:a@b.example");
  });
});

describe("decode", () => {
  it("knows references and leaves the rest", () => {
    expect(decode("&amp;&lt;&#x41;&#66;&unknown;&#xd800;&#99999999;")).toBe("&<AB&unknown;\ufffd&#99999999;");
  });
});
