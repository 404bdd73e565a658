// Converts Markdown to React elements without any HTML on the way: marked only
// splits the text into tokens, and HTML in it is shown as text. Links lead only
// to http, https and mail addresses, and to files of the session's folder. Only
// images of that folder are loaded; other images become links.

import { getDefaults, Lexer, type Links, type MarkedToken, type Token, Tokenizer, type Tokens } from "marked";
import { Fragment, memo, type ReactNode, useContext } from "react";
import remend from "remend";
import { CodeBlock, Growing } from "../stream/CodeBlock";
import { CodeSpan, FileLink, InProject, LinkedText } from "./FileLink";
import { ProjectImage } from "./ProjectImage";
import { linkedPlace } from "./places";
import { breakable, Visible } from "./Shown";
import { named } from "./visible";

export interface Block {
  raw: string;
  key: number; // offset of its first character
  plain?: true; // is shown as plain text
}

// Number of characters of a text that are rendered as Markdown. The time for
// hostile Markdown grows with the square of its length, and a text of an agent
// may have megabytes.
const formatted = 50_000;

// Number of lines of a text that are rendered as Markdown. The time to find the
// items of a list grows with the product of its lines and its characters.
const formattedLines = 3_000;

const longest = 20_000; // characters; of longer blocks only code is rendered as more than plain text

/**
 * Splits text into top-level blocks. If the text only grew since `before`, all
 * blocks but the last two are reused. What follows the beginning of a very long
 * text becomes blocks of plain text.
 */
export function split(text: string, before?: { text: string; blocks: readonly Block[] }): Block[] {
  let settled: readonly Block[] = [];
  if (before && before.blocks.length > 2 && text.length >= before.text.length && text.startsWith(before.text))
    settled = before.blocks.slice(0, -2);
  const last = settled.at(-1);
  let at = last ? last.key + last.raw.length : 0;
  const out = settled.slice();
  const head = formattedEnd(text);
  for (const token of lex(text.slice(at, head), (rest) => lexer(rest).blockTokens(rest))) {
    out.push({ raw: token.raw, key: at });
    at += token.raw.length;
  }
  for (; at < text.length; at += longest)
    out.push({ raw: text.slice(at, at + longest), key: at, plain: true });
  return out;
}

// The end of the part of a text that is rendered as Markdown.
function formattedEnd(text: string): number {
  const end = text.length > formatted ? text.lastIndexOf("\n", formatted) + 1 || formatted : text.length;
  let at = 0;
  for (let line = 0; line < formattedLines; line++) {
    at = text.indexOf("\n", at) + 1;
    if (at === 0 || at >= end) return end;
  }
  return at;
}

// Splits text into tokens with `by`. Text that is nested too deeply is shown as
// plain text.
function lex(text: string, by: (text: string) => Token[]): Token[] {
  try {
    return by(text);
  } catch {
    return [{ type: "html", raw: text, text, pre: false, block: true }];
  }
}

const fence = /^ {0,3}(```|~~~)/;

// Number of marks of emphasis in a paragraph. In a paragraph with more marks,
// all marks are shown as text, because the time to pair them grows with the
// square of their number.
const mostMarks = 500;

// Number of times that the targets of references may be as long as the text
// itself. Every reference has a copy of its target.
const mostCopies = 10;

class BoundedTokenizer extends Tokenizer {
  private counted = "";
  private tooMany = false;

  /** `left` is the number of characters that targets of references may have. */
  constructor(private left: number) {
    super();
  }

  // Returns nothing for a table with more cells than twice its characters, so
  // that it is shown as text. Rows that lack cells are filled up.
  override table(src: string) {
    const [all, head, , rows] = this.rules.block.table.exec(src) ?? [];
    const columns = head?.split("|").length ?? 0;
    if (all && columns * (1 + (rows?.split("\n").length ?? 0)) > 2 * all.length) return undefined;
    return super.table(src);
  }

  override reflink(src: string, links: Links) {
    const found = super.reflink(src, links);
    if (found?.type !== "link" && found?.type !== "image") return found;
    this.left -= found.href.length + (found.title?.length ?? 0);
    return this.left < 0 ? super.reflink(src, Object.create(null)) : found;
  }

  override emStrong(src: string, masked: string, before?: string) {
    return this.hasTooMany(masked) ? undefined : super.emStrong(src, masked, before);
  }

  override del(src: string, masked: string, before?: string) {
    return this.hasTooMany(masked) ? undefined : super.del(src, masked, before);
  }

  private hasTooMany(masked: string): boolean {
    if (masked !== this.counted) {
      this.counted = masked;
      this.tooMany = (masked.match(/[*_~]+/g)?.length ?? 0) > mostMarks;
    }
    return this.tooMany;
  }
}

const lexer = (text: string) =>
  new Lexer({ ...getDefaults(), tokenizer: new BoundedTokenizer(mostCopies * text.length) });

const tokens = (text: string): Token[] => lexer(text).lex(text);

/**
 * One block of Markdown, or of plain text. `live` closes marks that are still
 * open.
 */
export const MarkdownBlock = memo(function MarkdownBlock({
  raw,
  live,
  plain,
}: {
  raw: string;
  live?: boolean;
  plain?: boolean;
}) {
  // An element for each mark of megabytes of hidden characters would freeze the page.
  if (plain)
    return (
      <p dir="auto" className="whitespace-pre-wrap">
        {breakable(named(raw).trimEnd())}
      </p>
    );
  if (raw.length > longest && !fence.test(raw))
    return block({ type: "html", raw, text: raw, pre: false, block: true }, 0);
  const text = live ? remend(raw, { images: false, linkMode: "text-only" }) : raw;
  return <Growing value={live === true}>{blocks(lex(text, tokens), 0)}</Growing>;
});

const deepest = 40; // maximum depth of quotes and lists; deeper ones are shown as text

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
      // h1 and h2 are the page's own headings, so all headings of an agent are
      // h3. Agents skip levels, and only a part of their headings is on the
      // page.
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
      return t.tokens ? inline(t.tokens, depth) : <LinkedText text={decode(t.text)} />;
    default:
      return <Visible text={t.raw} />;
  }
}

// A quote or a list has one direction, found from its text, so that its border
// or marks are on the side where its lines begin. A block inside must have no
// `dir` of its own, because browsers would then ignore its text.
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
      return <CodeSpan text={t.text} />;
    case "br":
      return <br />;
    case "link":
      return <Link href={t.href} label={t.text} content={inline(t.tokens, depth + 1)} />;
    case "image":
      return <Image href={t.href} alt={t.text} />;
    case "escape":
      return <Visible text={t.text} />;
    case "text":
      return t.tokens ? inline(t.tokens, depth + 1) : <LinkedText text={decode(t.text)} />;
    default:
      return <Visible text={t.raw} />; // HTML, for example
  }
}

/** The URL of a link that may be opened; undefined if it must not. */
export function safeHref(href: string): string | undefined {
  // Browsers ignore tabs and line breaks in a scheme, so they are removed
  // before the check.
  const clean = decode(href).replace(/[\0-\x20\x7f-\x9f]/g, "");
  if (!/^(https?:\/\/|mailto:)/i.test(clean)) return undefined;
  try {
    const url = new URL(clean);
    if (url.username || url.password) return undefined; // such as https://bank.example@evil.example
    return ["http:", "https:", "mailto:"].includes(url.protocol) ? url.href : undefined;
  } catch {
    return undefined;
  }
}

function Image({ href, alt }: { href: string; alt: string }) {
  const project = useContext(InProject);
  const place = project && linkedPlace(href, project.dir);
  if (place) return <ProjectImage session={project.session} path={place.path} alt={alt} />;
  return <Link href={href} label={alt} content={<Visible text={`image: ${alt || "untitled"}`} />} />;
}

// The content of a link has no links.
const bare = (content: ReactNode) => <InProject value={undefined}>{content}</InProject>;

function Link({ href, label, content }: { href: string; label: string; content: ReactNode }) {
  const project = useContext(InProject);
  const safe = safeHref(href);
  const place = safe ? undefined : project && linkedPlace(href, project.dir);
  if (project && place)
    return (
      <>
        <FileLink session={project.session} place={place}>
          {bare(content)}
        </FileLink>
        {label !== href && (
          <span className="link-target">
            {" "}
            (<Visible text={href} />)
          </span>
        )}
      </>
    );
  if (!safe)
    return (
      <span>
        {content}{" "}
        <span className="text-muted">
          (<Visible text={href} />)
        </span>
      </span>
    );
  // Show the real target whenever the text of the link differs from it. The
  // text may write a path in another way, but not the host, which may have
  // letters that look like others.
  const said = label === safe || `${label}/` === safe || (label === href && namesHost(label, safe));
  return (
    <>
      <a href={safe} target="_blank" rel="noopener noreferrer nofollow" title={safe}>
        {bare(content)}
      </a>
      {!said && <span className="link-target"> ({target(safe)})</span>}
    </>
  );
}

/** Whether a text begins with the scheme and host of a URL as they are in it. */
function namesHost(text: string, url: string): boolean {
  const { protocol, host } = new URL(url);
  const origin = `${protocol}//${host}`;
  return (
    text.slice(0, origin.length).toLowerCase() === origin && /^([/?#]|$)/.test(text.slice(origin.length))
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

/** Replaces character references by the characters that they stand for. */
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
