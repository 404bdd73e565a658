import { Code, Network, WrapText } from "lucide-react";
import { createContext, Fragment, memo, type ReactNode, useContext, useState } from "react";
import { CopyButton } from "../app/Copy";
import { part } from "../app/parts";
import { languageOf } from "../text/language";
import { Visible } from "../text/Shown";
import { Spans, useTextColours } from "./colours";

const Diagram = part(() => import("./Diagram").then((m) => m.Diagram));

/** Whether the text around a block is still growing. */
export const Growing = createContext(false);

/** A code block in Markdown text: a diagram if it is one and complete, else its code. */
export const CodeBlock = memo(function CodeBlock({ code, language }: { code: string; language: string }) {
  const growing = useContext(Growing);
  const [asCode, setAsCode] = useState(false);
  const [problem, setProblem] = useState<string>();
  if (language.toLowerCase() !== "mermaid" || growing) return <Listing code={code} language={language} />;
  if (problem !== undefined)
    return <Listing code={code} language={language} note={`No diagram: ${problem}`} />;
  const other = (
    <button
      type="button"
      className="quiet shrink-0"
      aria-label={asCode ? "Show the diagram" : "Show the code"}
      title={asCode ? "Show the diagram" : "Show the code"}
      onClick={() => setAsCode(!asCode)}
    >
      {asCode ? <Network size={14} aria-hidden /> : <Code size={14} aria-hidden />}
    </button>
  );
  if (asCode) return <Listing code={code} language={language} tool={other} />;
  return (
    <div className="rounded-md border bg-panel">
      <div className="code-head">
        <span className="min-w-0 flex-1 truncate">mermaid</span>
        {other}
        <CopyButton text={code} label="Copy code" />
      </div>
      <Diagram code={code} onProblem={setProblem} />
    </div>
  );
});

/** The code of a block, with its language and a switch that wraps its lines. */
function Listing({
  code,
  language,
  tool,
  note,
}: {
  code: string;
  language: string;
  tool?: ReactNode;
  note?: string;
}) {
  const lines = useTextColours(code, languageOf(language));
  const [wrapped, setWrapped] = useState(false);
  return (
    <div className="rounded-md border bg-panel">
      <div className="code-head">
        <span className="min-w-0 flex-1 truncate" dir="ltr">
          <Visible text={language || "text"} />
        </span>
        {tool}
        <button
          type="button"
          className="quiet shrink-0"
          aria-label="Wrap lines"
          aria-pressed={wrapped}
          title="Wrap lines"
          onClick={() => setWrapped(!wrapped)}
        >
          <WrapText size={14} aria-hidden />
        </button>
        <CopyButton text={code} label="Copy code" />
      </div>
      <pre
        className={`overflow-x-auto px-3 pb-2 font-mono text-sm ${wrapped ? "whitespace-pre-wrap" : ""}`}
        tabIndex={0}
        data-language={language}
      >
        <code>
          {lines ? (
            lines.map((spans, i) => (
              <Fragment key={i}>
                {i > 0 && "\n"}
                <Spans spans={spans} />
              </Fragment>
            ))
          ) : (
            <Visible text={code} />
          )}
        </code>
      </pre>
      {note && (
        <p className="isolate-text border-t px-3 py-1 text-sm text-muted">
          <Visible text={note} />
        </p>
      )}
    </div>
  );
}
