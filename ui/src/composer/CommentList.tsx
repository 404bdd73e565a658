import { X } from "lucide-react";
import { type Comment, placeOf, removeComments } from "../model/comments";
import { plain } from "../text/visible";

/** The comments on lines that the next prompt will contain. */
export function CommentList({ session, comments }: { session: string; comments: readonly Comment[] }) {
  if (comments.length === 0) return null;
  return (
    <section aria-label="Comments" className="max-h-32 overflow-y-auto border-b px-1.5 py-1" tabIndex={0}>
      <ul>
        {comments.map((c, i) => (
          <li key={i} className="flex items-center gap-2 pl-1.5 text-sm">
            <span className="max-w-[50%] shrink-0 truncate font-mono text-xs text-muted">
              {plain(placeOf(c))}
            </span>
            <span className="min-w-0 flex-1 truncate">{plain(c.text)}</span>
            <button
              type="button"
              className="quiet"
              onClick={() => removeComments(session, [c])}
              aria-label={`Remove the comment on ${plain(placeOf(c))}`}
              title="Remove the comment"
            >
              <X size={14} aria-hidden />
            </button>
          </li>
        ))}
      </ul>
    </section>
  );
}
