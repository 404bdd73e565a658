import { FileText, TextCursorInput, X } from "lucide-react";
import { bytes, plural } from "../text/format";
import { plain } from "../text/visible";
import type { Attached } from "./files";

/**
 * The files attached to the next prompt, and the errors of those that failed. A
 * pasted text can be put back into the field.
 */
export function Files({
  files,
  onRemove,
  onText,
}: {
  files: Attached[];
  onRemove: (key: number) => void;
  onText: (text: string) => void;
}) {
  if (files.length === 0) return null;
  return (
    <ul className="flex flex-wrap gap-2 px-3 pt-3" aria-label="Attachments">
      {files.map((f) => (
        <li
          key={f.key}
          className={`flex max-w-full items-center gap-2 rounded-md border py-1 pl-2 text-sm ${f.problem ? "border-del" : ""} ${f.uploadId || f.problem ? "" : "progress"}`}
        >
          {f.preview ? (
            <img src={f.preview} alt="" className="size-7 rounded object-cover" />
          ) : (
            <FileText size={15} aria-hidden className="shrink-0 text-muted" />
          )}
          <span className="min-w-0">
            <span className="block truncate">
              {f.pasted === undefined ? (
                <>
                  {plain(f.name, 80)} {f.size > 0 && <span className="text-muted">{bytes(f.size)}</span>}
                </>
              ) : (
                <>
                  Pasted text{" "}
                  <span className="text-muted">{plural(f.pasted.split("\n").length, "line")}</span>
                </>
              )}
            </span>
            {f.problem && (
              <span className="block text-del">{plain(f.problem.replace(`${f.name}: `, ""), 300)}</span>
            )}
          </span>
          {f.pasted !== undefined && (
            <button
              type="button"
              className="quiet shrink-0 whitespace-nowrap"
              onClick={() => {
                onRemove(f.key);
                onText(f.pasted ?? "");
              }}
            >
              <TextCursorInput size={14} aria-hidden /> Paste as text
            </button>
          )}
          <button
            type="button"
            className="quiet"
            onClick={() => onRemove(f.key)}
            aria-label={`Remove ${f.pasted === undefined ? plain(f.name, 80) : "the pasted text"}`}
          >
            <X size={14} aria-hidden />
          </button>
        </li>
      ))}
    </ul>
  );
}
