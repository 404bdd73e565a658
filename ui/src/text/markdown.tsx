// Markdown to React elements. There is no HTML anywhere on this way: marked only
// splits the text into tokens, HTML in it is shown as the text it is, links lead
// to http, https and mail only, and images are links that nobody fetches.

import { Lexer, type MarkedToken, marked, type Token, type Tokens } from "marked";
import { Fragment, memo, type ReactNode } from "react";
import remend from "remend";
import { CodeBlock } from "../stream/CodeBlock";
import { Visible } from "./Shown";

export interface Block {
  raw: string;
  key: number; // where it begins
}

/**
 * Splits text into top-level blocks. What was split before is used again where
 * the text only grew: all blocks but the last two are settled.
 */
export function split(text: string, before?: { text: string; blocks: readonly Block[] }): Block[] {
  let settled: readonly Block[] = [];
  if (before && before.blocks.length > 2 && text.length >= before.text.length && text.startsWith(before.text))
    settled = before.blocks.slice(0, -2);
  const last = settled.at(-1);
  let at = last ? last.key + last.raw.length : 0;
  const out = settled.slice();
  for (const token of lex(text.slice(at), (rest) => new Lexer().blockTokens(rest))) {
    out.push({ raw: token.raw, key: at });
    at += token.raw.length;
  }
  return out;
}

// A text that is nested beyond all reason is no Markdown, but shown as it is.
function lex(text: string, by: (text: string) => Token[]): Token[] {
  try {
    return by(text);
  } catch {
    return [{ type: "html", raw: text, text, pre: false, block: true }];
  }
}

const longest = 20_000; // characters of a block; beyond it only code is worth drawing as more than text
const fence = /^ {0,3}(```|~~~)/;

/** One block of Markdown. `live` mends what is not closed yet. */
export const MarkdownBlock = memo(function MarkdownBlock({ raw, live }: { raw: string; live?: boolean }) {
  if (raw.length > longest && !fence.test(raw))
    return block({ type: "html", raw, text: raw, pre: false, block: true }, 0);
  const text = live ? remend(raw, { images: false, linkMode: "text-only" }) : raw;
  return <>{blocks(lex(text, marked.lexer), 0)}</>;
});

const deepest = 40; // quotes in quotes, lists in lists; what is deeper is shown as text

function blocks(tokens: readonly Token[], depth: number): ReactNode[] {
  return tokens.map((t, i) => <Fragment key={i}>{block(t as MarkedToken, depth)}</Fragment>);
}

function block(t: MarkedToken, depth: number): ReactNode {
  if (depth > deepest) return <Visible text={t.raw} />;
  switch (t.type) {
    case "space":
    case "def":
      return null;
    case "hr":
      return <hr />;
    case "heading":
      // The page's own headings are h1 and h2. An agent's are all one below them:
      // it leaves out levels as it likes, and only a part of them is on the page.
      return (
        <h3 dir={direction(depth)} data-level={t.depth}>
          {inline(t.tokens, depth)}
        </h3>
      );
    case "code":
      return <CodeBlock code={t.text} language={t.lang?.split(/\s/)[0] ?? ""} />;
    case "blockquote":
      return <blockquote dir="auto">{blocks(t.tokens, depth + 1)}</blockquote>;
    case "list":
      return list(t, depth);
    case "table":
      return table(t, depth);
    case "paragraph":
      return <p dir={direction(depth)}>{inline(t.tokens, depth)}</p>;
    case "html":
      return (
        <p dir={direction(depth)} className="whitespace-pre-wrap">
          <Visible text={t.raw.trimEnd()} />
        </p>
      );
    case "text":
      return t.tokens ? inline(t.tokens, depth) : <Visible text={decode(t.text)} />;
    default:
      return <Visible text={t.raw} />;
  }
}

// A quote or a list has one direction, found in its text, so that its border or
// its marks stand where its lines begin. A block inside must have no `dir` of
// its own: browsers would skip its text.
const direction = (depth: number) => (depth === 0 ? "auto" : undefined);

function list(t: Tokens.List, depth: number): ReactNode {
  const items = t.items.map((item, i) => (
    <li key={i} className={item.task ? "task" : undefined}>
      {item.task && <span className="task-box">{item.checked ? "☑" : "☐"}</span>}
      {blocks(
        item.tokens.filter((x) => (x.type as string) !== "checkbox"),
        depth + 1,
      )}
    </li>
  ));
  return t.ordered ? (
    <ol dir="auto" start={t.start === "" ? undefined : t.start}>
      {items}
    </ol>
  ) : (
    <ul dir="auto">{items}</ul>
  );
}

function table(t: Tokens.Table, depth: number): ReactNode {
  const align = (i: number) => (t.align[i] ? { textAlign: t.align[i] as "left" } : undefined);
  return (
    <div className="table-scroll" tabIndex={0}>
      <table>
        <thead>
          <tr>
            {t.header.map((c, i) => (
              <th key={i} dir="auto" style={align(i)} scope="col">
                {inline(c.tokens, depth)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {t.rows.map((row, r) => (
            <tr key={r}>
              {row.map((c, i) => (
                <td key={i} dir="auto" style={align(i)}>
                  {inline(c.tokens, depth)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function inline(tokens: readonly Token[] | undefined, depth: number): ReactNode[] {
  return (tokens ?? []).map((t, i) => <Fragment key={i}>{span(t as MarkedToken, depth)}</Fragment>);
}

function span(t: MarkedToken, depth: number): ReactNode {
  if (depth > deepest) return <Visible text={t.raw} />;
  switch (t.type) {
    case "strong":
      return <strong>{inline(t.tokens, depth + 1)}</strong>;
    case "em":
      return <em>{inline(t.tokens, depth + 1)}</em>;
    case "del":
      return <del>{inline(t.tokens, depth + 1)}</del>;
    case "codespan":
      return (
        <code>
          <Visible text={t.text} />
        </code>
      );
    case "br":
      return <br />;
    case "link":
      return <Link href={t.href} label={t.text} content={inline(t.tokens, depth + 1)} />;
    case "image":
      return (
        <Link href={t.href} label={t.text} content={<Visible text={`image: ${t.text || "untitled"}`} />} />
      );
    case "escape":
      return <Visible text={t.text} />;
    case "text":
      return t.tokens ? inline(t.tokens, depth + 1) : <Visible text={decode(t.text)} />;
    default:
      return <Visible text={t.raw} />; // HTML among them
  }
}

/** The address of a link that may be followed, or undefined. */
export function safeHref(href: string): string | undefined {
  // Browsers drop tabs and line breaks in a scheme; so what is left decides.
  const clean = decode(href).replace(/[\0-\x20\x7f-\x9f]/g, "");
  if (!/^(https?:\/\/|mailto:)/i.test(clean)) return undefined;
  try {
    const url = new URL(clean);
    if (url.username || url.password) return undefined; // https://bank.example@evil.example
    return ["http:", "https:", "mailto:"].includes(url.protocol) ? url.href : undefined;
  } catch {
    return undefined;
  }
}

function Link({ href, label, content }: { href: string; label: string; content: ReactNode }) {
  const safe = safeHref(href);
  if (!safe)
    return (
      <span>
        {content}{" "}
        <span className="text-muted">
          (<Visible text={href} />)
        </span>
      </span>
    );
  // The true target is read, not guessed: shown whenever the text does not say it.
  const said = label === safe || `${label}/` === safe || label === href;
  return (
    <>
      <a href={safe} target="_blank" rel="noopener noreferrer nofollow" title={safe}>
        {content}
      </a>
      {!said && <span className="link-target"> ({target(safe)})</span>}
    </>
  );
}

function target(href: string): string {
  const url = new URL(href);
  return url.protocol === "mailto:" ? url.pathname : url.host;
}

const entities: Record<string, string> = {
  amp: "&",
  lt: "<",
  gt: ">",
  quot: '"',
  apos: "'",
  nbsp: "\u00a0",
  copy: "©",
  hellip: "…",
  mdash: "—",
  ndash: "–",
  rarr: "→",
  larr: "←",
  times: "×",
};

/** Character references as the characters they stand for. */
export function decode(text: string): string {
  if (!text.includes("&")) return text;
  return text.replace(/&(?:#(\d{1,7})|#[xX]([0-9a-fA-F]{1,6})|([a-z]{2,8}));/g, (all, dec, hex, name) => {
    if (name) return entities[name] ?? all;
    const code = dec ? Number(dec) : Number.parseInt(hex, 16);
    return code > 0 && code <= 0x10ffff && !(code >= 0xd800 && code <= 0xdfff)
      ? String.fromCodePoint(code)
      : "\ufffd";
  });
}
