// Syntax colours. The scripts that colour are loaded when the first text of a
// language is shown.

import { useEffect, useMemo, useState, useSyncExternalStore } from "react";
import { script } from "../app/parts";
import type { Language } from "../text/language";
import { Visible } from "../text/Shown";
import { byLine, colourHunk, type Span, type Token } from "../text/spans";
import { grammars } from "./grammars";

const most = 60_000; // characters; a longer text stays uncoloured, so that the page never stops

type Colour = (text: string) => Token[];

const ready = new Map<Language, Colour>();
const loading = new Set<Language>();
const waiting = new Set<() => void>();

async function load(language: Language) {
  if (ready.has(language) || loading.has(language)) return;
  loading.add(language);
  try {
    const [{ colour }, parser] = await Promise.all([
      script(() => import("../text/colours")),
      grammars[language](),
    ]);
    ready.set(language, (text) => colour(parser, text));
    for (const f of waiting) f();
  } catch {
    // The text stays uncoloured; the next one tries again.
  }
  loading.delete(language);
}

function subscribe(f: () => void) {
  waiting.add(f);
  return () => waiting.delete(f);
}

function useColour(language: Language | undefined): Colour | undefined {
  const colour = useSyncExternalStore(subscribe, () => language && ready.get(language));
  useEffect(() => {
    if (language) void load(language);
  }, [language]);
  return colour;
}

/** The coloured lines of a hunk; undefined while there are no colours. */
export function useHunkColours(lines: readonly string[], language: Language | undefined) {
  const colour = useColour(language);
  return useMemo(() => {
    if (!colour || lines.reduce((n, l) => n + l.length, 0) > most) return undefined;
    return colourHunk(lines, colour);
  }, [colour, lines]);
}

const still = 250; // ms without a change after which a text that grows is coloured

/** The coloured lines of a text; undefined while it grows or has no colours. */
export function useTextColours(text: string, language: Language | undefined): Span[][] | undefined {
  const colour = useColour(language);
  const [done, setDone] = useState<{ text: string; lines: Span[][] }>();
  useEffect(() => {
    if (!colour || text.length > most) return;
    const later = setTimeout(() => setDone({ text, lines: byLine(text, colour(text)) }), still);
    return () => clearTimeout(later);
  }, [colour, text]);
  return done?.text === text ? done.lines : undefined;
}

/** A coloured line. */
export function Spans({ spans }: { spans: readonly Span[] }) {
  return (
    <>
      {spans.map((s, i) => (
        <span key={i} className={s.style}>
          <Visible text={s.text} />
        </span>
      ))}
    </>
  );
}
