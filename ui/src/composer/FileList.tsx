import { FileText, X } from "lucide-react";
import { bytes } from "../text/format";
import { plain } from "../text/visible";
import type { Attached } from "./files";

/**
 * The files attached to the next prompt, and the errors of those that failed.
 */
export function Files({ files, onRemove }: { files: Attached[]; onRemove: (key: number) => void }) {
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
              {plain(f.name, 80)} <span className="text-muted">{bytes(f.size)}</span>
            </span>
            {f.problem && <span className="block text-del">{plain(f.problem, 300)}</span>}
          </span>
          <button
            type="button"
            className="quiet"
            onClick={() => onRemove(f.key)}
            aria-label={`Remove ${plain(f.name, 80)}`}
          >
            <X size={14} aria-hidden />
          </button>
        </li>
      ))}
    </ul>
  );
}
