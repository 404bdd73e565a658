import { WrapText } from "lucide-react";
import { Fragment, memo, useState } from "react";
import { CopyButton } from "../app/Copy";
import { languageOf } from "../text/language";
import { Visible } from "../text/Shown";
import { Spans, useTextColours } from "./colours";

/** A code block in Markdown text, with its language and a switch that wraps its lines. */
export const CodeBlock = memo(function CodeBlock({ code, language }: { code: string; language: string }) {
  const lines = useTextColours(code, languageOf(language));
  const [wrapped, setWrapped] = useState(false);
  return (
    <div className="rounded-md border bg-panel">
      <div className="code-head">
        <span className="min-w-0 flex-1 truncate" dir="ltr">
          <Visible text={language || "text"} />
        </span>
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
    </div>
  );
});
