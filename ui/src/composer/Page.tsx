import { ExternalLink, TriangleAlert } from "lucide-react";
import { Exact, Visible } from "../text/Shown";

/**
 * The target of a page that an agent wants the user to visit, or the reason why
 * it is not offered as a link.
 */
export function pageOf(url: string): { href: string; host: string; warning?: string } | { why: string } {
  if (/[\0-\x20\x7f-\x9f]/.test(url) || !URL.canParse(url)) return { why: "This is not a valid address." };
  const u = new URL(url);
  if (u.protocol !== "https:" && u.protocol !== "http:")
    return { why: "Only http and https addresses can be opened." };
  if (u.username || u.password)
    return { why: "The address contains a user name, which can disguise its host." };
  if (u.host.split(".").some((part) => part.startsWith("xn--")))
    return {
      href: u.href,
      host: u.host,
      warning: "The host name contains letters that can imitate others.",
    };
  if (u.protocol === "http:" && !/^(localhost|127\.0\.0\.1|\[::1\])$/.test(u.hostname))
    return { href: u.href, host: u.host, warning: "The connection is not encrypted." };
  return { href: u.href, host: u.host };
}

/**
 * A page to visit. Its whole address is shown as text, and only a click opens
 * it.
 */
export function Page({ message, url, link }: { message: string; url: string; link: boolean }) {
  const page = pageOf(url);
  return (
    <div className="flex flex-col gap-3">
      {message && (
        <p className="isolate-text whitespace-pre-wrap">
          <Visible text={message} />
        </p>
      )}
      <pre className="mono-block rounded-md border bg-panel px-3 py-2 break-all">
        <Exact text={url} />
      </pre>
      {"why" in page ? (
        <p className="text-sm text-del">{page.why}</p>
      ) : (
        <>
          {page.warning && (
            <p className="flex gap-2 text-sm text-mark">
              <TriangleAlert size={14} aria-hidden className="mt-0.5 shrink-0" />
              {page.warning}
            </p>
          )}
          {link && (
            <p>
              <a
                className="button h-auto max-w-full text-left whitespace-normal"
                href={page.href}
                target="_blank"
                rel="noopener noreferrer nofollow"
              >
                <ExternalLink size={14} aria-hidden className="shrink-0" />
                <span className="isolate-text">
                  Open <strong>{page.host}</strong> in a new tab
                </span>
              </a>
            </p>
          )}
        </>
      )}
    </div>
  );
}
