import { Fragment, memo } from "react";
import { CopyButton } from "../app/Copy";
import { languageOf } from "../text/language";
import { Visible } from "../text/Shown";
import { Spans, useTextColours } from "./colours";

/** A code block in Markdown text. */
export const CodeBlock = memo(function CodeBlock({ code, language }: { code: string; language: string }) {
  const lines = useTextColours(code, languageOf(language));
  return (
    <div className="group relative rounded-md border bg-panel">
      <pre className="overflow-x-auto px-3 py-2 font-mono text-sm" tabIndex={0} data-language={language}>
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
      <span className="absolute top-1 right-1 rounded-md bg-panel opacity-0 group-focus-within:opacity-100 group-hover:opacity-100">
        <CopyButton text={code} label="Copy code" />
      </span>
    </div>
  );
});
