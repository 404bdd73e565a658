import { Check, Copy as Icon } from "lucide-react";
import { useState } from "react";

/** A command with a button that copies it. The command is shown unchanged. */
export function Command({ text }: { text: string }) {
  return (
    <span className="inline-flex max-w-full items-center gap-1 rounded-md border bg-panel pl-2">
      <code className="mono-block min-w-0 py-1">{text}</code>
      <CopyButton text={text} label={`Copy ${text}`} />
    </span>
  );
}

export function CopyButton({ text, label = "Copy" }: { text: string | (() => string); label?: string }) {
  const [state, setState] = useState<"" | "done" | "failed">("");
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(typeof text === "string" ? text : text());
      setState("done");
    } catch {
      setState("failed"); // browsers offer no clipboard without TLS, except on localhost
    }
    setTimeout(() => setState(""), 1500);
  };
  return (
    <button
      type="button"
      className="quiet shrink-0"
      onClick={copy}
      aria-label={label}
      title={state === "failed" ? "Copy failed" : label}
    >
      {state === "done" ? <Check size={14} aria-hidden /> : <Icon size={14} aria-hidden />}
      <span className="sr-only" role="status">
        {state === "done" ? "Copied" : state === "failed" ? "Copy failed" : ""}
      </span>
    </button>
  );
}
